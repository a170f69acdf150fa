"""What a SchedExt's status says about what is seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.builders import observations
from rig.builders.observations import (
    MOVED,
    NOW,
    SIGNED,
    SIGNED_IMAGE,
    ago,
    crash,
    daemon_set,
    failed_create,
    observation,
    pod,
    running,
    schedext,
    trusted,
    waiting,
    with_image,
)
from rig.builders.plans import make_plan
from rig.builders.reports import attached, ended, of_pod, report, sight
from schedkit.model.api.conditions import MAX_MESSAGE, Reason, carry_dates, legible
from schedkit.model.api.daemonset import Capabilities, OwnerReference, SecurityContext
from schedkit.model.api.pods import ContainerStatus, Pod, PodCondition
from schedkit.model.api.reports import ReportKernel, ReportOwner
from schedkit.model.api.schedext import (
    Condition,
    ConditionStatus,
    NodeCounts,
    SchedExtStatus,
    SecurityProfile,
)
from schedkit.model.api.schedextnode import Eligibility, NodeOwnerKind
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import legacy_template
from schedkit.model.deploy.verdicts import Distrusted, Undecided
from schedkit.model.report.plan import RecordEvent, WriteStatus
from schedkit.model.report.pod_checks import Bucket
from schedkit.model.report.sights import Sight
from schedkit.model.trust.rules import TrustMode, built_in_rules
from schedkit.oci.policy.patterns import Re2Pattern

USAGE = Path(__file__).parents[4] / "docs/sked/usage.md"
TYPES = ["Accepted", "Verified", "Deployed", "Progressing", "Ready"]


def status_of(seen: Observation, sights: Mapping[str, Sight] | None = None) -> SchedExtStatus:
    """What the plan for that observation tells the user; None: no node has an agent."""
    (written,) = [each for each in make_plan(seen, sights).actions if isinstance(each, WriteStatus)]
    return written.status


def answers(seen: Observation, sights: Mapping[str, Sight] | None = None) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status_of(seen, sights).conditions}


def counts(seen: Observation) -> dict[str, int]:
    """The counts that are not zero."""
    nodes = status_of(seen).nodes
    assert nodes is not None
    return {name: count for name, count in msgspec.structs.asdict(nodes).items() if count}


# All is well


def test_a_fleet_that_runs() -> None:
    seen = observation(schedext(generation=3), pod("a", running(31)), pod("b", running(3600)))

    assert answers(seen) == {
        "Accepted": ("True", "Accepted"),
        "Verified": ("Unknown", "VerificationOff"),
        "Deployed": ("True", "PodsSettled"),
        "Progressing": ("False", "UpToDate"),
        "Ready": ("Unknown", "NoKernelReports"),
    }
    assert counts(seen) == {"desired": 2, "unknown": 2, "pods_ready": 2}
    assert status_of(seen).image == observations.DIGEST
    assert status_of(seen).worst_nodes == ()
    assert status_of(seen).observed_generation == 3


def test_every_count_is_written_also_when_it_is_zero() -> None:
    assert b'"held":0' in msgspec.json.encode(NodeCounts())


# Each kind of trouble


@pytest.mark.parametrize(
    ("container", "bucket", "reason", "message"),
    [
        pytest.param(
            waiting("ErrImagePull", "not found"),
            "failed",
            "ImagePullFailed",
            "the image cannot be pulled: not found",
            id="a pull that failed",
        ),
        pytest.param(
            waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: not found'),
            "failed",
            "ImagePullFailed",
            "the image cannot be pulled: not found",
            id="the same while it waits for the next attempt",
        ),
        pytest.param(
            waiting("InvalidImageName", "couldn't parse image name"),
            "failed",
            "ImagePullFailed",
            "the image cannot be pulled: couldn't parse image name",
            id="a name that is older than the CRD's rules",
        ),
        pytest.param(
            waiting("CreateContainerConfigError", 'secret "s" not found'),
            "failed",
            "ContainerRefused",
            'the container cannot be started: secret "s" not found',
            id="a missing secret",
        ),
        pytest.param(
            waiting("CrashLoopBackOff", "back-off 40s", crashed=crash("libbpf: \n\nEBUSY: another runs\n")),
            "failed",
            "Crashing",
            "the scheduler ended (exit code 1); the end of its output: libbpf: / EBUSY: another runs",
            id="a crash loop, with its last words",
        ),
        pytest.param(
            running(10, crashed=crash("EINVAL", code=2)),
            "failed",
            "Crashing",
            "the scheduler ended (exit code 2); the end of its output: EINVAL",
            id="a crash loop while it tries again",
        ),
        pytest.param(
            waiting("ContainerCreating"),
            "starting",
            "PodStarting",
            "the pod is being started (ContainerCreating)",
            id="a pod that starts",
        ),
        pytest.param(None, "starting", "PodStarting", "the pod is being started", id="nothing said yet"),
    ],
)
def test_a_node_in_trouble_is_counted_and_listed_with_its_reason(
    container: ContainerStatus | None, bucket: str, reason: str, message: str
) -> None:
    seen = observation(schedext(), pod("bad", container), pod("good", running()))

    worst = status_of(seen).worst_nodes[0]
    assert (worst.name, worst.reason, worst.message) == ("bad", reason, message)
    assert counts(seen)[bucket] == 1
    assert answers(seen)["Deployed"] == ("False", reason)


def test_a_pod_without_privileges_is_not_blamed_for_its_crash() -> None:
    seen = observation(schedext(), pod("a", waiting("CrashLoopBackOff", crashed=crash()), powers=None))

    assert answers(seen)["Deployed"] == ("False", "PrivilegesRemoved")
    assert counts(seen) == {"desired": 1, "failed": 1}


@pytest.mark.parametrize(
    ("powers", "reason"),
    [
        (SecurityContext(capabilities=Capabilities(add=("BPF", "PERFMON"))), "PodsSettled"),
        (SecurityContext(capabilities=Capabilities(add=("PERFMON",))), "PrivilegesRemoved"),
        (SecurityContext(privileged=True), "PodsSettled"),
    ],
)
def test_least_privilege_needs_its_capabilities(powers: SecurityContext, reason: str) -> None:
    asked = schedext(security_profile=SecurityProfile.LEAST_PRIVILEGE)

    assert answers(observation(asked, pod("a", running(), powers=powers)))["Deployed"][1] == reason


def test_pods_of_an_older_template_may_have_other_privileges() -> None:
    asked = schedext()
    older = pod("a", running(), powers=SecurityContext(capabilities=Capabilities(add=("BPF", "PERFMON"))))
    seen = observation(asked, older, daemon_set=daemon_set(asked, desired=1, updated=0))

    assert answers(seen)["Deployed"] == ("False", "RollingOut")


def test_a_pod_that_was_evicted_has_failed() -> None:
    evicted = pod("a", phase="Failed", reason="Evicted", message="The node was low on memory")

    worst = status_of(observation(schedext(), evicted)).worst_nodes[0]

    assert (worst.reason, worst.message) == (
        "PodFailed",
        "the node evicted or rejected the pod: Evicted: The node was low on memory",
    )


UNSCHEDULABLE = PodCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="Insufficient cpu"
)


def test_a_pod_that_fits_nowhere_is_pending() -> None:
    seen = observation(schedext(), pod("", conditions=(UNSCHEDULABLE,)))

    assert answers(seen)["Deployed"] == ("False", "PodPending")
    assert status_of(seen).worst_nodes[0].message == "the pod is pending: Insufficient cpu"


def test_a_node_that_does_not_answer_is_unknown() -> None:
    seen = observation(schedext(), pod("a", running(3600), ready=False))

    assert answers(seen)["Deployed"] == ("False", "NodeSilent")
    assert counts(seen) == {"desired": 1, "unknown": 1}


REFUSED = 'Error creating: pods "scx-" is forbidden: violates PodSecurity "restricted:latest": privileged'


def test_pods_that_pod_security_refuses_are_failed_with_its_words() -> None:
    asked = schedext()
    seen = observation(asked, daemon_set=daemon_set(asked, desired=3), events=(failed_create(REFUSED),))

    assert answers(seen)["Deployed"] == ("False", "PodsRefused")
    assert answers(seen)["Ready"] == ("False", "PodsRefused")
    assert counts(seen) == {"desired": 3, "failed": 3}
    assert "violates PodSecurity" in status_of(seen).worst_nodes[0].message


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(failed_create(REFUSED, seen_s_ago=3600), id="an hour ago"),
        pytest.param(failed_create(REFUSED, uid="another"), id="about another DaemonSet"),
    ],
)
def test_an_event_about_something_else_is_no_reason(event: Any) -> None:  # noqa: ANN401
    asked = schedext()
    seen = observation(asked, daemon_set=daemon_set(asked, desired=3), events=(event,))

    assert counts(seen) == {"desired": 3, "starting": 3}


def test_the_worst_nodes_come_first_and_are_few() -> None:
    pods = [pod(f"n{number}", waiting("ContainerCreating")) for number in range(8)]
    seen = observation(schedext(), *pods, pod("z", waiting("ErrImagePull", "no")))

    worst = status_of(seen).worst_nodes
    assert [each.name for each in worst] == ["z", "n0", "n1", "n2", "n3"]


def test_no_node_at_all_is_not_a_success() -> None:
    assert answers(observation(schedext()))["Deployed"] == ("False", "NoNodes")


# Settling


@pytest.mark.parametrize(
    ("container", "settled"),
    [
        pytest.param(running(29), False, id="29 s after the start"),
        pytest.param(running(30), True, id="30 s after the start"),
        pytest.param(running(31, crashed=crash(lasted_s=5)), False, id="not yet longer than the last run"),
        pytest.param(running(36, crashed=crash(lasted_s=5)), True, id="longer than the last run"),
        pytest.param(
            running(60, crashed=crash(lasted_s=45)), False, id="a scheduler that is ejected after 45 s"
        ),
        pytest.param(running(700, crashed=crash(lasted_s=86400)), True, id="one crash after a day"),
    ],
)
def test_a_pod_counts_as_deployed_after_a_while(container: ContainerStatus, settled: bool) -> None:
    answer, _ = answers(observation(schedext(), pod("a", container)))["Deployed"]

    assert answer == ("True" if settled else "False")


@given(run_s=st.integers(1, 3600), back_off_s=st.integers(0, 300), moment=st.floats(0, 1))
def test_a_crash_loop_never_counts_as_deployed(run_s: int, back_off_s: int, moment: float) -> None:
    """Whenever one looks: while it runs, and while it waits for the next attempt."""
    lasted = min(run_s, 600)
    elapsed = moment * (lasted + back_off_s)
    if elapsed < lasted:
        container = running(elapsed, crashed=crash(lasted_s=lasted, ended_s_ago=elapsed + back_off_s))
    else:
        last = crash(lasted_s=lasted, ended_s_ago=elapsed - lasted)
        container = waiting("CrashLoopBackOff", crashed=last)

    assert answers(observation(schedext(), pod("a", container)))["Deployed"] == ("False", "Crashing")


def test_the_plan_says_when_to_look_again() -> None:
    seen = observation(schedext(), pod("a", running(10)), pod("b", running(25)), pod("c", running(99)))

    assert make_plan(seen).look_again_at == NOW + timedelta(seconds=5)
    assert make_plan(observation(schedext(), pod("c", running(99)))).look_again_at is None


# Things in the way


def controlled_by(kind: str, name: str) -> Observation:
    """A DaemonSet of the SchedExt's name with another owner."""
    asked = schedext()
    owner = (OwnerReference(kind=kind, name=name, uid="another", controller=True),)
    return observation(asked, daemon_set=daemon_set(asked, owner_references=owner))


def test_a_daemon_set_of_somebody_else_is_named() -> None:
    seen = controlled_by("HelmRelease", "theirs")

    assert answers(seen)["Accepted"] == ("False", "NameTaken")
    assert answers(seen)["Deployed"] == ("False", "NameTaken")
    assert answers(seen)["Progressing"] == ("False", "Blocked")
    assert "belongs to HelmRelease theirs" in status_of(seen).conditions[0].message
    assert counts(seen) == {}


def test_what_a_deleted_schedext_left_is_waited_for() -> None:
    assert answers(controlled_by("SchedExt", "scx"))["Accepted"] == ("Unknown", "OldDaemonSet")


def test_a_refusal_of_the_api_server_is_passed_on() -> None:
    seen = observation(schedext(), daemon_set=None, refusal="exceeded quota")

    assert answers(seen)["Accepted"] == ("False", "DaemonSetRefused")
    assert status_of(seen).conditions[0].message.endswith("exceeded quota")


HOSTILE = "a\x1b[2J\x07b\x9bc\u202etxt\u2066d\r\ne\u00a0f\x00"
HARMLESS = "a\ufffd[2J\ufffdb\ufffdc\ufffdtxt\ufffdd e f\ufffd"


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param({"refusal": HOSTILE, "daemon_set": None}, id="a refusal of the API server"),
        pytest.param({"pods": (pod("a", waiting("ErrImagePull", HOSTILE)),)}, id="the kubelet's words"),
        pytest.param(
            {"pods": (pod("a", running(5, crashed=crash(HOSTILE))),)}, id="a scheduler's last words"
        ),
        pytest.param({"pods": (pod("a", phase="Failed", reason=HOSTILE),)}, id="a reason"),
    ],
)
def test_what_others_say_cannot_command_a_terminal_or_turn_text_around(evidence: dict[str, Any]) -> None:
    actions = make_plan(observation(**evidence)).actions

    said = [each.message for each in status_of(observation(**evidence)).worst_nodes]
    said += [each.message for each in status_of(observation(**evidence)).conditions]
    said += [each.message for each in actions if isinstance(each, RecordEvent)]
    assert [text for text in said if not text.isprintable()] == []
    assert any("txt" in text for text in said)


def test_words_stay_as_they_are_but_for_what_cannot_be_printed() -> None:
    assert legible(HOSTILE) == HARMLESS
    assert legible("Ünïcode 調度 🙂, with spaces") == "Ünïcode 調度 🙂, with spaces"


def test_a_suspended_one_says_so() -> None:
    seen = observation(schedext(suspend=True), daemon_set=None)

    assert answers(seen) == {
        "Accepted": ("True", "Accepted"),
        "Verified": ("Unknown", "VerificationOff"),
        "Deployed": ("False", "Suspended"),
        "Progressing": ("False", "Suspended"),
        "Ready": ("False", "Suspended"),
    }


def of_the_go_sked() -> Observation:
    asked = schedext()
    served = daemon_set(asked)
    template = legacy_template(asked)
    assert template is not None
    legacy = msgspec.structs.replace(served, spec=msgspec.structs.replace(served.spec, template=template))
    return observation(asked, pod("a", running()), daemon_set=legacy)


def test_pods_of_the_go_sked_are_reported_with_what_they_lack() -> None:
    seen = of_the_go_sked()

    assert answers(seen)["Progressing"] == ("False", "LegacyTemplate")
    assert answers(seen)["Deployed"] == ("True", "PodsSettled")
    assert "terminationMessagePolicy" in status_of(seen).conditions[3].message


def test_a_changed_spec_is_not_deployed_although_all_pods_run() -> None:
    """Whoever applies a change and waits for Deployed must wait for this change."""
    seen = observation(
        schedext(sched="x:v2", generation=2), pod("a", running()), daemon_set=daemon_set(schedext())
    )

    assert answers(seen)["Deployed"] == ("False", "RollingOut")
    assert answers(seen)["Progressing"] == ("True", "RollingOut")


# Conditions


def test_every_condition_is_there_with_the_generation_that_it_is_about() -> None:
    conditions = status_of(observation(schedext(generation=7), daemon_set=None)).conditions

    assert [each.type for each in conditions] == TYPES
    assert {each.observed_generation for each in conditions} == {7}


def test_a_date_stays_while_the_answer_stays() -> None:
    old = Condition(
        type="Deployed", status=ConditionStatus.FALSE, reason="Crashing", last_transition_time=ago(99)
    )
    same = Condition(type="Deployed", status=ConditionStatus.FALSE, reason="ImagePullFailed")
    other = Condition(type="Deployed", status=ConditionStatus.TRUE, reason="PodsSettled")

    assert carry_dates([old], [same], NOW)[0].last_transition_time == ago(99)
    assert carry_dates([old], [other], NOW)[0].last_transition_time == NOW
    assert carry_dates([], [other], NOW + timedelta(milliseconds=3))[0].last_transition_time == NOW


def test_every_reason_is_one_word_that_alerts_can_match() -> None:
    assert [
        reason.value for reason in Reason if not reason.value.isalpha() or not reason.value[0].isupper()
    ] == []


# Whatever is seen

containers = st.one_of(
    st.none(),
    st.builds(running, st.floats(0, 100), crashed=st.one_of(st.none(), st.builds(crash, st.text()))),
    st.builds(
        waiting,
        st.sampled_from(["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff", "ContainerCreating", ""]),
        st.text(),
        crashed=st.one_of(st.none(), st.builds(crash, st.text())),
    ),
)
pods: st.SearchStrategy[Pod] = st.builds(
    pod,
    st.sampled_from(["", "a", "b", "c", "d"]),
    containers,
    powers=st.sampled_from([None, observations.PRIVILEGED]),
    phase=st.sampled_from(["", "Pending", "Running", "Failed"]),
)


@given(st.lists(pods, max_size=5), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_the_buckets_add_up_and_every_question_is_answered(
    seen: list[Pod], desired: int, updated: int, suspend: bool
) -> None:
    asked = schedext(suspend=suspend)
    status = status_of(
        observation(asked, daemon_set=daemon_set(asked, desired=desired, updated=updated), pods=tuple(seen))
    )

    assert status.nodes is not None
    nodes = msgspec.structs.asdict(status.nodes)
    assert sum(nodes[bucket.value] for bucket in Bucket) == nodes["desired"]
    assert nodes["desired"] >= (0 if suspend else desired)
    assert nodes["pods_ready"] <= nodes["desired"]
    assert [each.type for each in status.conditions] == TYPES
    assert all(len(each.message) <= MAX_MESSAGE for each in status.conditions)


def test_every_bucket_has_its_count() -> None:
    names = set(msgspec.structs.asdict(NodeCounts()))

    assert {bucket.value for bucket in Bucket} == names - {"desired", "updated", "pods_ready"}


# The table that users look reasons up in


def tabled() -> set[tuple[str, str]]:
    """Each condition with each reason that the page says it may have."""
    rows = re.findall(r"^\| ([A-Z][A-Za-z, ]+) \| \[?`(\w+)`", USAGE.read_text(), re.MULTILINE)
    return {(kind, reason) for kinds, reason in rows for kind in re.findall("[A-Z][a-z]+", kinds)}


def answered(seen: Observation, sights: Mapping[str, Sight] | None = None) -> set[tuple[str, str]]:
    return {(kind, reason) for kind, (_, reason) in answers(seen, sights).items()}


ENFORCED = built_in_rules(TrustMode.ENFORCE, Re2Pattern)
ON_ONE_NODE = (
    pod("a", running()),
    pod("a", running(1)),
    pod("a", waiting("ContainerCreating")),
    pod("a", running(), powers=None),
    pod("a", waiting("ErrImagePull")),
    pod("a", waiting("CreateContainerConfigError")),
    pod("a", waiting("CrashLoopBackOff", crashed=crash())),
    pod("a", phase="Failed"),
    pod("", conditions=(UNSCHEDULABLE,)),
    pod("a", running(3600), ready=False),
)
AT_LARGE = (
    observation(schedext(), daemon_set=None),
    observation(schedext()),
    observation(schedext(suspend=True), daemon_set=None),
    observation(schedext(needs="claims")),
    observation(schedext(stop="3 a.m."), daemon_set=None),
    observation(schedext(), rival=schedext("rival")),
    observation(schedext(), daemon_set=None, refusal="exceeded quota"),
    observation(schedext(), daemon_set=daemon_set(schedext()), events=(failed_create(REFUSED),)),
    controlled_by("HelmRelease", "theirs"),
    controlled_by("SchedExt", "scx"),
    of_the_go_sked(),
    *(
        observation(schedext(), daemon_set=None, rules=ENFORCED, verdict=verdict)
        for verdict in (
            None,
            trusted(),
            Distrusted(3, "nobody"),
            Undecided(Reason.REGISTRY_UNREACHABLE, "no route"),
            Undecided(Reason.VERIFIER_FAILED, "it hung"),
        )
    ),
    observation(schedext(), daemon_set=None, rules=None),
    observation(schedext(), daemon_set=None, rules=replace(ENFORCED, allowed_namespaces=())),
    observation(schedext(), rules=ENFORCED, verdict=trusted()),
    observation(
        schedext(sched=SIGNED_IMAGE),
        daemon_set=with_image(schedext(sched=SIGNED_IMAGE), f"{SIGNED_IMAGE}@{SIGNED}"),
        rules=ENFORCED,
        verdict=trusted(current=MOVED),
    ),
)


UNPROVED = ReportOwner(kind=NodeOwnerKind.UNKNOWN)
IN_ONE_KERNEL = (
    sight(attached(of_pod("a-pod"))),
    sight(attached(of_pod("a-pod")), silent_since=ago(600)),
    sight(attached(of_pod("a-pod")), silent_since=ago(600), has_agent=False),
    sight(attached(of_pod("a-pod")), misfit="no report"),
    sight(attached(of_pod("a-pod"), node_uid="another")),
    sight(attached(of_pod("a-pod"), kernel=ReportKernel(boot_id="before"))),
    sight(report(state="unknown")),
    sight(attached(of_pod("another"))),
    sight(attached(UNPROVED)),
    sight(report()),
    sight(report(), unattached_since=ago(600)),
    sight(report(eligible=Eligibility.NO)),
    *(sight(report(exits=(ended(kind),))) for kind in (66, 67, 1024)),
    sight(None),
    sight(None, joined_at=ago(1)),
)


def test_the_table_names_the_conditions_that_can_have_a_reason_and_no_others() -> None:
    every = [*AT_LARGE, *(observation(schedext(), each) for each in ON_ONE_NODE)]
    started = observation(schedext(), pod("a", running(), start_time=ago(60)))
    refused = replace(started, agent_refusal="no")

    nobody: dict[str, Sight] = {}
    pairs = {pair for seen in every for sights in (None, nobody) for pair in answered(seen, sights)}
    pairs |= {pair for each in IN_ONE_KERNEL for pair in answered(started, {"a": each})}
    assert tabled() == pairs | answered(refused)


@given(st.lists(pods, max_size=3), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_whatever_is_seen_the_table_has_it(
    seen: list[Pod], desired: int, updated: int, suspend: bool
) -> None:
    asked = schedext(suspend=suspend)
    served = daemon_set(asked, desired=desired, updated=updated)

    assert answered(observation(asked, daemon_set=served, pods=tuple(seen))) <= tabled()
