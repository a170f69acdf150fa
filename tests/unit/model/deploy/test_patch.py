"""What counts as a difference, and what the API server only spells in another way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.api.daemonset import DaemonSet, Volume
from schedkit.model.api.pod_fields import Resources
from schedkit.model.api.quantities import amount
from schedkit.model.api.schedext import HostMount, SchedExt, SchedExtMeta, SchedExtSpec
from schedkit.model.deploy.patch import Operation, differences
from schedkit.model.deploy.render import render

CONTAINER = "/spec/template/spec/containers/0"


def daemon_set(**spec: Any) -> DaemonSet:  # noqa: ANN401 - any field of the spec
    meta = SchedExtMeta(name="x", namespace="default", uid="uid-1")
    return render(SchedExt(metadata=meta, spec=SchedExtSpec(**{"sched": "x:v1", **spec})))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        ("1", "1000m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1Gi", "1024Mi"),
        ("1G", "1000M"),
        ("1e3", "1k"),
        ("1E3", 1000),
        ("1E", "1000P"),
        ("+1", 1),
        ("1.0001", "1.001"),
        ("100u", "1m"),
    ],
)
def test_amounts_that_mean_the_same_are_equal(one: int | str, other: int | str) -> None:
    assert amount(one) == amount(other)


@pytest.mark.parametrize(("one", "other"), [("1Gi", "1G"), ("1", "1m"), ("1E", "1E1"), ("x", "y"), ("x", 0)])
def test_amounts_that_mean_something_else_differ(one: int | str, other: int | str) -> None:
    assert amount(one) != amount(other)


@given(st.one_of(st.integers(), st.text()))
def test_nothing_that_is_written_as_an_amount_is_an_error(text: int | str) -> None:
    assert amount(text) is not None


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("registry:5000/x", "Always"),
        ("x:v1", "IfNotPresent"),
        ("registry:5000/x:v1", "IfNotPresent"),
        ("x@sha256:00", "IfNotPresent"),
        ("x:latest@sha256:00", "Always"),
    ],
)
def test_the_pull_policy_that_kubernetes_fills_in_is_no_difference(image: str, policy: str) -> None:
    wanted, served = daemon_set(sched=image), daemon_set(sched=image, image_pull_policy=policy)
    other = {"Always": "IfNotPresent", "IfNotPresent": "Always"}[policy]

    assert differences(served, wanted) == ()
    assert differences(daemon_set(sched=image, image_pull_policy=other), wanted) == (
        Operation("remove", f"{CONTAINER}/imagePullPolicy"),
    )


def test_a_changed_image_is_one_operation() -> None:
    operations = differences(daemon_set(), daemon_set(sched="x:v2"))

    assert operations == (Operation("add", f"{CONTAINER}/image", "x:v2"),)


def test_a_removed_field_is_one_operation() -> None:
    limited = daemon_set(resources=Resources(limits={"cpu": 1}))

    assert differences(limited, daemon_set()) == (Operation("remove", f"{CONTAINER}/resources"),)


def test_a_removal_is_written_without_a_value() -> None:
    assert msgspec.json.encode(Operation("remove", "/a")) == b'{"op":"remove","path":"/a"}'


def test_our_volumes_leave_from_among_others_by_their_places() -> None:
    served = daemon_set(host_mounts=tuple(HostMount))
    boot, *others = served.spec.template.spec.volumes
    pod = msgspec.structs.replace(served.spec.template.spec, volumes=(boot, Volume(name="theirs"), *others))
    template = msgspec.structs.replace(served.spec.template, spec=pod)
    edited = msgspec.structs.replace(served, spec=msgspec.structs.replace(served.spec, template=template))

    paths = [operation.path for operation in differences(edited, daemon_set())]
    assert paths == [
        "/spec/template/spec/volumes/3",
        "/spec/template/spec/volumes/2",
        "/spec/template/spec/volumes/0",
        f"{CONTAINER}/volumeMounts",
    ]
