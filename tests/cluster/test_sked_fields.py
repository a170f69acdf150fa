"""Every field of the spec through a real API server and a running manager: it arrives, and can be undone.

What is wrong is refused before: see `tests/golden/refusals.yaml`. What is accepted reaches the DaemonSet with
one write, is gone with one write when it is removed, and another look at it writes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import cycle
from typing import NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rig.base import polling
from rig.base.errors import RigError
from rig.builders import schedext_specs
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, JsonObject
from rig.operator import manager
from rig.operator.manager import CRD, IMAGE, ROOT, Manager, SchedExts

REFUSALS = ROOT / "tests/golden/refusals.yaml"
V2 = "ghcr.io/schedkit/scx_rusty:v2"
_CLAIM = re.compile(r'(?<=")[a-z0-9-]*-[0-9a-f]{12}(?=")')
_MOUNTS = {
    "Boot": {"name": "boot", "mountPath": "/boot", "readOnly": True},
    "Stats": {"name": "stats", "mountPath": "/var/run/scx"},
    "Tracing": {"name": "tracing", "mountPath": "/sys/kernel/tracing", "readOnly": True},
}
_LEAST = {
    "capabilities": {"add": ["BPF", "PERFMON"], "drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
    "readOnlyRootFilesystem": True,
}
_KEY_REF = {"name": "c", "key": "k", "optional": True}
_FROM_CONFIG_MAP = {"name": "CONFIG", "valueFrom": {"configMapKeyRef": _KEY_REF}}
_FROM_SECRET = {"name": "SECRET", "valueFrom": {"secretKeyRef": _KEY_REF}}
_TOLERATION = {
    "key": "gpu",
    "operator": "Equal",
    "value": "yes",
    "effect": "NoExecute",
    "tolerationSeconds": 60,
}
_LABEL = {"key": "pool", "operator": "In", "values": ["a", "b"]}
_NODE = {"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}
_TERM = {"matchExpressions": [_LABEL], "matchFields": [_NODE]}
_PREFERRED = [{"weight": 7, "preference": _TERM}]
_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED,
    }
}


def _claimed(*claims: JsonObject) -> list[JsonObject]:
    return [{"matchExpressions": [_LABEL, claim], "matchFields": [_NODE]} for claim in claims]


_UNCLAIMED = {"key": "sked.schedkit.io/claim", "operator": "DoesNotExist"}
_MINE = {"key": "sked.schedkit.io/claim", "operator": "In", "values": ["CLAIM"]}

# what a user writes, where it ends up (`pod`, `container` or `daemonset`), and what is found there;
# None: there is no DaemonSet
CASES: Mapping[str, tuple[JsonObject, str, JsonObject | None]] = {
    "sched": ({"sched": V2}, "container", {"image": V2}),
    "args": ({"args": ["--slice-us", "2000"]}, "container", {"args": ["--slice-us", "2000"]}),
    "env": ({"env": [{"name": "A", "value": "1"}]}, "container", {"env": [{"name": "A", "value": "1"}]}),
    "env-of-field": (
        {"env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        "container",
        {
            "env": [
                {
                    "name": "NODE",
                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
                }
            ]
        },
    ),
    "env-of-others": (
        {"env": [_FROM_CONFIG_MAP, _FROM_SECRET]},
        "container",
        {"env": [_FROM_CONFIG_MAP, _FROM_SECRET]},
    ),
    "resources": (
        {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": 1, "memory": "64Mi"}}},
        "container",
        {"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "64Mi"}}},
    ),
    "pull-policy": ({"imagePullPolicy": "Always"}, "container", {"imagePullPolicy": "Always"}),
    "pull-secrets": ({"imagePullSecrets": [{"name": "s"}]}, "pod", {"imagePullSecrets": [{"name": "s"}]}),
    "priority": (
        {"priorityClassName": "system-node-critical"},
        "pod",
        {"priorityClassName": "system-node-critical"},
    ),
    "host-pid": ({"hostPID": True}, "pod", {"hostPID": True}),
    "host-mounts": (
        {"hostMounts": ["Tracing", "Stats", "Boot"]},
        "container",
        {"volumeMounts": list(_MOUNTS.values())},
    ),
    "node-selector": ({"nodeSelector": {"pool": "a"}}, "pod", {"nodeSelector": {"pool": "a"}}),
    "tolerations": ({"tolerations": [_TOLERATION]}, "pod", {"tolerations": [_TOLERATION]}),
    "affinity": (
        {"affinity": _AFFINITY},
        "pod",
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": _claimed(_UNCLAIMED, _MINE)
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED,
                }
            }
        },
    ),
    "security": ({"securityProfile": "LeastPrivilege"}, "container", {"securityContext": _LEAST}),
    "suspend": ({"suspend": True}, "daemonset", None),
    "strategy": (
        {"updateStrategy": {"type": "OnDelete"}},
        "daemonset",
        {"updateStrategy": {"type": "OnDelete"}},
    ),
    "rolling-update": (
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}}},
        "daemonset",
        {
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0},
            }
        },
    ),
}


def schema_of_spec() -> JsonObject:
    version = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    spec: JsonObject = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def fields_of(schema: JsonObject, prefix: str = "") -> Iterator[str]:
    """Every field, also those deep inside."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from fields_of(inner, f"{prefix}{name}.")
    if "items" in schema:
        yield from fields_of(schema["items"], prefix)


def fields_in(value: object, prefix: str = "") -> Iterator[str]:
    """Every field that a spec sets."""
    if isinstance(value, list):
        for each in value:
            yield from fields_in(each, prefix)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{prefix}{name}"
            yield from fields_in(inner, f"{prefix}{name}.")


def test_every_field_has_a_case() -> None:
    tried = {field for wish, _, _ in CASES.values() for field in fields_in(wish)}

    assert set(fields_of(schema_of_spec())) - tried == set()


# With a manager


@pytest.fixture(scope="module", autouse=True)
def sked(cluster: ControlPlane) -> Iterator[Manager]:
    manager.install_crd(cluster)
    with manager.running(cluster, "sked-fields") as running:
        yield running


def arrived(schedexts: SchedExts, name: str) -> JsonObject | None:
    """What the DaemonSet says, in the same words for every SchedExt; None: there is none."""
    found = schedexts.daemon_set(name)
    if found is None:
        return None
    own = json.dumps({key: value for key, value in found["spec"].items() if key != "selector"})
    said: JsonObject = json.loads(_CLAIM.sub("CLAIM", own).replace(f'"name": "{name}"', '"name": "NAME"'))
    return said


def part(spec: JsonObject | None, where: str) -> JsonObject | None:
    if spec is None or where == "daemonset":
        return spec
    pod: JsonObject = spec["template"]["spec"]
    return pod if where == "pod" else pod["containers"][0]


def await_reported(schedexts: SchedExts, names: Iterable[str], generation: int) -> None:
    """Return when the status of each is about that spec."""

    def behind() -> list[str]:
        found = {each["metadata"]["name"]: each.get("status", {}) for each in schedexts.every()}
        return [name for name in names if found[name].get("observedGeneration") != generation]

    polling.until(lambda: not behind(), f"all are reported on, generation {generation}", timeout_s=60)


def await_daemon_sets(schedexts: SchedExts, wanted: Mapping[str, JsonObject | None]) -> None:
    """Return when each DaemonSet says that; show the first that does not."""

    def wrong() -> Iterator[tuple[str, JsonObject | None]]:
        return ((name, seen) for name in wanted if (seen := arrived(schedexts, name)) != wanted[name])

    polling.until(lambda: next(wrong(), None) is None, "every DaemonSet is as wished", timeout_s=60)


@pytest.fixture(scope="module")
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """One for all cases: they take their steps together."""
    name = cluster.create_namespace("fields")
    yield name
    cluster.client.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


Seen = dict[str, list[JsonObject | None]]


@pytest.fixture(scope="module")
def seen(schedexts: SchedExts) -> Seen:
    """What the DaemonSet of each case was like at first, with its field, and with the field undone."""
    stages: Seen = {name: [] for name in CASES}
    for generation in (1, 2, 3):
        for name, (wish, _, _) in CASES.items():
            take_step(schedexts, name, wish, generation)
        await_reported(schedexts, CASES, generation)
        for name, before in stages.items():
            before.append(await_other(schedexts, name, before))
    return stages


def await_other(schedexts: SchedExts, name: str, before: list[JsonObject | None]) -> JsonObject | None:
    """The DaemonSet as soon as it is another than before: a status may be a moment ahead of it."""
    last = before[-1] if before else None
    with suppress(RigError):  # the test of that case says so
        polling.until(
            lambda: arrived(schedexts, name) != last, f"the DaemonSet of {name} changes", timeout_s=10
        )
    return arrived(schedexts, name)


def take_step(schedexts: SchedExts, name: str, wish: JsonObject, generation: int) -> None:
    if generation == 1:
        schedexts.create(name)
    elif generation == 2:
        schedexts.change(name, **wish)
    else:
        undone = {field: IMAGE if field == "sched" else None for field in wish}
        schedexts.change(name, **undone)


@pytest.mark.parametrize("name", CASES)
def test_a_field_arrives_and_can_be_undone(seen: Seen, name: str) -> None:
    _, where, wanted = CASES[name]
    before, changed, undone = seen[name]

    found = part(changed, where)
    assert wanted is None or found is not None
    assert (None if found is None or wanted is None else {key: found.get(key) for key in wanted}) == wanted
    assert changed != before
    assert undone == before


@pytest.mark.parametrize("name", CASES)
def test_each_change_is_one_write(cluster: ControlPlane, sked: Manager, seen: Seen, name: str) -> None:
    assert seen
    written = writes(cluster, sked, name)

    expected = ["create", "delete", "create"] if name == "suspend" else ["create", "patch", "patch"]
    assert [verb for verb, resource in written if resource == "daemonsets"] == expected


def writes(cluster: ControlPlane, by: Manager, name: str, since: int = 0) -> list[tuple[str, str]]:
    """What the manager wrote for that SchedExt, beside events."""
    asked = cluster.audit(since=since, user=by.name, name=name)
    return [(each.verb, each.resource) for each in asked if each.verb not in ("get", "list", "watch")]


def test_a_second_look_writes_nothing(
    cluster: ControlPlane, sked: Manager, seen: Seen, schedexts: SchedExts
) -> None:
    assert seen
    since = cluster.audit_log.position()

    for name in CASES:
        schedexts.annotate(name, note="look")
        schedexts.edit_daemon_set({"metadata": {"annotations": {"example.com/note": "look"}}}, name)

    def written() -> list[tuple[str, str]]:
        return [write for name in CASES for write in writes(cluster, sked, name, since)]

    assert polling.stays_untrue(written, for_s=4), "it wrote something"


# Any spec


class Wrong(NamedTuple):
    """A value that its field may not have, and what is said to it."""

    field: str
    value: object  # None: the field is left out
    says: tuple[str, ...]


def wrong_values() -> Iterator[Wrong]:
    """Those of the golden refusals, which are about one field each."""
    for case in yaml.safe_load(REFUSALS.read_text()):
        if isinstance(spec := case.get("spec"), dict) and len(spec) == 1:
            ((field, value),) = spec.items()
            yield Wrong(field, value, tuple(case["says"]))


KNOWN = ("sched", *schedext_specs.FIELDS)
WRONG = {field: [each for each in wrong_values() if each.field == field] for field in KNOWN}
examples = st.fixed_dictionaries(
    {
        "pairs": st.lists(st.tuples(schedext_specs.specs, schedext_specs.specs), min_size=12, max_size=12),
        "wrong": st.fixed_dictionaries({field: st.sampled_from(WRONG[field]) for field in KNOWN}),
    }
)


def test_every_field_has_wrong_values() -> None:
    assert set(schema_of_spec()["properties"]) == set(KNOWN)
    assert [field for field in KNOWN if len(WRONG[field]) < 2] == []


def refusal_of(schedexts: SchedExts, name: str, spec: JsonObject, wrong: Wrong) -> str:
    """What is said to that spec with the wrong value in it; nothing if it is accepted."""
    spoiled = {key: value for key, value in {**spec, wrong.field: wrong.value}.items() if value is not None}
    try:
        schedexts.replace(name, **spoiled)
    except ApiError as error:
        return error.message
    return ""


def await_made(schedexts: SchedExts, name: str, spec: JsonObject) -> JsonObject | None:
    """Its first DaemonSet; None for a SchedExt that wants none."""
    if spec.get("suspend"):
        return None
    return polling.until(lambda: arrived(schedexts, name), f"{name} has its DaemonSet")


def await_silence(written: Callable[[int], object], cluster: ControlPlane) -> None:
    """Return when nothing has been written for a while."""

    def is_silent() -> bool:
        since = cluster.audit_log.position()
        return polling.stays_untrue(lambda: written(since), for_s=3)

    polling.until(is_silent, "the manager is done", timeout_s=90)


@pytest.mark.full
@settings(
    max_examples=5,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(example=examples)
def test_any_spec_is_refused_or_arrives_whatever_was_there_before_and_can_be_undone(
    cluster: ControlPlane, sked: Manager, example: JsonObject
) -> None:
    schedexts = SchedExts(cluster, cluster.create_namespace("any-spec"))
    changed = {f"changed-{number}": pair for number, pair in enumerate(example["pairs"])}
    fresh = {f"fresh-{number}": new for number, (_, new) in enumerate(example["pairs"])}
    for name, spec in {**{name: old for name, (old, _) in changed.items()}, **fresh}.items():
        schedexts.create(name, **spec)
    first = {name: await_made(schedexts, name, old) for name, (old, _) in changed.items()}
    wanted = dict(zip(changed, (await_made(schedexts, *each) for each in fresh.items()), strict=True))

    for wrong, (name, (_, new)) in zip(example["wrong"].values(), cycle(changed.items()), strict=False):
        said = refusal_of(schedexts, name, new, wrong)
        assert [words for words in wrong.says if words not in said] == []
    assert {schedexts.get(name)["metadata"]["generation"] for name in changed} == {1}

    for name, (_, new) in changed.items():
        schedexts.replace(name, **new)
    await_daemon_sets(schedexts, wanted)
    for name, (old, _) in changed.items():
        schedexts.replace(name, **old)
    await_daemon_sets(schedexts, first)

    def written(since: int) -> list[str]:
        asked = cluster.audit(since=since, user=sked.name, namespace=schedexts.namespace)
        kinds = ("daemonsets", "schedexts/status")
        return [f"{each.verb} {each.name}" for each in asked if each.verb != "get" and each.resource in kinds]

    await_silence(written, cluster)
    since = cluster.audit_log.position()
    for name in changed:
        schedexts.annotate(name, note="look")
    assert polling.stays_untrue(lambda: written(since), for_s=4), written(since)
    cluster.client.delete(f"/api/v1/namespaces/{schedexts.namespace}")
