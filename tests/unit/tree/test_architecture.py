"""Names and imports of the tree, where no import contract says what they should be."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from schedkit.schedctl import main
from schedkit.schedctl.verbs import catalog, trust

ROOT = Path(__file__).parents[3]


def test_no_verb_is_left_out_of_the_contract_of_verbs() -> None:
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (held,) = (each["modules"] for each in read if each["type"] == "independence")
    verbs = [*main.VERBS.values(), *catalog.VERBS.values(), *trust.VERBS.values()]

    assert set(held) == {each.target.removesuffix(":command") for each in verbs if ":command" in each.target}


def test_the_map_of_every_room_names_every_module_in_it() -> None:
    """But for verbs, which are called like their modules and listed in `VERBS`."""
    verbs = {*main.VERBS.values(), *catalog.VERBS.values(), *trust.VERBS.values()}
    told_elsewhere = {each.target.partition(":")[0] for each in verbs}

    assert [each for each in _not_on_a_map(ROOT / "src/schedkit") if each not in told_elsewhere] == []


def _not_on_a_map(house: Path) -> Iterator[str]:
    for file in sorted(house.rglob("__init__.py")):
        words = re.findall(r"`(\w+)(?:\.\w+)*`", ast.get_docstring(ast.parse(file.read_text())) or "")
        for each in sorted(file.parent.iterdir()):
            is_module = each.suffix == ".py" and not each.stem.startswith("__")
            if (is_module or (each / "__init__.py").exists()) and each.stem not in words:
                yield ".".join((*file.parent.relative_to(house.parent).parts, each.stem))


def test_no_import_is_excused() -> None:
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text()


# Modules of one last name, and why room and name together say which is meant.
SAME_LAST_NAMES = {
    "certificates": "oci.sigstore: of signers; sked.http: of the manager's own server",
    "client": "of an API server, a registry, Podman and containerd: the room says of which",
    "config": "kube.access: a kubeconfig; schedctl.verbs: the verb `schedctl config`",
    "containers": "model.host: a container as decisions see it; runtimes: what only runtimes say of one",
    "errors": "each package that talks to the outside has the errors of that",
    "files": "kernel: small files of /proc and /sys; oci.policy: policies",
    "flags": "schedctl.settings: of `schedctl`; sked: of `sked`",
    "logs": "schedctl.verbs: the verb `schedctl logs`; sked: the manager's own log",
    "machine": "kernel: what this machine offers; schedctl.change: what a plan is performed on",
    "main": "the front door of each command",
    "observation": "kernel: one look at a machine; model.deploy: what a manager sees of a SchedExt",
    "plan": "model.deploy: of the DaemonSet; model.report: of the status",
    "probes": "sked.agent: of the agent, without a framework; sked.http: of the manager",
    "processes": "kernel: reads them; model.host: the values",
    "show": "`schedctl catalog show` and `schedctl trust show`",
    "snapshot": "model.host: one look as a value; schedctl.change: takes it",
    "status": "model.report: of a SchedExt; schedctl.verbs: the verb `schedctl status`",
    "stop": "the verbs `schedctl stop` and `kubectl sked stop`",
    "table": "model.readiness: of checks; schedctl.settings: of settings",
    "transport": "kube: HTTP to the API server; oci.http: HTTP to registries",
    "update": "`schedctl catalog update` and `schedctl trust update`",
    "verify": "oci.sigstore: the numbered steps; schedctl.verbs: the verb `schedctl verify`",
}


def test_modules_share_a_last_name_only_for_a_reason() -> None:
    places: dict[str, list[str]] = {}
    for file in (ROOT / "src/schedkit").rglob("*.py"):
        if not file.stem.startswith("__"):
            places.setdefault(file.stem, []).append(str(file.relative_to(ROOT / "src/schedkit")))

    assert {name for name, files in places.items() if len(files) > 1} == SAME_LAST_NAMES.keys(), places


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
