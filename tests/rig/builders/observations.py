"""Builders of what an operator observes: they fill in what a test is not about."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from schedkit.model.api.daemonset import (
    DaemonSet,
    DaemonSetStatus,
    OwnerReference,
    SecurityContext,
)
from schedkit.model.api.pods import (
    ContainerState,
    ContainerStatus,
    Event,
    EventSubject,
    Pod,
    PodCondition,
    PodContainer,
    PodLabels,
    PodMeta,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from schedkit.model.api.schedext import Annotations, SchedExt, SchedExtMeta, SchedExtSpec
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import CONTAINER, render
from schedkit.model.deploy.verdicts import Trusted
from schedkit.model.images.references import Digest
from schedkit.model.trust.policy import Mode
from schedkit.model.trust.verified import Verified

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
IMAGE = "ghcr.io/schedkit/scx_rusty:v1"
DIGEST = "ghcr.io/schedkit/scx_rusty@sha256:" + "0" * 64
DAEMON_SET_UID = "daemon-set-uid"
SIGNED_IMAGE = "registry.example/scheds/rusty:v1"
SIGNED, MOVED = Digest("sha256:" + "a" * 64), Digest("sha256:" + "b" * 64)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def schedext(
    name: str = "scx",
    *,
    namespace: str = "default",
    generation: int = 1,
    needs: str = "",
    stop: str | None = None,
    **spec: Any,
) -> SchedExt:
    meta = SchedExtMeta(
        name=name,
        namespace=namespace,
        uid=f"{namespace}-{name}-uid",
        resource_version="10",
        generation=generation,
        annotations=Annotations(needs=needs, stop=stop),
    )
    return SchedExt(metadata=meta, spec=SchedExtSpec(**{"sched": IMAGE, **spec}))


def daemon_set(owner: SchedExt, *, desired: int = 1, updated: int | None = None, **meta: Any) -> DaemonSet:
    """Its DaemonSet, which its controller has seen."""
    known = {"uid": DAEMON_SET_UID, "resource_version": "20", "generation": 1}
    rendered = render(owner)
    status = DaemonSetStatus(
        observed_generation=1,
        desired_number_scheduled=desired,
        updated_number_scheduled=desired if updated is None else updated,
    )
    served = msgspec.structs.replace(rendered.metadata, **{**known, **meta})
    return msgspec.structs.replace(rendered, metadata=served, status=status)


def with_image(owner: SchedExt, image: str) -> DaemonSet:
    """Its DaemonSet, whose pods run the image by that name."""
    return msgspec.structs.replace(daemon_set(owner), spec=render(owner, image).spec)


def trusted(digest: Digest = SIGNED, current: Digest | None = None, signer: str = "ci@example") -> Trusted:
    """A verdict as the manager makes it from a verifier's answer."""
    repository = SIGNED_IMAGE.rpartition(":")[0]
    return Trusted(Verified(digest, repository, signer, None, None, Mode.KEY), current or digest)


def running(since_s: float = 60, *, crashed: Terminated | None = None) -> ContainerStatus:
    return ContainerStatus(
        name=CONTAINER,
        image_id=DIGEST,
        state=ContainerState(running=Running(started_at=ago(since_s))),
        last_state=ContainerState(terminated=crashed),
    )


def waiting(reason: str, message: str = "", *, crashed: Terminated | None = None) -> ContainerStatus:
    return ContainerStatus(
        name=CONTAINER,
        state=ContainerState(waiting=Waiting(reason=reason, message=message)),
        last_state=ContainerState(terminated=crashed),
    )


def crash(message: str = "", *, lasted_s: float = 1, ended_s_ago: float = 5, code: int = 1) -> Terminated:
    return Terminated(
        exit_code=code,
        reason="Error",
        message=message,
        started_at=ago(ended_s_ago + lasted_s),
        finished_at=ago(ended_s_ago),
    )


PRIVILEGED = SecurityContext(privileged=True)


def pod(
    node: str = "node-1",
    container: ContainerStatus | None = None,
    *,
    image: str = "",
    powers: SecurityContext | None = PRIVILEGED,
    ready: bool | None = None,
    template: str = "1",
    revision: str | None = None,
    **status: Any,
) -> Pod:
    """A pod on that node; it is ready if its container runs, unless said otherwise."""
    is_running = container is not None and container.state.running is not None
    is_ready = is_running if ready is None else ready
    owner = OwnerReference(kind="DaemonSet", name="scx", uid=DAEMON_SET_UID, controller=True)
    conditions = (PodCondition(type="Ready", status=str(is_ready)),)
    known = {"conditions": conditions, "container_statuses": (container,) if container else ()}
    asked = PodContainer(name=CONTAINER, image=image, security_context=powers)
    return Pod(
        metadata=PodMeta(
            name=f"scx-{node}",
            uid=f"{node}-pod",
            owner_references=(owner,),
            labels=PodLabels(template, template if revision is None else revision),
        ),
        spec=PodSpec(node_name=node, containers=(asked,)),
        status=PodStatus(**{**known, **status}),
    )


def failed_create(message: str, *, seen_s_ago: float = 10, uid: str = DAEMON_SET_UID) -> Event:
    subject = EventSubject(kind="DaemonSet", name="scx", uid=uid)
    return Event(
        involved_object=subject, reason="FailedCreate", message=message, last_timestamp=ago(seen_s_ago)
    )


def observation(asked: SchedExt | None = None, *pods: Pod, **evidence: Any) -> Observation:
    """A SchedExt with its DaemonSet and pods, as an operator sees them when nothing is on its way."""
    owner = asked or schedext()
    known: dict[str, Any] = {"daemon_set": daemon_set(owner, desired=len(pods)), "pods": pods, "now": NOW}
    return Observation(schedext=owner, **{**known, **evidence})


def through_json(value: msgspec.Struct) -> Any:
    """As the API server would serve it back."""
    return json.loads(msgspec.json.encode(value))
