"""The tree speaks of itself alone: no path of a machine, no package registry outside lock files."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CLONE = Path("/schedkit")  # a place for a clone whose name is also that of a folder in it
LOCK_FILES = {"uv.lock", "go.mod", "go.sum"}

# written so that this file passes its own test
_HOMES = r"/(root|home/[a-z][\w-]*|Users)/"
_HOSTS = (
    "pypi<dot>org",
    "pythonhosted<dot>org",
    "(deb|security|ftp|snapshot)[a-z0-9.-]*<dot>debian<dot>org",
    "(proxy|sum)<dot>golang<dot>org",
    "registry<dot>npmjs<dot>org",
    "(index|static)?<dot>?crates<dot>io",
    "goproxy<dot>[a-z]+",
)
REGISTRY_HOSTS = re.compile(rf"\b({'|'.join(_HOSTS)})\b".replace("<dot>", r"\."))


def machine_paths(clone: Path) -> re.Pattern[str]:
    """Homes of people, and the place of a clone; neither as a part of a longer path."""
    return re.compile(rf"(?<![\w.$}}/-])({_HOMES}|{re.escape(f'{clone}/')})")


def files_of(root: Path) -> Iterator[Path]:
    """Everything git would take, except lock files and what is not text."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in filter(None, listing.split("\0")):
        if Path(name).name not in LOCK_FILES and (root / name).is_file():
            yield root / name


def offences(root: Path, pattern: re.Pattern[str]) -> list[str]:
    """File, line and text of every match."""
    return [
        f"{file.relative_to(root)}:{number}: {line.strip()}"
        for file in files_of(root)
        if pattern.search(text := file.read_text(errors="replace"))  # most files need not be split
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def lock_offences(lock: Path) -> list[str]:
    """Packages of a lock that come from elsewhere than the public default index, or the project itself."""
    packages = tomllib.loads(lock.read_text())["package"]
    public = {"registry": f"https://pypi{'.'}org/simple"}
    return [
        f"{package['name']}: {package['source']}"
        for package in packages
        if package["source"] not in (public, {"editable": "."})
    ]


def test_no_path_of_a_machine() -> None:
    assert offences(ROOT, machine_paths(ROOT)) == []


def test_no_package_registry_outside_lock_files() -> None:
    assert offences(ROOT, REGISTRY_HOSTS) == []


def test_the_lock_points_at_the_public_default_index() -> None:
    assert lock_offences(ROOT / "uv.lock") == []
    urls = re.findall(r'url = "https?://([^/"]+)', (ROOT / "uv.lock").read_text())
    assert set(urls) == {f"files.pythonhosted{'.'}org"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        f"see /{'root'}/notes",
        f"'{CLONE}/tests'",
        f"PATH=/{'home'}/someone/bin",
        f'open("/{"Users"}/someone")',
    ],
)
def test_a_path_of_a_machine_is_found(tree: Path, text: str) -> None:
    (tree / "file.txt").write_text(f"good line\n{text}\n")

    assert offences(tree, machine_paths(CLONE)) == [f"file.txt:2: {text}"]


@pytest.mark.parametrize(
    "text",
    [
        "tests/root/folder",
        "HOME=/root in a guest",
        "$HOME/root/x",
        "root = /",
        "https://example.com/root/x",
        f"src{CLONE}/cli.py",
    ],
)
def test_a_path_in_the_tree_is_no_offence(tree: Path, text: str) -> None:
    (tree / "file.txt").write_text(f"{text}\n")

    assert offences(tree, machine_paths(CLONE)) == []


@pytest.mark.parametrize(
    "host", ["pypi_org", "deb_debian_org", "security_debian_org", "proxy_golang_org", "crates_io"]
)
def test_a_package_registry_is_found_but_not_in_a_lock_file(tree: Path, host: str) -> None:
    line = f"https://{host.replace('_', '.')}/x"
    (tree / "go.sum").write_text(line)
    (tree / "Dockerfile").write_text(line)

    assert offences(tree, REGISTRY_HOSTS) == [f"Dockerfile:1: {line}"]


def test_a_lock_that_points_elsewhere_is_found(tmp_path: Path) -> None:
    lock = tmp_path / "uv.lock"
    lock.write_text('[[package]]\nname = "click"\nsource = { registry = "https://mirror.example/simple" }\n')

    assert lock_offences(lock) == ["click: {'registry': 'https://mirror.example/simple'}"]
