"""DaemonSets as they are rendered meet DaemonSets as the API server serves them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rig.builders import schedext_specs
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JSON_PATCH, ApiError, Client, JsonObject
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import SchedExt, SchedExtSpec
from schedkit.model.deploy.patch import Operation, differences, is_legacy
from schedkit.model.deploy.render import legacy_template, render

pytestmark = pytest.mark.full  # the tier would outgrow its budget

ROOT = Path(__file__).parents[2]
IMAGE = "ghcr.io/schedkit/scx_rusty:v1"
EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    # the namespace is only a place; names are never used twice
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Workshop:
    """A namespace in which SchedExts and their DaemonSets are made by hand."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._schedexts = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"
        self._daemon_sets = f"/apis/apps/v1/namespaces/{namespace}/daemonsets"
        self._numbers = itertools.count()

    def schedext(self, **spec: object) -> SchedExt:
        """A new SchedExt, as the API server serves it."""
        body = {
            "apiVersion": "sked.schedkit.io/v1",
            "kind": "SchedExt",
            "metadata": {"name": f"x{next(self._numbers)}"},
            "spec": {"sched": IMAGE, **spec},
        }
        return msgspec.convert(self._client.create(self._schedexts, body), SchedExt, strict=False)

    def changed(self, schedext: SchedExt, spec: JsonObject) -> SchedExt:
        """The same SchedExt with another spec."""
        path = f"{self._schedexts}/{schedext.metadata.name}"
        stored = self._client.get(path)
        return msgspec.convert(self._client.replace(path, {**stored, "spec": spec}), SchedExt, strict=False)

    def create(self, daemon_set: DaemonSet) -> DaemonSet:
        return self.read(self._client.create(self._daemon_sets, as_json(daemon_set)))

    def would_be(self, daemon_set: DaemonSet) -> JsonObject:
        """The spec that a new DaemonSet would have; nothing is created."""
        fresh = as_json(daemon_set)
        fresh["metadata"]["name"] += "-fresh"
        found: JsonObject = self._client.create(f"{self._daemon_sets}?dryRun=All", fresh)["spec"]
        return found

    def patch(self, name: str, operations: tuple[Operation, ...]) -> DaemonSet:
        body = json.loads(msgspec.json.encode(operations))
        return self.read(self._client.patch(f"{self._daemon_sets}/{name}", body, kind=JSON_PATCH))

    def spec(self, name: str) -> JsonObject:
        found: JsonObject = self._client.get(f"{self._daemon_sets}/{name}")["spec"]
        return found

    @staticmethod
    def read(body: JsonObject) -> DaemonSet:
        return msgspec.json.decode(json.dumps(body), type=DaemonSet)


def as_json(value: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(msgspec.json.encode(value))


@pytest.fixture(scope="module", autouse=True)
def crd(cluster: ControlPlane) -> None:
    """The CRD of this tree, served."""
    cluster.apply((ROOT / "config/crd/bases/sked.schedkit.io_schedexts.yaml").read_text())
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")


@pytest.fixture(scope="module")
def workshop(cluster: ControlPlane) -> Iterator[Workshop]:
    name = cluster.create_namespace("workshop")
    yield Workshop(cluster.client, name)
    cluster.client.delete(f"/api/v1/namespaces/{name}")


def test_the_specs_of_these_tests_have_every_field_but_the_image() -> None:
    names = {field.encode_name for field in msgspec.structs.fields(SchedExtSpec)}

    assert schedext_specs.FIELDS.keys() == names - {"sched"}


@EXAMPLES
@given(spec=schedext_specs.specs)
def test_a_daemon_set_that_was_just_created_needs_no_second_write(
    workshop: Workshop, spec: JsonObject
) -> None:
    wanted = render(workshop.schedext(**spec))

    assert differences(workshop.create(wanted), wanted) == ()


@EXAMPLES
@given(before=schedext_specs.specs, after=schedext_specs.specs)
def test_one_write_turns_any_daemon_set_into_the_one_of_another_spec(
    workshop: Workshop, before: JsonObject, after: JsonObject
) -> None:
    schedext = workshop.schedext(**before)
    observed = workshop.create(render(schedext))
    wanted = render(workshop.changed(schedext, after))

    changed = workshop.patch(schedext.metadata.name, differences(observed, wanted))

    assert differences(changed, wanted) == ()
    assert workshop.spec(schedext.metadata.name) == workshop.would_be(wanted) | {
        "selector": {"matchLabels": {"name": schedext.metadata.name}}
    }


@pytest.mark.parametrize("field", schedext_specs.FIELDS)
@settings(EXAMPLES, max_examples=6)
@given(data=st.data())
def test_removing_a_field_undoes_it(workshop: Workshop, field: str, data: st.DataObject) -> None:
    value = data.draw(schedext_specs.FIELDS[field])
    schedext = workshop.schedext(**{field: value})
    observed = workshop.create(render(schedext))
    bare = render(workshop.changed(schedext, {"sched": IMAGE}))

    operations = differences(observed, bare)
    if operations:
        workshop.patch(schedext.metadata.name, operations)

    assert workshop.spec(schedext.metadata.name) == workshop.would_be(bare)


# Hands on our fields, and on others

_CONTAINER = "/spec/template/spec/containers/0"


@pytest.mark.parametrize(
    "edit",
    [
        Operation("add", f"{_CONTAINER}/image", "docker.io/other:1"),
        Operation("add", f"{_CONTAINER}/imagePullPolicy", "Never"),
        Operation("add", f"{_CONTAINER}/args", ["--mine"]),
        Operation("add", f"{_CONTAINER}/env", [{"name": "A", "value": "b"}]),
        Operation("add", f"{_CONTAINER}/resources", {"limits": {"cpu": "1"}}),
        Operation("add", f"{_CONTAINER}/securityContext", {"privileged": False}),
        Operation("add", f"{_CONTAINER}/securityContext/runAsUser", 1000),
        Operation("add", f"{_CONTAINER}/terminationMessagePolicy", "File"),
        Operation("add", "/spec/template/spec/containers/-", {"name": "second", "image": "x"}),
        Operation("add", "/spec/template/spec/hostPID", True),
        Operation("add", "/spec/template/spec/nodeSelector", {"a": "b"}),
        Operation("add", "/spec/template/spec/tolerations", [{"operator": "Exists"}]),
        Operation("remove", "/spec/template/spec/affinity"),
        Operation("add", "/spec/template/spec/priorityClassName", "system-node-critical"),
        Operation("add", "/spec/template/spec/automountServiceAccountToken", True),
        Operation("add", "/spec/template/spec/imagePullSecrets", [{"name": "s"}]),
        Operation("remove", "/spec/template/metadata/labels/managed-by"),
        Operation("add", "/spec/updateStrategy", {"type": "OnDelete"}),
        Operation("remove", "/metadata/labels"),
    ],
    ids=lambda edit: f"{edit.op} {edit.path}",
)
def test_a_field_of_ours_is_put_back(workshop: Workshop, edit: Operation) -> None:
    wanted = render(workshop.schedext())
    created = workshop.create(wanted)
    original = workshop.spec(created.metadata.name)
    edited = workshop.patch(created.metadata.name, (edit,))

    operations = differences(edited, wanted)
    mended = workshop.patch(created.metadata.name, operations)

    assert len(operations) == 1
    assert mended.metadata.labels == created.metadata.labels
    assert workshop.spec(created.metadata.name) == original


@pytest.mark.parametrize(
    "edit",
    [
        Operation("add", "/metadata/annotations", {"example.com/seen": "yes"}),
        Operation("add", "/metadata/labels/team", "kernel"),
        Operation("add", "/spec/template/metadata/labels/team", "kernel"),
        Operation("add", "/spec/template/metadata/annotations", {"kubectl.kubernetes.io/restartedAt": "now"}),
        Operation("add", "/spec/minReadySeconds", 10),
        Operation("add", "/spec/revisionHistoryLimit", 3),
        Operation("add", "/spec/template/spec/dnsPolicy", "Default"),
        Operation("add", "/spec/template/spec/terminationGracePeriodSeconds", 5),
        Operation("add", "/spec/template/spec/volumes", [{"name": "theirs", "emptyDir": {}}]),
        Operation("add", f"{_CONTAINER}/livenessProbe", {"exec": {"command": ["true"]}}),
    ],
    ids=lambda edit: edit.path,
)
def test_a_field_that_is_not_ours_is_left_alone(workshop: Workshop, edit: Operation) -> None:
    wanted = render(workshop.schedext())
    created = workshop.create(wanted)

    assert differences(workshop.patch(created.metadata.name, (edit,)), wanted) == ()


def test_their_volumes_stay_when_ours_come_and_go(workshop: Workshop) -> None:
    schedext = workshop.schedext(hostMounts=["Boot"])
    name = schedext.metadata.name
    workshop.create(render(schedext))
    theirs = Operation("add", "/spec/template/spec/volumes/0", {"name": "theirs", "emptyDir": {}})
    edited = workshop.patch(name, (theirs,))

    stats = render(workshop.changed(schedext, {"sched": IMAGE, "hostMounts": ["Stats"]}))
    changed = workshop.patch(name, differences(edited, stats))
    assert [volume.name for volume in changed.spec.template.spec.volumes] == ["theirs", "stats"]

    bare = render(workshop.changed(schedext, {"sched": IMAGE}))
    changed = workshop.patch(name, differences(changed, bare))
    assert [volume.name for volume in changed.spec.template.spec.volumes] == ["theirs"]


# What the Go sked left


def test_a_daemon_set_of_the_go_sked_is_known_until_the_spec_changes(workshop: Workshop) -> None:
    schedext = workshop.schedext()
    template = legacy_template(schedext)
    assert template is not None
    wanted = render(schedext)
    legacy = workshop.create(
        msgspec.structs.replace(wanted, spec=msgspec.structs.replace(wanted.spec, template=template))
    )

    assert is_legacy(legacy, schedext)
    assert not is_legacy(legacy, workshop.changed(schedext, {"sched": "ghcr.io/schedkit/scx_rusty:v2"}))
    assert not is_legacy(legacy, workshop.changed(schedext, {"sched": IMAGE, "args": ["--fast"]}))
    assert is_legacy(legacy, workshop.changed(schedext, {"sched": IMAGE, "updateStrategy": {}}))


# Whatever the CRD lets through, the DaemonSet's own rules let through

_words = st.text("aA0-._/: ", max_size=4)
_near_misses: dict[str, st.SearchStrategy[object]] = {
    "args": st.lists(st.text(max_size=4), max_size=2),
    "env": st.lists(
        st.one_of(
            st.fixed_dictionaries({"name": _words, "value": st.text(max_size=3)}),
            st.fixed_dictionaries(
                {
                    "name": _words,
                    "valueFrom": st.fixed_dictionaries(
                        {"secretKeyRef": st.fixed_dictionaries({"name": _words, "key": _words})}
                    ),
                }
            ),
        ),
        max_size=2,
    ),
    "resources": st.fixed_dictionaries(
        {},
        optional={
            word: st.dictionaries(
                st.sampled_from(["cpu", "memory", "gpu"]), st.one_of(st.integers(), st.text("0129.eEmMKi+-"))
            )
            for word in ("requests", "limits")
        },
    ),
    "imagePullSecrets": st.lists(st.fixed_dictionaries({"name": _words}), max_size=2),
    "priorityClassName": _words,
    "nodeSelector": st.dictionaries(_words, _words, max_size=2),
    "tolerations": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "key": _words,
                "operator": st.sampled_from(["Exists", "Equal"]),
                "value": _words,
                "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
                "tolerationSeconds": st.integers(-5, 5),
            },
        ),
        max_size=2,
    ),
    "affinity": st.builds(
        lambda terms: {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        },
        st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "matchExpressions": st.lists(
                        st.fixed_dictionaries(
                            {"key": _words, "operator": st.sampled_from(["In", "Exists", "Gt"])},
                            optional={"values": st.lists(_words, max_size=2)},
                        ),
                        max_size=2,
                    ),
                    "matchFields": st.lists(
                        st.fixed_dictionaries(
                            {
                                "key": st.just("metadata.name"),
                                "operator": st.sampled_from(["In", "NotIn"]),
                                "values": st.lists(_words, max_size=2),
                            }
                        ),
                        max_size=1,
                    ),
                },
            ),
            max_size=2,
        ),
    ),
    "updateStrategy": st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["RollingUpdate", "OnDelete"]),
            "rollingUpdate": st.fixed_dictionaries(
                {},
                optional={
                    "maxUnavailable": st.one_of(st.integers(-1, 200), st.text("0159%", max_size=4)),
                    "maxSurge": st.one_of(st.integers(-1, 1), st.text("01%", max_size=3)),
                },
            ),
        },
    ),
}


@pytest.mark.parametrize("field", _near_misses)
@settings(EXAMPLES, max_examples=60)
@given(data=st.data())
def test_what_the_crd_accepts_is_accepted_as_a_daemon_set(
    workshop: Workshop, field: str, data: st.DataObject
) -> None:
    try:
        schedext = workshop.schedext(**{field: data.draw(_near_misses[field])})
    except ApiError as refused:
        if refused.status != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        return

    assert workshop.would_be(render(schedext))
