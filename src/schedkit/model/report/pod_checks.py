"""What each pod says about its node: a table of checks, of which the first that finds something decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from schedkit.model.api.conditions import Reason
from schedkit.model.api.daemonset import Capabilities, SecurityContext
from schedkit.model.api.pods import ContainerState, ContainerStatus, Pod, Terminated
from schedkit.model.deploy.render import CONTAINER

SETTLING = timedelta(seconds=30)
# the kubelet forgets a container's crashes after it ran that long
_LONGEST_MEMORY = timedelta(minutes=10)
_MAX_WORDS = 512
_PULL_ERRORS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
}
_CREATE_ERRORS = {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
}


class Bucket(StrEnum):
    """How a node is counted."""

    ATTACHED = "attached"
    STARTING = "starting"
    FAILED = "failed"
    HELD = "held"
    CONFLICTED = "conflicted"
    INELIGIBLE = "ineligible"
    UNKNOWN = "unknown"


class NodeState(msgspec.Struct, frozen=True, gc=False):
    """What is known about one node that should run the scheduler."""

    node: str  # empty: the pod has no node yet, or there is no pod
    bucket: Bucket
    reason: Reason
    message: str
    is_settled: bool = False
    settles_at: datetime | None = None  # None: not by waiting alone
    is_ready: bool = False
    image: str = ""  # by digest; empty: nothing runs


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """A pod, with what is needed to judge it."""

    pod: Pod
    container: ContainerStatus  # the scheduler's
    wanted: SecurityContext | None  # None: the pod may be of an older template, which wanted something else
    now: datetime

    @property
    def state(self) -> ContainerState:
        """What the container does now."""
        return self.container.state


Check = Callable[[PodFacts], NodeState | None]


def node_state(pod: Pod, wanted: SecurityContext | None, now: datetime) -> NodeState:
    """The state of the pod's node."""
    evidence = PodFacts(pod, _container(pod), wanted, now)
    for check in CHECKS:
        finding = check(evidence)
        if finding is not None:
            return finding
    raise AssertionError("the last check finds something in every pod")


_NOT_BEGUN = ContainerStatus()


def _container(pod: Pod) -> ContainerStatus:
    """The scheduler's container; one that has not begun if the kubelet says nothing yet."""
    for each in pod.status.container_statuses:
        if each.name == CONTAINER:
            return each
    return _NOT_BEGUN


def running_since(pod: Pod) -> datetime | None:
    """When the scheduler's container was started, by the node's clock; None: it does not run."""
    running = _container(pod).state.running
    return running.started_at if running else None


def privileges_were_removed(evidence: PodFacts) -> NodeState | None:
    """Admission may change a pod: without its privileges the scheduler can only fail."""
    found = (each for each in evidence.pod.spec.containers if each.name == CONTAINER)
    container = next(found, None)
    if container is None or evidence.wanted is None:
        return None
    if _has_powers(container.security_context, evidence.wanted):
        return None
    words = "an admission policy removed the container's privileges: exempt this namespace from the policy"
    return _failed(evidence, Reason.PRIVILEGES_REMOVED, words)


def _has_powers(given: SecurityContext | None, wanted: SecurityContext) -> bool:
    have = given or SecurityContext()
    if have.privileged:
        return True
    needed = (wanted.capabilities or Capabilities()).add
    return not wanted.privileged and set(needed) <= set((have.capabilities or Capabilities()).add)


def image_cannot_be_pulled(evidence: PodFacts) -> NodeState | None:
    """The kubelet's own words say whether the name, the registry or the credentials are wrong."""
    waiting = evidence.state.waiting
    if waiting is None or waiting.reason not in _PULL_ERRORS:
        return None
    # while it waits for the next attempt, the kubelet puts words of its own before the error
    words = waiting.message.rpartition("ErrImagePull: ")[2] or waiting.reason
    return _failed(evidence, Reason.IMAGE_PULL_FAILED, f"the image cannot be pulled: {shortened(words)}")


def container_cannot_be_made(evidence: PodFacts) -> NodeState | None:
    """A missing ConfigMap or Secret, or a runtime that refuses."""
    waiting = evidence.state.waiting
    if waiting is None or waiting.reason not in _CREATE_ERRORS:
        return None
    words = shortened(waiting.message or waiting.reason)
    return _failed(evidence, Reason.CONTAINER_REFUSED, f"the container cannot be started: {words}")


def scheduler_keeps_crashing(evidence: PodFacts) -> NodeState | None:
    """Its last words, until it has run for longer than it did before it crashed."""
    ended = evidence.state.terminated or evidence.container.last_state.terminated
    settles_at = _settles_at(evidence)
    if ended is None or (settles_at is not None and settles_at <= evidence.now):
        return None
    return _failed(evidence, Reason.CRASHING, _last_words(ended), settles_at=settles_at)


def _last_words(ended: Terminated) -> str:
    how = f"exit code {ended.exit_code}" + (f", {ended.reason}" if ended.reason not in ("", "Error") else "")
    lines = [line.strip() for line in ended.message.splitlines() if line.strip()]
    said = f"the end of its output: {shortened(' / '.join(lines[-3:]))}" if lines else "it wrote nothing"
    return f"the scheduler ended ({how}); {said}"


def pod_was_given_up(evidence: PodFacts) -> NodeState | None:
    """Evicted, or rejected by the node."""
    status = evidence.pod.status
    if status.phase != "Failed":
        return None
    words = ": ".join(filter(None, (status.reason, shortened(status.message)))) or "no reason is given"
    return _failed(evidence, Reason.POD_FAILED, f"the node evicted or rejected the pod: {words}")


def pod_fits_nowhere(evidence: PodFacts) -> NodeState | None:
    """The Kubernetes scheduler says why."""
    scheduled = evidence.pod.condition("PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    words = f"the pod is pending: {shortened(scheduled.message or scheduled.reason)}"
    return NodeState(_node(evidence), Bucket.STARTING, Reason.POD_PENDING, words)


def pod_is_starting(evidence: PodFacts) -> NodeState | None:
    """Until its container runs."""
    if evidence.state.running is not None:
        return None
    waiting = evidence.state.waiting
    doing = f" ({waiting.reason})" if waiting and waiting.reason else ""
    return NodeState(
        _node(evidence), Bucket.STARTING, Reason.POD_STARTING, f"the pod is being started{doing}"
    )


def node_is_silent(evidence: PodFacts) -> NodeState | None:
    """A container that was running when its node was last heard of."""
    if _is_ready(evidence):
        return None
    words = "the pod is not ready: its node, or the kubelet there, may be down"
    return NodeState(_node(evidence), Bucket.UNKNOWN, Reason.NODE_SILENT, words, image=_image(evidence))


def scheduler_runs(evidence: PodFacts) -> NodeState:
    """Whether the kernel runs it is another question."""
    settles_at = _settles_at(evidence)
    is_settled = settles_at is not None and settles_at <= evidence.now
    words = "the pod runs; it is not known whether the kernel runs its scheduler"
    return NodeState(
        node=_node(evidence),
        bucket=Bucket.UNKNOWN,
        reason=Reason.PODS_SETTLED if is_settled else Reason.SETTLING,
        message=words,
        is_settled=is_settled,
        settles_at=None if is_settled else settles_at,
        is_ready=True,
        image=_image(evidence),
    )


CHECKS: tuple[Check, ...] = (
    privileges_were_removed,
    image_cannot_be_pulled,
    container_cannot_be_made,
    scheduler_keeps_crashing,
    pod_was_given_up,
    pod_fits_nowhere,
    pod_is_starting,
    node_is_silent,
    scheduler_runs,
)


def _settles_at(evidence: PodFacts) -> datetime | None:
    """When the container will have run for long enough; None: it does not run.

    One that crashed before must outlive its last run as well: a scheduler that is ejected after a minute,
    each time, would otherwise count as settled half of the time.
    """
    running, crashed = evidence.state.running, evidence.container.last_state.terminated
    if running is None or running.started_at is None:
        return None
    last_run = timedelta()
    if crashed and crashed.started_at and crashed.finished_at:
        last_run = min(crashed.finished_at - crashed.started_at, _LONGEST_MEMORY)
    return running.started_at + SETTLING + last_run


def _failed(
    evidence: PodFacts, reason: Reason, message: str, *, settles_at: datetime | None = None
) -> NodeState:
    return NodeState(
        _node(evidence),
        Bucket.FAILED,
        reason,
        message,
        settles_at=settles_at,
        is_ready=_is_ready(evidence),
        image=_image(evidence),
    )


def _node(evidence: PodFacts) -> str:
    return evidence.pod.spec.node_name


def _is_ready(evidence: PodFacts) -> bool:
    ready = evidence.pod.condition("Ready")
    return ready is not None and ready.status == "True"


def _image(evidence: PodFacts) -> str:
    """By digest, without the name of the runtime that some put before it."""
    running = evidence.state.running is not None
    return evidence.container.image_id.rpartition("://")[2] if running else ""


def shortened(words: str) -> str:
    """On one line, and no longer than anyone reads."""
    one_line = " ".join(words.split())
    return one_line if len(one_line) <= _MAX_WORDS else f"{one_line[: _MAX_WORDS - 1]}…"
