"""What the API server itself says about a `SchedExt`, before any operator sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, JsonObject
from schedkit.model.api.schedext import SchedExtSpec

pytestmark = pytest.mark.full  # the tier would outgrow its budget

ROOT = Path(__file__).parents[2]
CRD = ROOT / "config/crd/bases/sked.schedkit.io_schedexts.yaml"
REFUSALS: list[JsonObject] = yaml.safe_load((ROOT / "tests/golden/refusals.yaml").read_text())
IMAGE = "ghcr.io/schedkit/scx_rusty:v1"
DIGEST = "sha256:" + "0123456789abcdef" * 4

# what the API server adds when a type is wrong: it says nothing about the mistake
_NOISE = "<nil>: Invalid value: null: some validation rules were not checked"
_NEXT_COMPLAINT = re.compile(r", (?=(?:spec|metadata|<nil>)[.:\[])")


@pytest.fixture(scope="module", autouse=True)
def crd(cluster: ControlPlane) -> None:
    """The CRD of this tree, served."""
    cluster.apply(CRD.read_text())
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")


@pytest.fixture(scope="module")
def said(cluster: ControlPlane) -> Iterator[dict[str, list[str]]]:
    """What one `kubectl apply` of every wrong object says, by case."""
    name = cluster.create_namespace("refused")
    texts = [json.dumps(manifest(number, case)) for number, case in enumerate(REFUSALS)]
    done = cluster.kubectl("apply", "--namespace", name, "-f", "-", stdin="\n---\n".join(texts), check=False)
    assert done.stdout == "", "kubectl accepted a wrong object"
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error from server")]
    yield {case["case"]: complaints(line) for case, line in zip(REFUSALS, errors, strict=True)}
    cluster.client.delete(f"/api/v1/namespaces/{name}")


def manifest(number: int, case: JsonObject) -> JsonObject:
    """An object that lacks nothing but what the case is about."""
    name = case.get("name", f"case-{number}")
    spec = case.get("spec", {})
    return schedext(name, **spec) if isinstance(spec, dict) else {**schedext(name), "spec": spec}


def schedext(name: str, **spec: object) -> JsonObject:
    full = {word: value for word, value in {"sched": IMAGE, **spec}.items() if value is not None}
    return {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExt",
        "metadata": {"name": name},
        "spec": full,
    }


def complaints(line: str) -> list[str]:
    """The single complaints in an error, sorted: the API server has no order of its own."""
    text = re.split(" is invalid: |strict decoding error: ", line, maxsplit=1)[1]
    parts = _NEXT_COMPLAINT.split(text[1:-1] if text.startswith("[") else text)
    return sorted(part for part in parts if not part.startswith(_NOISE))


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["case"])
def test_wrong_input_is_refused_with_a_message_that_helps(
    said: dict[str, list[str]], case: JsonObject
) -> None:
    assert said[case["case"]] == case["says"]


def test_every_field_of_the_spec_is_refused_in_two_ways_at_least() -> None:
    wrong = [field for case in REFUSALS if isinstance(case.get("spec"), dict) for field in case["spec"]]

    names = [field.encode_name for field in msgspec.structs.fields(SchedExtSpec)]
    assert {name: wrong.count(name) for name in names if wrong.count(name) < 2} == {}


@pytest.mark.parametrize(
    "image",
    [
        "scx_rusty",
        "schedkit/scx_rusty:latest",
        "ghcr.io/schedkit/scheds/scx_rusty:latest",
        "localhost/scx_rusty",
        "localhost:5000/scx_rusty:v1.0.0-rc.1",
        "registry:5000/scx_rusty",
        "127.0.0.1:65535/a/b/c/d",
        "[::1]:5000/scx_rusty",
        "Registry.Example.COM/scx__rusty/with-dashes--and.dots:TAG_1",
        f"ghcr.io/schedkit/scx_rusty@{DIGEST}",
        f"ghcr.io/schedkit/scx_rusty:v1@{DIGEST}",
        "a" * 255 + ":" + "t" * 128 + f"@{DIGEST}",
    ],
)
def test_an_image_reference_that_nodes_can_pull_is_accepted(
    cluster: ControlPlane, namespace: str, image: str
) -> None:
    path = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"

    assert cluster.client.create(path, schedext("x", sched=image))["spec"]["sched"] == image


def test_the_sample_is_accepted_as_it_stands_and_shown_in_columns(cluster: ControlPlane) -> None:
    sample = ROOT / "config/samples/sked_v1_schedext.yaml"
    try:
        cluster.kubectl("apply", "--validate=strict", "-f", str(sample))
        head, row = cluster.kubectl("get", "scx", "scx-rusty", "-o", "wide").stdout.splitlines()
    finally:
        cluster.kubectl("delete", "-f", str(sample))

    columns = ["NAME", "SCHED", "DESIRED", "ATTACHED", "PODSREADY", "READY", "REASON", "AGE"]
    assert head.split() == columns
    assert row.split()[:2] == ["scx-rusty", "ghcr.io/schedkit/scx_rusty:latest"]


def test_defaults_are_filled_in_by_the_api_server(cluster: ControlPlane, namespace: str) -> None:
    path = f"/apis/sked.schedkit.io/v1/namespaces/{namespace}/schedexts"
    bare = cluster.client.create(path, schedext("bare"))
    strategy = cluster.client.create(path, schedext("strategy", updateStrategy={}))

    defaults = {"hostPID": False, "securityProfile": "Privileged", "suspend": False}
    assert bare["spec"] == {"sched": IMAGE, **defaults}
    assert strategy["spec"]["updateStrategy"] == {"type": "RollingUpdate"}


def test_kubectl_explains_every_field_of_the_spec(cluster: ControlPlane) -> None:
    explained = cluster.kubectl("explain", "schedext.spec").stdout

    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert fields.keys() == {field.encode_name for field in msgspec.structs.fields(SchedExtSpec)}
    assert [name for name in fields if f"  {name}\t" not in explained] == []
    words = " ".join(explained.split())
    assert [name for name in fields if fields[name]["description"] not in words] == []


def test_an_object_that_is_older_than_the_rules_can_still_be_reported_on(
    cluster: ControlPlane, namespace: str
) -> None:
    """The Go sked's CRD accepted any string. Its stored objects must not block a status write."""
    group = f"{namespace}.example.com"
    strict = _of_group(yaml.safe_load(CRD.read_text()), group)
    cluster.apply(json.dumps(_without_rules(strict)))
    cluster.kubectl("wait", "--for=condition=Established", f"crd/schedexts.{group}")
    path = f"/apis/{group}/v1/namespaces/{namespace}/schedexts"
    old = {**schedext("old", sched="not an image"), "apiVersion": f"{group}/v1"}
    polling.until(lambda: _created(cluster, path, old), "the loose CRD accepts any image")

    cluster.apply(json.dumps(strict))
    polling.until(lambda: not _created(cluster, path, _named(old, "new")), "the strict CRD is in force")
    stored = cluster.client.get(f"{path}/old")
    written = cluster.client.replace(f"{path}/old/status", {**stored, "status": {"observedGeneration": 1}})

    assert written["status"] == {"observedGeneration": 1}
    cluster.kubectl("delete", "crd", f"schedexts.{group}", "--wait=false")


def _of_group(crd: JsonObject, group: str) -> JsonObject:
    """The same CRD in a group of its own, so that no other test meets it."""
    spec = {**crd["spec"], "group": group, "names": {**crd["spec"]["names"], "shortNames": []}}
    return {**crd, "metadata": {"name": f"schedexts.{group}"}, "spec": spec}


def _without_rules(crd: JsonObject) -> JsonObject:
    text = json.loads(json.dumps(crd))
    for version in text["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
            "type": "object",
            "properties": {"sched": {"type": "string"}},
        }
    return dict(text)


def _named(body: JsonObject, name: str) -> JsonObject:
    return {**body, "metadata": {"name": name}}


def _created(cluster: ControlPlane, path: str, body: JsonObject) -> bool:
    """Whether the API server takes the object; a taken one is stored only the first time."""
    try:
        cluster.client.create(path, body)
    except ApiError as error:
        return error.reason == "AlreadyExists"
    return True
