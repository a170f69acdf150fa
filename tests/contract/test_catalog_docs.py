"""The commands of docs/catalog and of docs/trust, run one after the other: they print what the pages say."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rig.base import processes
from rig.base.certificates import Authority
from rig.consoles import Command, File, steps
from rig.guest import schedulers
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.signatures import cosign
from rig.signatures.cosign import Cosign

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs/catalog").glob("*.md"), ROOT / "docs/trust/offline.md"]
CATALOG = ROOT / "src/schedkit/catalog.json"
# the public registry and the reader's own; one of the rig's stands in for both
NAMED_REGISTRIES = ("ghcr.io", "registry.example:5000")


@pytest.fixture(scope="module")
def copies(plain_registry: Registry, folder: Path, authority: Authority) -> Path:
    """Two schedulers in a registry that stands in for ghcr.io, signed with a key; its public half."""
    signer = Cosign(3, folder / "cosign-docs", ca_file=authority.ca_file)
    key = signer.new_key()
    for name in ("scx_rusty", "scx_bpfland"):
        repository = f"schedkit/{name}"
        for tag in ("1.0.9", "1.0.10", "latest"):
            digest = plain_registry.client.push(images.multi_platform_scheduler(), repository, tag)
        signer.sign(f"{plain_registry.host}/{repository}@{digest}", key)
    return key.public


@pytest.fixture
def home(copies: Path, tmp_path: Path) -> Path:
    """A folder with what the pages' reader has: a scheduler's program for two platforms, and a key."""
    for place, program in {
        "scx_mini": schedulers.binary("fifo"),
        "build/amd64/scx_mini": schedulers.binary("fifo"),
        "build/arm64/scx_mini": schedulers.foreign(),
        "ours.pub": copies,
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(program, tmp_path / place)
    return tmp_path


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, plain_registry: Registry, home: Path) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{cosign.program(3).parent}:/usr/bin:/bin",
        "COSIGN_PASSWORD": "",
        "HOME": str(home),
        "SCHEDCTL_CATALOG": str(home / "catalog.json"),
    }
    (home / "catalog.json").write_text(with_registry(CATALOG, plain_registry))
    followed = 0
    for step in steps(with_registry(page, plain_registry)):
        match step:
            case File(name, text):
                (home / name).write_text(text)
            case Command():
                follow(step, page, environment, home)
                followed += 1
    assert followed >= 2


def with_registry(file: Path, registry: Registry) -> str:
    text = file.read_text()
    for name in NAMED_REGISTRIES:
        text = text.replace(name, registry.host)
    return text


def follow(command: Command, page: Path, environment: Mapping[str, str], home: Path) -> None:
    argv = ["bash", "-c", f"exec 2>&1; {command.words}"]
    done = processes.run(argv, env=environment, cwd=home, check=False)
    shown = "\n".join(command.shown)
    complaint = f"{page.name}:{command.line}: $ {command.words}\nshown:\n{shown}\nsaid:\n{done.stdout}"
    assert command.matches(done.stdout), complaint
