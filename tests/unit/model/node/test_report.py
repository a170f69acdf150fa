"""From one look at a node's kernel to its report."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schedkit.kernel import machine, sysfs
from schedkit.model.api.schedextnode import (
    MAX_EXITS,
    MAX_FINDINGS,
    Eligibility,
    NodeAgent,
    NodeExit,
    NodeKernel,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.report import Identity, Look, eligibility, is_same_report, owner, report
from schedkit.model.readiness.checks import Outcome
from schedkit.model.readiness.facts import Facts
from schedkit.model.readiness.table import Finding, Severity, examine

AT = dt.datetime(2026, 11, 18, 9, 0, 0, tzinfo=dt.UTC)
LATER = AT + dt.timedelta(minutes=5)
IDENTITY = Identity("node-uid", NodeKernel("7.2.0", "x86_64", "boot-1"), NodeAgent("0.1.0", "pod-uid"))
POD = "0b5dd7d8-6c0a-4f5e-9d5d-2a1f0a3c9a10"
CONTAINER = "c" * 64
ENABLED = KernelState(State.ENABLED, ops="mini", enable_seq=7)
MINE = Process(77, command="/usr/bin/scx_mini --secret=hunter2", program="/usr/bin/scx_mini")


def held(hold: Hold = Hold.LINK, reason: str = "", **process: Any) -> Snapshot:  # noqa: ANN401 - fields
    holder = MINE._replace(**process) if hold in {Hold.LINK, Hold.MAP} else None
    return Snapshot(ENABLED, Proof(hold, holder, reason))


def in_group(*paths: str) -> Snapshot:
    return held(cgroups=paths)


def finding(name: str, status: Outcome, detail: str = "") -> Finding:
    return Finding(name, "a question", Severity.ERROR, status, detail, "a remedy")


def reported(
    snapshot: Snapshot,
    *,
    before: SchedExtNodeStatus | None = None,
    now: dt.datetime = AT,
    **more: Any,  # noqa: ANN401
) -> SchedExtNodeStatus:
    return report(IDENTITY, Look(snapshot, now, **more), (), before)


# Owners


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(
            Snapshot(KernelState(State.DISABLED)),
            NodeOwner(kind=NodeOwnerKind.NONE),
            id="nothing is attached",
        ),
        pytest.param(
            in_group(f"/kubepods/besteffort/pod{POD}/{CONTAINER}"),
            NodeOwner(
                kind=NodeOwnerKind.POD,
                name=POD,
                pod_uid=POD,
                container_id=CONTAINER,
                program="/usr/bin/scx_mini",
            ),
            id="a pod, by its control group",
        ),
        pytest.param(
            in_group(
                f"/../../kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope"
            ),
            NodeOwner(
                kind=NodeOwnerKind.POD,
                name=POD,
                pod_uid=POD,
                container_id=CONTAINER,
                program="/usr/bin/scx_mini",
            ),
            id="a pod whose groups systemd made, seen from another pod",
        ),
        pytest.param(
            in_group("/../../schedkit/scx_rusty"),
            NodeOwner(
                kind=NodeOwnerKind.SCHEDCTL,
                name="scx_rusty",
                container_id="scx_rusty",
                program="/usr/bin/scx_mini",
            ),
            id="a container of schedctl, by containerd's namespace",
        ),
        pytest.param(
            in_group(f"/machine.slice/libpod-{CONTAINER}.scope"),
            NodeOwner(
                kind=NodeOwnerKind.FOREIGN,
                name=f"a container of Podman, {CONTAINER}",
                container_id=CONTAINER,
                program="/usr/bin/scx_mini",
            ),
            id="somebody's container",
        ),
        pytest.param(
            in_group("/system.slice/scx.service"),
            NodeOwner(
                kind=NodeOwnerKind.FOREIGN,
                name="scx.service",
                unit="scx.service",
                program="/usr/bin/scx_mini",
            ),
            id="a systemd unit",
        ),
        pytest.param(
            in_group("/user.slice/user-0.slice/session-3.scope"),
            NodeOwner(kind=NodeOwnerKind.FOREIGN, name="/usr/bin/scx_mini", program="/usr/bin/scx_mini"),
            id="a program by hand",
        ),
        pytest.param(
            held(program=""),
            NodeOwner(kind=NodeOwnerKind.FOREIGN, name="process 77"),
            id="a process of which nothing else is seen",
        ),
        pytest.param(
            held(Hold.NOBODY, reason="its link is pinned"),
            NodeOwner(kind=NodeOwnerKind.ORPHAN, reason="its link is pinned"),
            id="an orphan",
        ),
        pytest.param(
            held(Hold.UNKNOWN, reason="CAP_SYS_PTRACE is needed"),
            NodeOwner(kind=NodeOwnerKind.UNKNOWN, reason="CAP_SYS_PTRACE is needed"),
            id="not proved",
        ),
    ],
)
def test_the_owner_is_who_holds_it(snapshot: Snapshot, expected: NodeOwner) -> None:
    assert owner(snapshot) == expected


def test_a_process_that_holds_the_map_alone_is_the_owner_too() -> None:
    assert owner(held(Hold.MAP)).kind is NodeOwnerKind.FOREIGN


def test_a_pod_that_runs_containers_of_its_own_is_the_owner_whatever_they_are_called() -> None:
    inner = in_group(f"/kubepods/pod{POD}/{CONTAINER}/schedkit/scx_rusty")

    assert (owner(inner).kind, owner(inner).pod_uid) == (NodeOwnerKind.POD, POD)


@pytest.mark.parametrize("group", ["/", "/system.slice/scx.service", f"/kubepods/pod{POD}/{CONTAINER}"])
def test_arguments_of_programs_are_never_reported(group: str) -> None:
    written = msgspec.json.encode(reported(in_group(group)))

    assert b"hunter2" not in written
    assert b"secret" not in written


@pytest.mark.parametrize("kind", [NodeOwnerKind.NONE, NodeOwnerKind.UNKNOWN])
def test_the_kind_of_the_owner_is_always_written(kind: NodeOwnerKind) -> None:
    """The CRD asks for it, and the column shows it."""
    written = msgspec.to_builtins(SchedExtNodeStatus(owner=NodeOwner(kind=kind, reason="x")))

    assert written["owner"]["kind"] == kind.value


def test_an_eligibility_that_is_not_known_is_written() -> None:
    assert msgspec.to_builtins(SchedExtNodeStatus())["eligible"] == "Unknown"


# Bounds


def test_text_of_a_node_is_bounded_and_has_no_control_characters() -> None:
    hostile = "\x1b]0;pwned\x07\n\u202e" * 999
    snapshot = Snapshot(
        ENABLED._replace(ops=hostile),
        Proof(Hold.LINK, MINE._replace(program=hostile, cgroups=(f"/{hostile}.service",))),
    )
    findings = (finding("kernel.btf", Outcome.FAIL, hostile),)

    status = report(IDENTITY, Look(snapshot, AT, exits_problem=hostile), findings, None)

    texts = {
        128: status.ops,
        256: status.owner.program,
        512: status.findings[0].detail,
        513: status.exits_problem,
    }
    for limit, text in texts.items():
        assert len(text) <= limit
        assert text.isprintable()
        assert text
    assert status.owner.name.isprintable()


def test_an_orphans_reason_is_bounded() -> None:
    assert len(owner(held(Hold.NOBODY, reason="x" * 9999)).reason) == 512


def test_lists_are_bounded() -> None:
    findings = tuple(finding(f"kernel.{number}", Outcome.PASS) for number in range(99))
    exits = tuple(NodeExit(ops=f"ops{number}") for number in range(99))

    status = report(IDENTITY, Look(held(), AT, exits), findings, None)

    assert len(status.findings) == MAX_FINDINGS
    assert [each.ops for each in status.exits] == [f"ops{number}" for number in range(99 - MAX_EXITS, 99)]


def test_only_what_the_kernel_says_is_among_the_findings() -> None:
    findings = tuple(finding(name, Outcome.FAIL) for name in ("kernel.btf", "caps.cap_bpf", "runtime.any"))

    assert [each.id for each in report(IDENTITY, Look(held(), AT), findings, None).findings] == ["kernel.btf"]


# Eligibility

PASS, FAIL, SKIP = Outcome.PASS, Outcome.FAIL, Outcome.SKIP


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param(
            {"kernel.sched_ext": PASS, "kernel.btf": PASS}, Eligibility.YES, id="the kernel has both"
        ),
        pytest.param({"kernel.sched_ext": FAIL, "kernel.btf": PASS}, Eligibility.NO, id="no sched_ext"),
        pytest.param({"kernel.sched_ext": PASS, "kernel.btf": FAIL}, Eligibility.NO, id="no BTF"),
        pytest.param({"kernel.sched_ext": FAIL, "kernel.btf": SKIP}, Eligibility.NO, id="one no is enough"),
        pytest.param(
            {"kernel.sched_ext": SKIP, "kernel.btf": PASS}, Eligibility.UNKNOWN, id="nobody could look"
        ),
        pytest.param({"kernel.sched_ext": PASS}, Eligibility.UNKNOWN, id="nobody asked for BTF"),
        pytest.param({}, Eligibility.UNKNOWN, id="nobody asked"),
        pytest.param(
            {"kernel.sched_ext": PASS, "kernel.btf": PASS, "kernel.version": FAIL, "kernel.config": FAIL},
            Eligibility.YES,
            id="version and config prove nothing",
        ),
        pytest.param(
            {"kernel.sched_ext": PASS, "kernel.btf": PASS, "caps.cap_bpf": FAIL, "runtime.any": FAIL},
            Eligibility.YES,
            id="what the agent's container lacks says nothing of the kernel",
        ),
    ],
)
def test_eligibility_is_the_kernels_own_answer(answers: dict[str, Outcome], expected: Eligibility) -> None:
    findings = [finding(name, status) for name, status in answers.items()]

    assert eligibility(State.DISABLED, findings) is expected
    assert eligibility(State.UNKNOWN, findings) is Eligibility.UNKNOWN


def test_an_agent_without_sys_does_not_call_its_kernel_ineligible(tmp_path: Path) -> None:
    def found() -> Eligibility:
        state = sysfs.read(tmp_path).state
        return eligibility(state, examine(Facts(machine.observe(tmp_path))))

    assert found() is Eligibility.UNKNOWN

    (tmp_path / "sys/kernel").mkdir(parents=True)

    assert found() is Eligibility.NO


# Dates


def test_a_report_says_what_the_kernel_says() -> None:
    status = reported(held(), exits_since=AT, exits_problem="why")

    assert (status.node_uid, status.kernel, status.agent) == IDENTITY
    assert (status.state, status.ops, status.enable_seq) == ("enabled", "mini", 7)
    assert (status.since, status.reported_at) == (AT, AT)
    assert (status.exits_since, status.exits_problem) == (AT, "why")


def test_since_stays_while_the_attachment_is_the_same() -> None:
    first = reported(held())
    second = reported(held(), before=first, now=LATER, exits_problem="something else changed")

    assert (second.since, second.reported_at) == (AT, LATER)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(Snapshot(KernelState(State.DISABLED, enable_seq=7)), id="state"),
        pytest.param(held()._replace(kernel=ENABLED._replace(ops="other")), id="scheduler"),
        pytest.param(held()._replace(kernel=ENABLED._replace(enable_seq=8)), id="attachment"),
        pytest.param(held(Hold.UNKNOWN, reason="why"), id="owner"),
    ],
)
def test_since_is_now_when_the_kernel_runs_something_else(changed: Snapshot) -> None:
    assert reported(changed, before=reported(held()), now=LATER).since == LATER


def test_since_is_now_after_a_boot() -> None:
    before = msgspec.structs.replace(reported(held()), kernel=NodeKernel(boot_id="boot-0"))

    assert reported(held(), before=before, now=LATER).since == LATER


def test_a_report_is_the_same_but_for_the_time_of_writing() -> None:
    first = reported(held())
    second = reported(held(), before=first, now=LATER)

    assert first != second
    assert is_same_report(first, second)
    assert not is_same_report(first, reported(held(), before=first, now=LATER, exits_problem="new"))
    assert not is_same_report(None, first)


def test_a_report_is_read_back_as_it_was_written() -> None:
    status = reported(
        in_group(f"/kubepods/pod{POD}/{CONTAINER}"),
        exits=(NodeExit(ops="mini", kind=1026, count=3, first_time=AT, time=LATER, log_time=7),),
    )

    assert msgspec.json.decode(msgspec.json.encode(status), type=SchedExtNodeStatus) == status
