"""What a SchedExt's status says about the kernels of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.builders.observations import (
    NOW,
    ago,
    crash,
    daemon_set,
    failed_create,
    observation,
    pod,
    running,
    schedext,
    waiting,
)
from rig.builders.plans import make_plan
from rig.builders.reports import NODE_UID, STALL, attached, ended, node, of_pod, report, served, sight
from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.model.api.daemonset import DaemonSetAnnotations, OwnerReference
from schedkit.model.api.nodes import NodeSpec
from schedkit.model.api.pods import ContainerStatus, Pod, PodCondition
from schedkit.model.api.reports import ReportKernel, ReportOwner, ReportStatus
from schedkit.model.api.schedext import MAX_TROUBLES, SchedExtStatus, TroubleKind, UpdateStrategy
from schedkit.model.api.schedextnode import Eligibility, NodeExit, NodeFinding, NodeOwnerKind
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import legacy_template
from schedkit.model.report.believed_reports import Evidence
from schedkit.model.report.kernel_checks import ProvedState
from schedkit.model.report.kernel_table import TABLE, proved_state
from schedkit.model.report.plan import RecordEvent, WriteStatus
from schedkit.model.report.pod_checks import Bucket, node_state
from schedkit.model.report.sights import Sight, first_ejects, has_new_eject, tells_the_same


def placed(name: str = "node-1", container: ContainerStatus | None = None, **status: Any) -> Pod:  # noqa: ANN401 - fields of a status
    """A pod whose container has run for a minute on that node, unless said otherwise."""
    return pod(name, container or running(60), **{"start_time": ago(62), **status})


def judged(seen: Sight, on: Pod | None = None) -> ProvedState:
    """What is known about the kernel of the pod's node."""
    where = on or placed()
    return proved_state(where, node_state(where, None, NOW), seen, NOW)


def of_another(namespace: str = "", name: str = "theirs") -> Pod:
    """A pod of another SchedExt on the same node."""
    owner = OwnerReference(kind="DaemonSet", name=name, uid="another-daemon-set", controller=True)
    made = placed()
    meta = msgspec.structs.replace(
        made.metadata, name=f"{name}-x2x", uid="their-pod", namespace=namespace, owner_references=(owner,)
    )
    return msgspec.structs.replace(made, metadata=meta)


def former() -> Pod:
    """A pod of the same DaemonSet that is about to end."""
    made = placed()
    meta = msgspec.structs.replace(made.metadata, uid="former-pod", deletion_timestamp=ago(5))
    return msgspec.structs.replace(made, metadata=meta)


# A good report


def foreign(**owner: str) -> ReportOwner:
    return ReportOwner(kind=NodeOwnerKind.FOREIGN, **owner)


NO_BTF = (
    NodeFinding(id="kernel.config", status="fail", detail="CONFIG_X is not set"),
    NodeFinding(id="kernel.btf", status="fail", detail="/sys/kernel/btf/vmlinux is missing"),
)
NO_SYS = (NodeFinding(id="kernel.sched_ext", status="skip", detail="/sys is not there"),)
ATTACHED_ROWS = [
    pytest.param(sight(attached()), "attached", "Attached", "runs the pod's scheduler", id="its own pod"),
    pytest.param(
        sight(attached(), silent_since=ago(119)),
        "attached",
        "Attached",
        "",
        id="an agent that was ready two minutes ago",
    ),
    pytest.param(
        sight(attached(), has_agent=False, silent_since=ago(119)),
        "attached",
        "Attached",
        "",
        id="an agent that is being upgraded",
    ),
    pytest.param(
        sight(attached(exits=(STALL,))), "attached", "Attached", "", id="ejected before, and attached again"
    ),
    pytest.param(
        sight(attached(), node=msgspec.structs.replace(node(), spec=NodeSpec(unschedulable=True))),
        "attached",
        "Attached",
        "",
        id="a node that is cordoned",
    ),
]
STARTING_ROWS = [
    pytest.param(
        sight(report(), unattached_since=ago(299)),
        "starting",
        "Attaching",
        "about to be attached",
        id="it has run for less than five minutes",
    ),
    pytest.param(
        sight(report(state="enabling"), unattached_since=ago(10)),
        "starting",
        "Attaching",
        "",
        id="the kernel verifies its programs",
    ),
    pytest.param(
        sight(report(exits=(ended(66),)), unattached_since=ago(1)),
        "starting",
        "Reattaching",
        "a CPU came or went",
        id="a CPU came or went",
    ),
    pytest.param(
        sight(report(exits=(ended(66, s_ago=90),)), unattached_since=ago(1)),
        "starting",
        "Attaching",
        "",
        id="a CPU came or went before the pod",
    ),
    pytest.param(
        sight(attached(of_pod("former-pod")), owner=former()),
        "starting",
        "Attaching",
        "the node's former pod",
        id="its former pod is not gone yet",
    ),
    pytest.param(
        sight(attached(of_pod("new")), stranger_since=ago(29)),
        "starting",
        "Attaching",
        "not known yet",
        id="a pod that the cache does not hold yet",
    ),
]
FAILED_ROWS = [
    pytest.param(
        sight(report(exits=(STALL,))),
        "failed",
        "Ejected",
        "the kernel ejected simple, runnable task stall (1026): stress[42] failed to run for 5.001s",
        id="the kernel ejected it",
    ),
    pytest.param(
        sight(report(exits=(ended(1024, reason="runtime error", task="cat[7]", count=3),))),
        "failed",
        "Ejected",
        "runtime error (1024); the task is cat[7]; 3 times in a row",
        id="three times, without a message",
    ),
    pytest.param(
        sight(report(state="disabling", exits=(STALL,))),
        "failed",
        "Ejected",
        "",
        id="the kernel is about to eject it",
    ),
    pytest.param(
        sight(report(exits=(STALL, ended(67)))),
        "failed",
        "StoppedByHuman",
        "SysRq-S",
        id="somebody pressed SysRq-S",
    ),
    pytest.param(
        sight(report(), unattached_since=ago(300)),
        "failed",
        "NotAttached",
        "for five minutes",
        id="it has run for five minutes",
    ),
    pytest.param(
        sight(report(exits=(ended(64),)), unattached_since=ago(300)),
        "failed",
        "NotAttached",
        "",
        id="an orderly end is no eject",
    ),
    pytest.param(
        sight(report(exits=(ended(1026, s_ago=63),)), unattached_since=ago(300)),
        "failed",
        "NotAttached",
        "",
        id="an eject before the pod was another's",
    ),
]
CONFLICTED_ROWS = [
    pytest.param(
        sight(attached(foreign(unit="scx.service", program="/usr/bin/scx"))),
        "conflicted",
        "Conflicted",
        "of the systemd unit scx.service",
        id="a unit of the node",
    ),
    pytest.param(
        sight(attached(foreign(program="/usr/bin/scx_simple"))),
        "conflicted",
        "Conflicted",
        "of the program /usr/bin/scx_simple",
        id="a program of the node",
    ),
    pytest.param(
        sight(attached(foreign())), "conflicted", "Conflicted", "somebody started", id="nobody knows what"
    ),
    pytest.param(
        sight(attached(ReportOwner(kind=NodeOwnerKind.SCHEDCTL, container_id="ab" * 32))),
        "conflicted",
        "Conflicted",
        "of the container abababababab, which schedctl started",
        id="schedctl",
    ),
    pytest.param(
        sight(attached(ReportOwner(kind=NodeOwnerKind.ORPHAN))),
        "conflicted",
        "Conflicted",
        "which no process of the node holds",
        id="an orphan",
    ),
    pytest.param(
        sight(attached(of_pod("their-pod")), owner=of_another()),
        "conflicted",
        "Conflicted",
        "of the pod theirs-x2x of SchedExt theirs",
        id="another SchedExt of the namespace",
    ),
    pytest.param(
        sight(attached(of_pod("their-pod")), owner=of_another("secret")),
        "conflicted",
        "Conflicted",
        "of a pod of another namespace",
        id="another tenant's, who is not named",
    ),
    pytest.param(
        sight(attached(of_pod("strange")), stranger_since=ago(30)),
        "conflicted",
        "Conflicted",
        "of a pod that sked did not make",
        id="a pod that the cache should hold by now",
    ),
]
INELIGIBLE_ROWS = [
    pytest.param(
        sight(report(state="absent", eligible=Eligibility.NO, findings=NO_BTF)),
        "ineligible",
        "Ineligible",
        "sched_ext: kernel.btf: /sys/kernel/btf/vmlinux is missing",
        id="a kernel without BTF, and what its config says proves nothing",
    ),
    pytest.param(
        sight(
            report(state="unknown", eligible=Eligibility.UNKNOWN, findings=NO_SYS), unattached_since=ago(300)
        ),
        "unknown",
        "KernelUnreadable",
        "cannot read what its kernel runs: /sys is not there",
        id="an agent that may not look makes no node ineligible",
    ),
    pytest.param(
        sight(report(state="paused", exits=(STALL,)), unattached_since=ago(300)),
        "unknown",
        "KernelUnreadable",
        "",
        id="a word of a later kernel, whatever ended before",
    ),
]
UNKNOWN_ROWS = [
    pytest.param(
        sight(attached(), has_agent=False, silent_since=ago(120)),
        "unknown",
        "AgentMissing",
        "no agent",
        id="its agent is gone for two minutes",
    ),
    pytest.param(
        sight(None, has_agent=False, silent_since=ago(120)), "unknown", "AgentMissing", "", id="no agent ever"
    ),
    pytest.param(
        sight(attached(), silent_since=ago(120)),
        "unknown",
        "AgentSilent",
        "not been ready for two minutes",
        id="its agent is not ready for two minutes",
    ),
    pytest.param(sight(None), "unknown", "ReportMissing", "no agent has reported", id="no report yet"),
    pytest.param(
        sight(None, has_agent=False, silent_since=ago(119)),
        "unknown",
        "ReportMissing",
        "",
        id="an agent that is on its way",
    ),
    pytest.param(
        sight(attached(kernel=ReportKernel(boot_id="before"))),
        "unknown",
        "OtherBoot",
        "not about its present boot",
        id="a report of the boot before",
    ),
    pytest.param(
        sight(attached(node_uid="its-namesake")),
        "unknown",
        "OtherNode",
        "delete the agent's pod on the node",
        id="a Node that was made anew under its agent",
    ),
    pytest.param(
        sight(attached(node_uid="its-namesake", kernel=ReportKernel(boot_id="before"))),
        "unknown",
        "OtherNode",
        "",
        id="a namesake's report of another boot",
    ),
    pytest.param(
        sight(attached(kernel=ReportKernel()), node=node(boot="")),
        "unknown",
        "OtherBoot",
        "",
        id="a node and a report that both say nothing of a boot",
    ),
    pytest.param(
        sight(attached(), misfit="Expected `str`, got `int`"),
        "unknown",
        "ReportUnreadable",
        "not understood: Expected `str`",
        id="a report in another form",
    ),
    pytest.param(
        sight(attached(ReportOwner(kind=NodeOwnerKind.UNKNOWN, reason="SYS_PTRACE is missing"))),
        "unknown",
        "OwnerUnproved",
        "SYS_PTRACE is missing",
        id="an owner that cannot be proved",
    ),
    pytest.param(
        sight(attached(ReportOwner(kind=NodeOwnerKind.UNKNOWN, pod_uid="not-it"))),
        "unknown",
        "OwnerUnproved",
        "",
        id="a name proves nothing",
    ),
]


@pytest.mark.parametrize(
    ("seen", "bucket", "reason", "words"),
    [
        *ATTACHED_ROWS,
        *STARTING_ROWS,
        *FAILED_ROWS,
        *CONFLICTED_ROWS,
        *INELIGIBLE_ROWS,
        *UNKNOWN_ROWS,
    ],
)
def test_a_node_whose_pod_runs_is_what_its_kernel_is_proved_to_run(
    seen: Sight, bucket: str, reason: str, words: str
) -> None:
    found = judged(seen)

    assert (found.bucket, found.reason) == (bucket, reason)
    assert words in found.message
    assert any(row.finds.get(found.reason) == found.bucket for row in TABLE)


REBOOTED = attached(kernel=ReportKernel(boot_id="before"))
NOT_READY = PodCondition(type="Ready", status="False")


@pytest.mark.parametrize(
    ("on", "seen", "bucket", "reason"),
    [
        pytest.param(
            placed(container=waiting("ErrImagePull", "no")),
            sight(attached(foreign())),
            "failed",
            "ImagePullFailed",
            id="a pod that cannot run anywhere",
        ),
        pytest.param(
            placed(container=waiting("ErrImagePull", "no")),
            sight(report(eligible=Eligibility.NO)),
            "ineligible",
            "Ineligible",
            id="the same where no image would help",
        ),
        pytest.param(
            placed(container=waiting("CrashLoopBackOff", crashed=crash("EBUSY"))),
            sight(attached(foreign())),
            "conflicted",
            "Conflicted",
            id="a crash because somebody else is attached",
        ),
        pytest.param(
            placed(container=waiting("CrashLoopBackOff", crashed=crash("EXIT: stall"))),
            sight(report(exits=(STALL,))),
            "failed",
            "Ejected",
            id="a crash because the kernel ejected it",
        ),
        pytest.param(
            placed(container=waiting("CrashLoopBackOff", crashed=crash())),
            sight(report()),
            "failed",
            "Crashing",
            id="a crash that the kernel has no part in",
        ),
        pytest.param(
            placed(container=running(5, crashed=crash())),
            sight(attached(exits=(STALL,))),
            "attached",
            "Attached",
            id="attached again after a crash",
        ),
        pytest.param(
            placed(container=waiting("ContainerCreating")),
            sight(None, has_agent=False),
            "starting",
            "PodStarting",
            id="a pod that starts, and no agent",
        ),
        pytest.param(
            placed(conditions=(NOT_READY,)),
            sight(attached()),
            "attached",
            "Attached",
            id="the kernel counts more than the pod's readiness",
        ),
        pytest.param(
            placed(conditions=(NOT_READY,)),
            sight(attached(), node=node(ready=False), silent_since=ago(120)),
            "unknown",
            "NodeSilent",
            id="a node that is down",
        ),
        pytest.param(
            placed(),
            sight(attached(), node=None, silent_since=ago(120)),
            "unknown",
            "NodeSilent",
            id="a node that was deleted",
        ),
        pytest.param(
            placed(),
            sight(attached(kernel=ReportKernel(boot_id="before")), node=node(ready=False)),
            "unknown",
            "NodeSilent",
            id="a node that reboots",
        ),
        pytest.param(
            placed(),
            sight(REBOOTED, rebooted_at=ago(299), silent_since=ago(500)),
            "unknown",
            "OtherBoot",
            id="a node that has rebooted, and whose agent is on its way",
        ),
        pytest.param(
            placed(),
            sight(REBOOTED, rebooted_at=ago(300), silent_since=ago(500), has_agent=False),
            "unknown",
            "AgentMissing",
            id="a node that has rebooted, and got no agent",
        ),
        pytest.param(
            placed(),
            sight(None, has_agent=False, joined_at=ago(299)),
            "starting",
            "NodeJoining",
            id="a node that joins",
        ),
        pytest.param(
            placed(),
            sight(None, has_agent=False, joined_at=ago(300), silent_since=ago(300)),
            "unknown",
            "AgentMissing",
            id="a node that joined, and got no agent",
        ),
    ],
)
def test_pod_node_and_report_together(on: Pod, seen: Sight, bucket: str, reason: str) -> None:
    found = judged(seen, on)

    assert (found.bucket, found.reason) == (bucket, reason)


OURS: dict[str, Any] = {"owner": "Pod", "pod_uid": "node-1-pod"}
THEIRS: dict[str, Any] = {"owner": "Pod", "pod_uid": "their-pod", "message": "secret[7] failed to run for 5s"}
FOREIGN: dict[str, Any] = {"owner": "Foreign", "message": "by hand"}


@pytest.mark.parametrize(
    ("exits", "has_neighbour", "reason"),
    [
        pytest.param((ended(1026, **OURS),), True, "Ejected", id="its own, beside another pod"),
        pytest.param((ended(1026, **THEIRS),), True, "Attaching", id="another tenant's"),
        pytest.param((ended(1026, **THEIRS),), False, "Attaching", id="another tenant's, who is gone"),
        pytest.param((ended(67, **THEIRS),), True, "Attaching", id="another tenant's, by a human"),
        pytest.param((ended(66, **THEIRS),), True, "Attaching", id="another tenant's, by hotplug"),
        pytest.param((ended(1026, **FOREIGN),), False, "Attaching", id="a program's of the node"),
        pytest.param((ended(1026),), False, "Ejected", id="an agent that names nobody, and no other pod"),
        pytest.param((ended(1026),), True, "Attaching", id="an agent that names nobody, and another pod"),
        pytest.param(
            (ended(1026, **OURS), ended(1024, **THEIRS)), True, "Ejected", id="its own, then another's"
        ),
        pytest.param(
            (ended(1026, **OURS), ended(67, **OURS)), True, "StoppedByHuman", id="the last of its own"
        ),
    ],
)
def test_an_end_is_told_to_whose_scheduler_ended(
    exits: tuple[NodeExit, ...], has_neighbour: bool, reason: str
) -> None:
    found = judged(sight(report(exits=exits), has_neighbour=has_neighbour, unattached_since=ago(5)))

    assert found.reason == reason
    assert "secret" not in found.message
    assert "by hand" not in found.message


def test_dates_of_a_node_are_compared_with_dates_of_the_same_node_alone() -> None:
    """The clock of this one is a day behind."""
    day = 86400
    on = placed(container=running(day + 60), start_time=ago(day + 62))

    ejected = judged(sight(report(exits=(ended(1026, s_ago=day),))), on)
    attaching = judged(sight(report(), unattached_since=ago(10)), on)

    assert (ejected.reason, attaching.reason) == (Reason.EJECTED, Reason.ATTACHING)


@pytest.mark.parametrize(
    ("seen", "in_s"),
    [
        (sight(attached()), None),
        (sight(attached(), silent_since=ago(50)), 70),
        (sight(attached(), silent_since=ago(150)), None),
        (sight(report(), unattached_since=ago(100)), 200),
        (sight(attached(of_pod("new")), stranger_since=ago(10)), 20),
        (sight(None, joined_at=ago(290)), 10),
        (sight(report(), unattached_since=ago(100), joined_at=ago(290)), 10),
    ],
)
def test_a_state_says_when_it_changes_by_waiting_alone(seen: Sight, in_s: float | None) -> None:
    assert judged(seen).changes_at == (None if in_s is None else NOW + timedelta(seconds=in_s))


# What of a change is worth waking for


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        pytest.param((), (STALL,), True, id="the first"),
        pytest.param((STALL,), (STALL,), False, id="the same"),
        pytest.param((STALL,), (msgspec.structs.replace(STALL, count=2),), True, id="once more"),
        pytest.param((STALL,), (STALL, ended(1024)), True, id="another one"),
        pytest.param((), (STALL, ended(64)), True, id="one that an orderly end followed"),
        pytest.param((STALL, ended(64)), (ended(64),), False, id="one that fell off the list"),
        pytest.param((), (ended(67),), False, id="a human's stop"),
        pytest.param((), (ended(64), ended(66)), False, id="orderly ends"),
    ],
)
def test_an_eject_is_new(before: tuple[NodeExit, ...], after: tuple[NodeExit, ...], is_new: bool) -> None:
    old, new = served(report(exits=before)), served(attached(exits=after))

    assert has_new_eject(old, new) == is_new
    assert not has_new_eject(new, None)


def test_a_burst_of_ejects_begins_once() -> None:
    first = msgspec.structs.replace(STALL, first_time=ago(9))
    again = msgspec.structs.replace(first, count=2, log_time=2)
    nothing, one, two = (served(report(exits=each)) for each in ((), (first,), (ended(64), again)))

    assert first_ejects(nothing, one) == (first,)
    assert first_ejects(nothing, two) == (again,)
    assert first_ejects(one, two) == first_ejects(None, one) == first_ejects(one, None) == ()


def test_ejects_of_two_pods_within_one_second_are_two_bursts() -> None:
    first = msgspec.structs.replace(STALL, first_time=ago(9), owner="Pod", pod_uid="one")
    other = msgspec.structs.replace(first, pod_uid="other")

    assert first_ejects(served(report(exits=(first,))), served(report(exits=(first, other)))) == (other,)


def test_a_heartbeat_of_a_node_tells_nothing_new() -> None:
    assert tells_the_same(node(), node(resource_version="31", labels={"a": "b"}))
    for changed in (node(ready=False), node(boot="next"), node(uid="x"), node(deletion_timestamp=NOW)):
        assert not tells_the_same(node(), changed)


# Ready

Sights = Mapping[str, Sight]
GOOD = sight(attached())


def on_nodes(**sights: Sight) -> tuple[Observation, Sights]:
    """A pod on each node, which the report calls by its name."""
    return observation(schedext(), *map(placed, sights)), {
        name: _renamed(each, name) for name, each in sights.items()
    }


def _renamed(seen: Sight, name: str) -> Sight:
    is_its_own = seen.report is not None and seen.report.owner == of_pod()
    renamed = (
        msgspec.structs.replace(seen.report, owner=of_pod(f"{name}-pod"))
        if seen.report and is_its_own
        else seen.report
    )
    return msgspec.structs.replace(seen, report=renamed)


def status_of(seen: Observation, sights: Sights | None) -> SchedExtStatus:
    (written,) = [each for each in make_plan(seen, sights).actions if isinstance(each, WriteStatus)]
    return written.status


def ready(seen: Observation, sights: Sights | None) -> tuple[str, str, str]:
    (found,) = [each for each in status_of(seen, sights).conditions if each.type == "Ready"]
    return found.status, found.reason, found.message


DOWN = sight(attached(), node=node(ready=False), silent_since=ago(600))
DELETED = sight(attached(), node=node(deletion_timestamp=ago(5)), silent_since=ago(600))
LEAVING = sight(attached(), node=node(ready=False), silent_since=ago(60))
JOINING = sight(None, has_agent=False, joined_at=ago(10))
INELIGIBLE = sight(report(state="absent", eligible=Eligibility.NO, findings=NO_BTF))
EJECTED = sight(report(exits=(STALL,)))
LOST = sight(attached(), has_agent=False, silent_since=ago(600))
SILENT = sight(attached(), silent_since=ago(600))
UNHEARD = sight(attached(), silent_since=ago(1), is_unheard=True)
UNHEARD_AND_GONE = sight(attached(), has_agent=False, silent_since=ago(1), is_unheard=True)
FELL_SILENT = sight(attached(), silent_since=ago(1))
STARTING = sight(report(), unattached_since=ago(5))


@pytest.mark.parametrize(
    ("sights", "answer", "reason"),
    [
        pytest.param({"a": GOOD, "b": GOOD}, "True", "Attached", id="all are attached"),
        pytest.param({"a": GOOD, "b": DOWN}, "True", "Attached", id="one is down"),
        pytest.param({"a": GOOD, "b": DELETED}, "True", "Attached", id="one is being deleted"),
        pytest.param({"a": GOOD, "b": JOINING}, "True", "Attached", id="one has just joined"),
        pytest.param({"a": GOOD, "b": INELIGIBLE}, "True", "Attached", id="one is ineligible"),
        pytest.param(
            {"a": GOOD, "b": DOWN, "c": JOINING, "d": INELIGIBLE}, "True", "Attached", id="one of each"
        ),
        pytest.param({"a": INELIGIBLE, "b": INELIGIBLE}, "False", "Ineligible", id="all are ineligible"),
        pytest.param({"a": JOINING, "b": JOINING}, "False", "NodeJoining", id="all have just joined"),
        pytest.param({"a": DOWN, "b": DOWN}, "Unknown", "NodeSilent", id="all are down"),
        pytest.param({"a": DOWN, "b": INELIGIBLE}, "Unknown", "NodeSilent", id="down or ineligible"),
        pytest.param({"a": GOOD, "b": EJECTED}, "False", "Ejected", id="one was ejected"),
        pytest.param({"a": GOOD, "b": STARTING}, "False", "Attaching", id="one is being attached"),
        pytest.param({"a": GOOD, "b": SILENT}, "Unknown", "AgentSilent", id="an agent is silent"),
        pytest.param({"a": GOOD, "b": LOST}, "Unknown", "AgentMissing", id="an agent is missing"),
        pytest.param({"a": SILENT, "b": EJECTED}, "False", "Ejected", id="False before Unknown"),
        pytest.param({"a": GOOD}, "True", "Attached", id="the only one"),
        pytest.param({}, "False", "NoNodes", id="no node matches"),
    ],
)
def test_ready_is_about_nodes_that_can_answer(sights: Sights, answer: str, reason: str) -> None:
    assert ready(*on_nodes(**sights))[:2] == (answer, reason)


@pytest.mark.parametrize(
    ("updated", "templates", "beside", "answer"),
    [
        pytest.param(0, ("1", "1"), GOOD, ("False", "RollingOut"), id="nothing is replaced yet"),
        pytest.param(1, ("1", "2"), GOOD, ("False", "RollingOut"), id="one is replaced"),
        pytest.param(2, ("2", "2"), GOOD, ("True", "Attached"), id="all are replaced"),
        pytest.param(
            2, ("1", "2"), GOOD, ("True", "Attached"), id="by the controller's word all are as asked"
        ),
        pytest.param(1, ("2", "1"), LEAVING, ("True", "Attached"), id="the old one is on a node that leaves"),
        pytest.param(1, ("1", "2"), EJECTED, ("False", "Ejected"), id="an eject is worse"),
    ],
)
def test_ready_waits_until_a_change_has_reached_every_node_that_can_answer(
    updated: int, templates: tuple[str, str], beside: Sight, answer: tuple[str, str]
) -> None:
    asked, sights = schedext(), on_nodes(a=GOOD, b=beside)[1]
    pods = [placed(name, template=each) for name, each in zip("ab", templates, strict=True)]
    seen = observation(asked, *pods, daemon_set=daemon_set(asked, desired=2, updated=updated))

    assert ready(seen, sights)[:2] == answer


@pytest.mark.parametrize(
    ("labels", "updated", "count", "answer"),
    [
        pytest.param(("1A", "1A", "2B"), 2, 2, "True", id="the other one is on a node that is down"),
        pytest.param(("1A", "3A", "2B"), 2, 2, "True", id="some are made anew, and some were never changed"),
        pytest.param(("1A", "2B", "2B"), 1, 1, "False", id="the way back has just begun"),
        pytest.param(("2B", "1A", "2B"), 1, 1, "False", id="the same on the other node"),
        pytest.param(("1A", "2B", "3A"), 1, 1, "False", id="the controller has not counted them yet"),
    ],
)
def test_pods_of_a_template_that_came_back_are_up_to_date(
    labels: tuple[str, ...], updated: int, count: int, answer: str
) -> None:
    """A to B to A: the last node is down."""
    asked, sights = schedext(), on_nodes(a=GOOD, b=GOOD, c=DOWN)[1]
    pods = [
        placed(name, template=each[0], revision=each[1]) for name, each in zip("abc", labels, strict=True)
    ]
    notes = DaemonSetAnnotations(template="3")
    made = daemon_set(asked, desired=3, updated=updated, annotations=notes)
    seen = observation(asked, *pods, daemon_set=made)
    status = status_of(seen, sights)

    assert status.nodes is not None
    assert status.nodes.updated == count
    assert ready(seen, sights)[0] == answer


def test_ready_is_not_true_before_a_change_is_written_and_its_controller_has_seen_it() -> None:
    before, asked = schedext(), schedext(sched="ghcr.io/schedkit/scx_lavd:v1", generation=2)
    sights = on_nodes(a=GOOD)[1]
    about_to_be_written = observation(asked, placed("a"), daemon_set=daemon_set(before))
    not_seen = observation(asked, placed("a"), daemon_set=daemon_set(asked, generation=2))

    assert ready(about_to_be_written, sights)[:2] == ("False", "RollingOut")
    assert ready(not_seen, sights)[:2] == ("False", "RollingOut")


@pytest.mark.parametrize(
    ("strategy", "advice"),
    [(None, False), (UpdateStrategy(), False), (UpdateStrategy(type="OnDelete"), True)],
)
def test_who_replaces_pods_by_hand_is_told_to(strategy: UpdateStrategy | None, advice: bool) -> None:
    asked, sights = schedext(update_strategy=strategy), on_nodes(a=GOOD, b=GOOD)[1]
    pods = [placed(name, template=each) for name, each in zip("ab", "21", strict=True)]
    message = ready(observation(asked, *pods, daemon_set=daemon_set(asked, desired=2, updated=1)), sights)[2]

    assert message.startswith(
        "the kernels of 1 of 2 nodes, such as b, run the scheduler of a pod from before"
    )
    assert ("delete these pods" in message) == advice


def test_pods_of_the_go_sked_are_up_to_date_until_the_spec_changes() -> None:
    asked, sights = schedext(), on_nodes(a=GOOD)[1]
    made, template = daemon_set(asked), legacy_template(asked)
    assert template is not None
    legacy = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, template=template))
    status = status_of(observation(asked, placed("a"), daemon_set=legacy), sights)

    assert {each.type: (each.status, each.reason) for each in status.conditions}["Ready"] == (
        "True",
        "Attached",
    )
    assert status.nodes is not None
    assert status.nodes.updated == 1


def test_ready_says_how_many_and_names_one() -> None:
    _, _, message = ready(*on_nodes(a=GOOD, b=EJECTED, c=EJECTED))
    assert message.startswith("2 of 3 nodes, such as b: the kernel ejected simple, runnable task stall")

    assert ready(*on_nodes(a=GOOD, b=GOOD))[2] == "the kernels of 2 nodes run the scheduler"
    _, _, message = ready(*on_nodes(a=GOOD, b=DOWN))
    assert message == "the kernels of 1 of 2 nodes run the scheduler; 1 not ready, new or not eligible"


@pytest.mark.parametrize(
    ("troubles", "seen", "answer"),
    [
        pytest.param((), UNHEARD, "Attached", id="nobody said so before: it may be an upgrade of both"),
        pytest.param((), UNHEARD_AND_GONE, "Attached", id="nobody said so before, and no agent yet"),
        pytest.param(("AgentSilent",), UNHEARD, "AgentSilent", id="it was silent before"),
        pytest.param(("AgentMissing",), UNHEARD_AND_GONE, "AgentMissing", id="it was missing before"),
        pytest.param(("AgentMissing",), UNHEARD, "Attached", id="it was missing before, and starts"),
        pytest.param(("AgentSilent",), FELL_SILENT, "Attached", id="it was heard in between"),
        pytest.param(("AgentSilent",), GOOD, "Attached", id="it is ready again"),
        pytest.param(
            (), sight(attached(), silent_since=ago(120), is_unheard=True), "AgentSilent", id="for long"
        ),
    ],
)
def test_a_manager_that_begins_anew_believes_no_report_that_was_not_believed_before(
    troubles: tuple[str, ...], seen: Sight, answer: str
) -> None:
    at, sights = on_nodes(a=seen, b=GOOD)
    told = SchedExtStatus(troubles=tuple(TroubleKind(reason=each, nodes=1) for each in troubles))
    before = replace(at, schedext=msgspec.structs.replace(at.schedext, status=told))

    assert ready(before, sights)[1] == answer


def test_without_a_report_or_an_agent_ready_is_as_unknown_as_ever() -> None:
    seen = observation(schedext(), placed("a"))

    assert ready(seen, None) == ("Unknown", "NoKernelReports", "no node reports what its kernel runs")


REFUSAL = 'pods "sked-node-agent-" is forbidden: violates PodSecurity'


@pytest.mark.parametrize("sights", [None, {"a": LOST}])
def test_agents_that_are_refused_leave_ready_unknown_in_the_api_servers_words(sights: Sights | None) -> None:
    seen = replace(observation(schedext(), placed("a")), agent_refusal=REFUSAL)

    status, reason, message = ready(seen, sights)

    assert (status, reason) == ("Unknown", "AgentRefused")
    assert REFUSAL in message


def test_what_keeps_pods_from_running_counts_more_than_agents() -> None:
    refused = replace(observation(schedext(suspend=True), daemon_set=None), agent_refusal=REFUSAL)

    assert ready(refused, None)[1] == "Suspended"
    assert ready(refused, {})[1] == "Suspended"
    assert ready(observation(schedext(), daemon_set=None), {})[:2] == ("False", "RollingOut")


def test_pods_that_are_refused_keep_ready_from_being_true() -> None:
    asked = schedext()
    events = (failed_create("Error creating: no"),)
    seen = observation(asked, placed("a"), daemon_set=daemon_set(asked, desired=2), events=events)

    assert ready(seen, on_nodes(a=GOOD)[1])[:2] == ("False", "PodsRefused")


def test_deployed_is_about_pods_whatever_kernels_run() -> None:
    seen, sights = on_nodes(a=EJECTED)

    assert {each.type: each.reason for each in status_of(seen, sights).conditions}[
        "Deployed"
    ] == "PodsSettled"


def test_an_eject_is_a_warning_and_a_human_s_stop_is_none() -> None:
    seen, sights = on_nodes(a=EJECTED)
    events = [each for each in make_plan(seen, sights).actions if isinstance(each, RecordEvent)]

    assert [(each.reason, each.is_warning) for each in events] == [("Ejected", True)]
    assert Reason.STOPPED_BY_HUMAN not in WARNINGS


# Counts and troubles


def test_nodes_are_counted_by_what_is_proved() -> None:
    seen, sights = on_nodes(a=GOOD, b=EJECTED, c=INELIGIBLE, d=LOST, e=STARTING, f=GOOD)
    nodes = status_of(seen, sights).nodes

    assert nodes is not None
    counted = {name: count for name, count in msgspec.structs.asdict(nodes).items() if count}
    assert counted == {
        "desired": 6,
        "attached": 2,
        "updated": 2,
        "failed": 1,
        "ineligible": 1,
        "unknown": 1,
        "starting": 1,
        "pods_ready": 6,
    }


@pytest.mark.parametrize(
    ("updated", "templates", "count"),
    [
        pytest.param(2, ("1", "2"), 2, id="all, by the word of the DaemonSet's controller"),
        pytest.param(1, ("1", "2"), 1, id="those of the newest template"),
        pytest.param(1, ("9", "10"), 1, id="templates are numbered"),
        pytest.param(0, ("1", "1"), 0, id="none is replaced yet"),
    ],
)
def test_attached_is_whatever_template_the_pod_is_of_and_updated_stands_beside_it(
    updated: int, templates: tuple[str, str], count: int
) -> None:
    asked = schedext()
    pods = [placed(name, template=each) for name, each in zip("ab", templates, strict=True)]
    seen = observation(asked, *pods, daemon_set=daemon_set(asked, desired=2, updated=updated))
    nodes = status_of(seen, on_nodes(a=GOOD, b=GOOD)[1]).nodes

    assert nodes is not None
    assert (nodes.attached, nodes.updated) == (2, count)


def test_troubles_are_counted_by_reason_the_worst_first() -> None:
    seen, sights = on_nodes(a=GOOD, b=LOST, c=EJECTED, d=EJECTED, e=STARTING)
    status = status_of(seen, sights)

    assert [(each.reason, each.nodes, each.example) for each in status.troubles] == [
        ("Ejected", 2, "c"),
        ("AgentMissing", 1, "b"),
        ("Attaching", 1, "e"),
    ]
    assert [each.name for each in status.worst_nodes] == ["c", "d", "b", "e"]
    assert status_of(*on_nodes(a=GOOD)).troubles == ()


# Whatever is seen

moments = st.one_of(st.none(), st.floats(0, 700).map(ago))
owners = st.builds(
    ReportOwner,
    kind=st.sampled_from(NodeOwnerKind),
    pod_uid=st.sampled_from(["", "a-pod", "b-pod", "their-pod"]),
)
exits = st.builds(ended, st.sampled_from([0, 64, 65, 66, 67, 1024, 1026, 4000]), s_ago=st.floats(0, 100))
reports: st.SearchStrategy[ReportStatus] = st.builds(
    report,
    state=st.sampled_from(["", "enabled", "enabling", "disabled", "disabling", "absent", "new word"]),
    owner=owners,
    eligible=st.sampled_from(Eligibility),
    node_uid=st.sampled_from(["", NODE_UID]),
    exits=st.lists(exits, max_size=3).map(tuple),
)
wild = st.builds(
    Sight,
    node=st.one_of(st.none(), st.builds(node, ready=st.booleans(), boot=st.sampled_from(["", "this-boot"]))),
    report=st.one_of(st.none(), reports),
    misfit=st.sampled_from(["", "no"]),
    has_agent=st.booleans(),
    silent_since=moments,
    joined_at=moments,
    unattached_since=moments,
    owner=st.sampled_from([None, of_another(), of_another("x")]),
    stranger_since=moments,
)
# with little that speaks against it, so that proofs are no rarity
tame = st.builds(
    sight,
    st.builds(attached, st.builds(of_pod, st.sampled_from(["a-pod", "b-pod", "c-pod", "their-pod"]))),
    silent_since=moments,
)
sights = st.one_of(tame, wild)
containers = st.sampled_from(
    [
        None,
        running(60),
        running(5),
        waiting("ErrImagePull", "no"),
        waiting("CrashLoopBackOff", crashed=crash()),
    ]
)


@given(containers, sights)
def test_each_row_finds_what_the_documentation_says(container: ContainerStatus | None, seen: Sight) -> None:
    on = placed("a", container)
    evidence = Evidence(on, node_state(on, None, NOW), seen, NOW, seen.report)
    for row in TABLE:
        found = row.check(evidence)
        assert found is None or row.finds[found.reason] == found.bucket


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(containers, sights), max_size=3),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_the_buckets_add_up_and_ready_is_true_only_by_proof(
    seen: dict[str, tuple[ContainerStatus | None, Sight]], desired: int, updated: int
) -> None:
    asked = schedext()
    pods = tuple(pod(name, container, start_time=ago(62)) for name, (container, _) in seen.items())
    there = daemon_set(asked, desired=desired, updated=updated)
    looks = {name: each for name, (_, each) in seen.items()}
    status = status_of(observation(asked, daemon_set=there, pods=pods), looks)

    assert status.nodes is not None
    nodes = msgspec.structs.asdict(status.nodes)
    assert sum(nodes[bucket.value] for bucket in Bucket) == nodes["desired"]
    assert nodes["updated"] <= nodes["attached"] <= nodes["desired"]
    proved = sum(_is_proof(looks[name], f"{name}-pod") for name in looks)
    assert nodes["attached"] == proved
    answers = {each.type: each.status for each in status.conditions}
    assert proved or answers["Ready"] != "True"
    assert len(status.troubles) <= MAX_TROUBLES
    assert sum(each.nodes for each in status.troubles) == nodes["desired"] - proved


def _is_proof(seen: Sight, uid: str) -> bool:
    """The definition of a proof, in other words than the table's."""
    said, there = seen.report, seen.node
    if said is None or there is None or seen.misfit or (said.state, said.owner.pod_uid) != ("enabled", uid):
        return False
    is_fresh = seen.silent_since is None or NOW - seen.silent_since < timedelta(minutes=2)
    is_of_pod = said.owner.kind is NodeOwnerKind.POD
    return is_fresh and is_of_pod and bool(said.node_uid) and bool(there.status.node_info.boot_id)
