"""The import contract holds, and would be seen to break."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the source tree that a test may spoil."""
    return copy_tree(tmp_path)


def copy_tree(folder: Path) -> Path:
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def add_module(folder: Path, name: str, source: str = "") -> None:
    path = folder / "src" / Path(*name.split("."))
    path.parent.mkdir(exist_ok=True)
    (path.parent / "__init__.py").touch()
    path.with_suffix(".py").write_text(source)


def test_the_tree_keeps_the_contract(copy: Path) -> None:
    assert lint(copy).returncode == 0


WRONG_DIRECTIONS = [
    pytest.param("schedkit.schedctl.spoiled", "schedkit.sked.main", id="schedctl never imports sked"),
    pytest.param("schedkit.sked.spoiled", "schedkit.schedctl.main", id="sked never imports schedctl"),
    pytest.param("schedkit.kernel.spoiled", "schedkit.oci.something", id="rooms are independent"),
    pytest.param("schedkit.kube.spoiled", "schedkit.cli", id="a room knows nothing of the front door"),
    pytest.param("schedkit.model.spoiled", "schedkit.kernel.something", id="the model does no I/O"),
]
FORBIDDEN = ["aiohttp", "asyncio", "logging", "os", "socket", "time", "urllib"]


@pytest.fixture(scope="module")
def said_of_all(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says about a tree with every one of these mistakes: it takes seconds each time."""
    tree = copy_tree(tmp_path_factory.mktemp("spoiled"))
    add_module(tree, "schedkit.oci.something")
    add_module(tree, "schedkit.kernel.something")
    for importer, imported in (each.values for each in WRONG_DIRECTIONS):
        add_module(tree, str(importer), f"import {imported}\n")
    for imported in FORBIDDEN:
        add_module(tree, f"schedkit.model.imports_{imported}", f"import {imported}\n")
    done = lint(tree)
    assert done.returncode == 1
    return done.stdout


@pytest.mark.parametrize(("importer", "imported"), WRONG_DIRECTIONS)
def test_an_import_in_the_wrong_direction_breaks_it(said_of_all: str, importer: str, imported: str) -> None:
    assert f"{importer} -> {imported}" in said_of_all


@pytest.mark.parametrize("imported", FORBIDDEN)
def test_the_model_may_not_import_what_acts_or_waits(said_of_all: str, imported: str) -> None:
    assert f"schedkit.model.imports_{imported} -> {imported}" in said_of_all


def test_imports_in_the_right_direction_keep_it(copy: Path) -> None:
    add_module(copy, "schedkit.model.images.something")
    add_module(copy, "schedkit.oci.http.something", "import schedkit.model.images.something\n")
    add_module(copy, "schedkit.sked.trust.something", "import schedkit.oci.http.something\n")

    assert lint(copy).returncode == 0


def test_a_package_without_a_place_in_the_contract_breaks_it(copy: Path) -> None:
    add_module(copy, "schedkit.utilities.something")

    done = lint(copy)

    assert done.returncode == 1
    assert "utilities" in done.stdout


def imported_by(file: Path) -> Iterator[str]:
    """The top-level packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_the_model_needs_nothing_but_msgspec_and_the_standard_library() -> None:
    """The contract forbids by name; this finds what nobody thought of."""
    files = (ROOT / "src/schedkit/model").rglob("*.py")
    imported = {name for file in files for name in imported_by(file)}

    assert imported - sys.stdlib_module_names - {"schedkit"} == {"msgspec"}


_IN_A_POD = """
import sys
from schedkit.kube.access import config
from schedkit.kube.errors import ConfigError
from schedkit.sked import wiring

try:
    config.discover(env={"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"})
except ConfigError as not_a_pod:
    assert "serviceaccount/token" in str(not_a_pod)
print(*sys.modules)
"""


def test_a_manager_in_a_pod_loads_nothing_that_only_others_need() -> None:
    """It has little memory: kubeconfigs, signatures and registries are none of its business."""
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_POD], capture_output=True, text=True, timeout=60, check=True
    )

    loaded = set(done.stdout.split())
    assert {"aiohttp", "structlog"} <= loaded
    assert not loaded & {"cryptography", "grpc", "httpx2", "rfc3161_client", "tuf", "yaml"}
    assert "schedkit.kube.access.kubeconfigs" not in loaded
