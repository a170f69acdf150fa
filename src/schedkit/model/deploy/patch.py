"""What to write so that a DaemonSet is as it was rendered: our fields where they differ, and no others.

Compared is what the API server would serve: it fills in defaults, and writes amounts in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from schedkit.model.api.daemonset import Container, DaemonSet, PodSpec, PodTemplate, Volume
from schedkit.model.api.pod_fields import Resources
from schedkit.model.api.quantities import amounts
from schedkit.model.api.schedext import RollingUpdate, SchedExt, UpdateStrategy
from schedkit.model.api.schema import ApiType, api_name
from schedkit.model.deploy.render import CONTAINER, VOLUME_NAMES, legacy_template

_POD = "/spec/template/spec"
_POD_FIELDS = (
    "node_selector",
    "affinity",
    "tolerations",
    "host_pid",
    "image_pull_secrets",
    "priority_class_name",
    "automount_service_account_token",
)


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a JSON patch. `add` also replaces what is there."""

    op: Literal["add", "remove", "replace"]
    path: str
    value: Any = None  # None: nothing to write, something is removed


Operations: TypeAlias = tuple[Operation, ...]


def differences(observed: DaemonSet, wanted: DaemonSet) -> Operations:
    """The JSON patch that makes our fields of `observed` those of `wanted`; empty if they are."""
    return (
        *_labels("/metadata/labels", observed.metadata.labels, wanted.metadata.labels),
        *_update_strategy(observed, wanted),
        *_template(observed.spec.template, wanted.spec.template),
    )


def is_legacy(observed: DaemonSet, schedext: SchedExt) -> bool:
    """Whether its pods are those that the Go sked makes for this very spec."""
    legacy = legacy_template(schedext)
    return legacy is not None and not any(_template(observed.spec.template, legacy))


def _labels(path: str, observed: dict[str, str], wanted: dict[str, str]) -> Iterator[Operation]:
    """Our labels alone: others have theirs."""
    if not observed:
        yield Operation("add", path, wanted)
        return
    for key, value in wanted.items():
        if observed.get(key) != value:
            yield Operation("add", f"{path}/{key}", value)


def _update_strategy(observed: DaemonSet, wanted: DaemonSet) -> Iterator[Operation]:
    old, new = observed.spec.update_strategy, wanted.spec.update_strategy
    if _served_strategy(old) != _served_strategy(new):
        yield _written("/spec", "update_strategy", wanted.spec)


def _served_strategy(strategy: UpdateStrategy | None) -> UpdateStrategy:
    """With what the API server fills in."""
    given = strategy or UpdateStrategy()
    if given.type != "RollingUpdate":
        return UpdateStrategy(type=given.type)
    rolling = given.rolling_update or RollingUpdate()
    unavailable = 1 if rolling.max_unavailable is None else rolling.max_unavailable
    surge = 0 if rolling.max_surge in (None, "0", "0%") else rolling.max_surge
    return UpdateStrategy(rolling_update=RollingUpdate(max_unavailable=unavailable, max_surge=surge))


def _template(observed: PodTemplate, wanted: PodTemplate) -> Iterator[Operation]:
    yield from _labels("/spec/template/metadata/labels", observed.metadata.labels, wanted.metadata.labels)
    for field in _POD_FIELDS:
        if getattr(observed.spec, field) != getattr(wanted.spec, field):
            yield _written(_POD, field, wanted.spec)
    yield from _volumes(observed.spec.volumes, wanted.spec.volumes)
    yield from _containers(observed.spec, wanted.spec)


def _written(parent: str, field: str, wanted: ApiType) -> Operation:
    """Write the wanted field, or remove it where nothing is wanted."""
    path, value = f"{parent}/{api_name(field)}", getattr(wanted, field)
    if value == getattr(type(wanted)(), field):
        return Operation("remove", path)
    return Operation("add", path, msgspec.to_builtins(value))


def _volumes(observed: tuple[Volume, ...], wanted: tuple[Volume, ...]) -> Iterator[Operation]:
    """Ours by their names: an init container that is not ours may use others."""
    path = f"{_POD}/volumes"
    if VOLUME_NAMES.issuperset(volume.name for volume in observed):
        if observed != wanted:
            yield Operation("add", path, msgspec.to_builtins(wanted))
        return
    missing = [msgspec.to_builtins(volume) for volume in wanted if volume not in observed]
    stale = [
        place for place, volume in enumerate(observed) if volume.name in VOLUME_NAMES and volume not in wanted
    ]
    for place in reversed(stale):  # the last first, so that the others stay where they are
        yield Operation("remove", f"{path}/{place}")
    for volume in missing:
        yield Operation("add", f"{path}/-", volume)


def _containers(observed: PodSpec, wanted: PodSpec) -> Iterator[Operation]:
    """One container and no other: a second one could be a second scheduler."""
    if [container.name for container in observed.containers] != [CONTAINER]:
        yield _written(_POD, "containers", wanted)
        return
    (old,), (new,) = observed.containers, wanted.containers
    before, after = _served(old), _served(new)
    for field in after:
        if before[field] != after[field]:
            yield _written(f"{_POD}/containers/0", field, new)


def _served(container: Container) -> dict[str, object]:
    """Its fields, with what the API server fills in, and amounts as numbers."""
    resources = container.resources or Resources()
    return msgspec.structs.asdict(container) | {
        "image_pull_policy": _pull_policy(container),
        "resources": (amounts(resources.requests), amounts(resources.limits)),
        "termination_message_policy": container.termination_message_policy or "File",
    }


def _pull_policy(container: Container) -> str:
    """Kubernetes pulls a moving tag always, and others once."""
    if container.image_pull_policy is not None:
        return container.image_pull_policy
    name, _, digest = container.image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    moves = tag == "latest" or (not tag and not digest)
    return "Always" if moves else "IfNotPresent"
