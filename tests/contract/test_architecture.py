"""The import contracts hold, and would be seen to break; a manager loads no more than it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def copy_tree(folder: Path) -> Path:
    """A copy of the source tree that a test may spoil."""
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
    with path.with_suffix(".py").open("a") as file:
        file.write(source)


WRONG_DIRECTIONS = [
    pytest.param("schedkit.schedctl.spoiled", "schedkit.sked.main", id="schedctl never imports sked"),
    pytest.param("schedkit.sked.spoiled", "schedkit.schedctl.main", id="sked never imports schedctl"),
    pytest.param("schedkit.kernel.spoiled", "schedkit.oci.something", id="rooms are independent"),
    pytest.param("schedkit.kube.spoiled", "schedkit.cli", id="a room knows nothing of the front door"),
    pytest.param("schedkit.model.spoiled", "schedkit.kernel.something", id="the model does no I/O"),
]


FORBIDDEN = ["aiohttp", "asyncio", "logging", "os", "socket", "time", "urllib"]


# one forbidden import for each contract, by the contract's first words
FORBIDDEN_BY = {
    "Imports point one way": ("schedkit.model.images.spoiled", "schedkit.disk.whole"),
    "Rooms of the model": ("schedkit.model.images.spoiled", "schedkit.model.deploy.render"),
    "Rooms of oci": ("schedkit.oci.http.spoiled", "schedkit.oci.policy.files"),
    "Runtimes": ("schedkit.runtimes.podman.spoiled", "schedkit.runtimes.containerd.client"),
    "Rooms of kube": ("schedkit.kube.access.spoiled", "schedkit.kube.controller"),
    "Rooms of sked": ("schedkit.sked.trust.spoiled", "schedkit.sked.reconcile"),
    "The plugin of kubectl is imported on any laptop": (
        "schedkit.sked.plugin.spoiled",
        "schedkit.sked.wiring",
    ),
    "Rooms of schedctl": ("schedkit.schedctl.change.spoiled", "schedkit.schedctl.verbs.machine.stop"),
    "Verbs of schedctl import no verb": (
        "schedkit.schedctl.verbs.machine.ps",
        "schedkit.schedctl.verbs.machine.doctor",
    ),
    "The model computes": ("schedkit.model.images.spoiled", "socket"),
}


def contracts() -> dict[str, str]:
    """The whole names of all contracts, by their first words."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return {each["name"].partition(":")[0]: each["name"] for each in read}


@pytest.fixture(scope="module")
def said_of_all(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the linter says of each contract, about a tree with every mistake here: a run takes a second."""
    tree = copy_tree(tmp_path_factory.mktemp("spoiled"))
    add_module(tree, "schedkit.oci.something")
    add_module(tree, "schedkit.kernel.something")
    add_module(tree, "schedkit.utilities.something")
    for importer, imported in (*(each.values for each in WRONG_DIRECTIONS), *FORBIDDEN_BY.values()):
        add_module(tree, str(importer), f"import {imported}\n")
    for imported in FORBIDDEN:
        add_module(tree, f"schedkit.model.imports_{imported}", f"import {imported}\n")
    done = lint(tree)
    assert done.returncode == 1
    return {words: of_contract(done.stdout, name) for words, name in contracts().items()}


def of_contract(said: str, name: str) -> str:
    """The part of the linter's words about broken contracts that stands below this one's name."""
    _, _, below = said.partition(f"\n{name}\n{'-' * len(name)}\n")
    return re.split(r"\n-{10,}\n", below)[0]


@pytest.mark.parametrize(("importer", "imported"), WRONG_DIRECTIONS)
def test_an_import_in_the_wrong_direction_breaks_it(
    said_of_all: dict[str, str], importer: str, imported: str
) -> None:
    assert f"{importer} -> {imported}" in said_of_all["Imports point one way"]


@pytest.mark.parametrize("imported", FORBIDDEN)
def test_the_model_may_not_import_what_acts_or_waits(said_of_all: dict[str, str], imported: str) -> None:
    assert f"schedkit.model.imports_{imported} -> {imported}" in said_of_all["The model computes"]


def test_each_contract_is_seen_to_break() -> None:
    assert FORBIDDEN_BY.keys() == contracts().keys()


@pytest.mark.parametrize("words", FORBIDDEN_BY)
def test_one_forbidden_import_breaks_the_contract_that_forbids_it(
    said_of_all: dict[str, str], words: str
) -> None:
    importer, imported = FORBIDDEN_BY[words]

    assert f"{importer} -> {imported}" in said_of_all[words]


def test_a_package_without_a_place_in_the_contract_breaks_it(said_of_all: dict[str, str]) -> None:
    assert "utilities" in said_of_all["Imports point one way"]


def test_the_tree_keeps_it_and_so_do_imports_in_the_right_direction(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    add_module(tree, "schedkit.model.images.something")
    add_module(tree, "schedkit.oci.http.something", "import schedkit.model.images.something\n")
    add_module(tree, "schedkit.sked.trust.something", "import schedkit.oci.http.something\n")

    assert lint(tree).returncode == 0


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
    assert not loaded & {"cryptography", "grpc", "h11", "httpx2", "rfc3161_client", "tuf", "yaml"}
    assert "schedkit.kube.access.kubeconfigs" not in loaded
