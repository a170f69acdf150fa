"""What agents write is what the CRD of their reports takes."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from schedkit.model.api.schedextnode import (
    MAX_EXITS,
    MAX_FINDINGS,
    Eligibility,
    NodeAgent,
    NodeKernel,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import Exit, ExitKind
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.exits import with_exit
from schedkit.model.node.report import Identity, Look, report
from schedkit.model.readiness.checks import Outcome
from schedkit.model.readiness.table import Finding, Severity

CRD = Path(__file__).parents[4] / "config/crd/bases/sked.schedkit.io_schedextnodes.yaml"
AT = dt.datetime(2026, 11, 18, 9, 0, 0, 123456, tzinfo=dt.UTC)
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
LONG = "x\x1b[31m\n" * 4000
IDENTITY = Identity("node-uid", NodeKernel("7.2.0", "x86_64", "boot-1"), NodeAgent("0.1.0", "pod-uid"))


def version() -> dict[str, Any]:
    (only,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    found: dict[str, Any] = only
    return found


def faults(schema: dict[str, Any], value: object, path: str = "") -> Iterator[str]:
    """Why an API server would refuse, or silently cut, that value."""
    match value:
        case dict():
            yield from _faults_of_fields(schema, value, path)
        case list():
            yield from (each for part in value for each in faults(schema["items"], part, f"{path}[]"))
    limits = {
        f"{path} is no {schema['type']}": isinstance(value, KINDS[schema["type"]]),
        f"{path} is not among {schema.get('enum')}": value in schema.get("enum", [value]),
        f"{path} is too long": not isinstance(value, list) or len(value) <= schema["maxItems"],
        f"{path} has too many characters": not isinstance(value, str)
        or len(value) <= schema.get("maxLength", 1 << 30),
        f"{path} is too small": not isinstance(value, int) or value >= schema.get("minimum", value),
    }
    yield from (fault for fault, holds in limits.items() if not holds)


def _faults_of_fields(schema: dict[str, Any], value: dict[str, object], path: str) -> Iterator[str]:
    yield from (f"{path}.{name} is missing" for name in schema.get("required", []) if name not in value)
    yield from (f"{path}.{name} is unknown" for name in value if name not in schema["properties"])
    for name, part in schema["properties"].items():
        if name in value:
            yield from faults(part, value[name], f"{path}.{name}")


def accepted(status: SchedExtNodeStatus) -> list[str]:
    schema = version()["schema"]["openAPIV3Schema"]["properties"]["status"]
    return list(faults(schema, json.loads(msgspec.json.encode(status)), "status"))


def look(proof: Proof, state: State = State.ENABLED) -> Look:
    exits = with_exit((), Exit(LONG, ExitKind.ERROR_STALL, LONG, LONG, 1, 1), AT)
    for number in range(20):
        exits = with_exit(exits, Exit(f"ops{number}", ExitKind.UNKNOWN, "", "", 1, 0), AT)
    return Look(Snapshot(KernelState(state, LONG, 7), proof), AT, exits, AT, LONG)


@pytest.mark.parametrize(
    "proof",
    [
        Proof(Hold.NOTHING),
        Proof(Hold.NOBODY, reason=LONG),
        Proof(Hold.UNKNOWN, reason=LONG),
        Proof(Hold.UNKNOWN),
        Proof(Hold.LINK, Process(7, program=LONG)),
        Proof(Hold.LINK, Process(7, program="/x", cgroups=(f"/{'u' * 4000}.service",))),
        Proof(Hold.MAP, Process(7, cgroups=(f"/schedkit/{'c' * 4000}",))),
        Proof(Hold.LINK, Process(7, cgroups=(f"/pod{'0' * 8}-0000-0000-0000-{'0' * 12}/{'c' * 64}",))),
    ],
    ids=lambda proof: f"{proof.hold.value} {len(str(proof))}",
)
def test_whatever_a_node_says_its_report_is_accepted(proof: Proof) -> None:
    findings = [
        Finding(f"kernel.{number}", "", Severity.ERROR, Outcome.FAIL, LONG, "") for number in range(99)
    ]

    status = report(IDENTITY, look(proof), findings, None)

    assert accepted(status) == []
    assert (len(status.exits), len(status.findings)) == (MAX_EXITS, MAX_FINDINGS)


@pytest.mark.parametrize("state", State)
def test_every_state_of_a_kernel_is_accepted(state: State) -> None:
    assert accepted(report(IDENTITY, look(Proof(Hold.NOTHING), state), (), None)) == []


def test_a_report_with_nothing_in_it_is_accepted() -> None:
    assert accepted(SchedExtNodeStatus()) == []


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        ({"owner": {"reason": "x"}}, "status.owner.kind is missing"),
        ({"owner": {"kind": "Martian"}}, "status.owner.kind is not among"),
        ({"ops": "x" * 129}, "status.ops has too many characters"),
        ({"colour": "x"}, "status.colour is unknown"),
    ],
)
def test_a_report_that_is_wrong_would_be_seen(status: dict[str, Any], fault: str) -> None:
    schema = version()["schema"]["openAPIV3Schema"]["properties"]["status"]

    assert [each for each in faults(schema, status, "status") if each.startswith(fault)]


def test_the_fleet_is_seen_at_a_glance() -> None:
    columns = version()["additionalPrinterColumns"]

    narrow = [each["name"] for each in columns if not each.get("priority")]
    assert narrow == ["State", "Ops", "Owner", "Eligible", "Kernel", "Since"]
    assert [each["name"] for each in columns if each.get("priority")] == ["Boot", "Last-Exit"]


def test_no_column_is_empty_where_something_is_unknown() -> None:
    written = msgspec.to_builtins(SchedExtNodeStatus(owner=NodeOwner(reason="x")))

    assert (written["owner"]["kind"], written["eligible"]) == (NodeOwnerKind.UNKNOWN, Eligibility.UNKNOWN)


def test_a_report_has_no_status_apart_and_belongs_to_no_namespace() -> None:
    """The agent writes the whole object, and nobody else writes any of it."""
    assert "subresources" not in version()
    assert yaml.safe_load(CRD.read_text())["spec"]["scope"] == "Cluster"


def test_every_field_is_described() -> None:
    def described(schema: dict[str, Any], path: str) -> Iterator[str]:
        for name, part in schema.get("properties", {}).items():
            if not part.get("description", "").endswith("."):
                yield f"{path}.{name}"
            yield from described(part, f"{path}.{name}")
        if "items" in schema:
            yield from described(schema["items"], f"{path}[]")

    assert list(described(version()["schema"]["openAPIV3Schema"]["properties"]["status"], "status")) == []
