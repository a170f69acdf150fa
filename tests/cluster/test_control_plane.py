"""The shared control plane is real, private, and tells what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.base import polling
from rig.builders import kubernetes_objects
from rig.cluster import kubernetes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError, Client

_LISTENING = "0A"
_LOOPBACK = "0100007F"


def test_the_api_server_is_ready_and_of_the_pinned_minor(cluster: ControlPlane) -> None:
    assert cluster.client.text("/readyz") == "ok"
    running = cluster.client.get("/version")["gitVersion"]
    assert kubernetes.minor(running) == kubernetes.minor(kubernetes.version())


def test_every_program_listens_on_loopback_only(cluster: ControlPlane) -> None:
    listening = {part.name: _listening_addresses(part.pid) for part in cluster.components}

    assert all(addresses == {_LOOPBACK} for addresses in listening.values()), listening


def _listening_addresses(pid: int) -> set[str]:
    """The addresses, as the kernel writes them, on which a process accepts connections."""
    links = [link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    inodes = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")}
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return {row[1].split(":")[0] for row in rows if row[3] == _LISTENING and row[9] in inodes}


@pytest.mark.parametrize("attempt", ["first", "second"])
def test_each_test_has_a_namespace_of_its_own(cluster: ControlPlane, namespace: str, attempt: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    found = [item["metadata"]["name"] for item in cluster.client.items(path)]
    assert "left-behind" not in found

    cluster.client.create(path, kubernetes_objects.config_map("left-behind"))


def test_kubectl_applies_objects_and_yaml(cluster: ControlPlane, namespace: str) -> None:
    said = cluster.apply(
        kubernetes_objects.config_map("value", answer="42"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: text}\n",
        namespace=namespace,
    )

    assert said.split() == ["configmap/value", "serverside-applied", "configmap/text", "serverside-applied"]
    answer = cluster.kubectl("get", "cm", "value", "-n", namespace, "-o", "jsonpath={.data.answer}")
    assert answer.stdout == "42"


def test_the_audit_log_names_user_verb_and_outcome_of_a_refused_request(
    cluster: ControlPlane, namespace: str
) -> None:
    start = cluster.audit_log.position()
    with pytest.raises(ApiError):
        Client(cluster.user("curious")).get(f"/api/v1/namespaces/{namespace}/configmaps")

    events = polling.until(lambda: list(cluster.audit(since=start, user="curious")), "it is in the audit log")

    assert [(event.verb, event.resource, event.namespace, event.code) for event in events] == [
        ("list", "configmaps", namespace, 403)
    ]


def test_the_audit_log_has_the_body_of_a_write_but_never_that_of_a_secret(
    cluster: ControlPlane, namespace: str
) -> None:
    secret = {"metadata": {"name": "hidden"}, "stringData": {"password": "unheard-of"}}
    cluster.client.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    cluster.client.create(
        f"/api/v1/namespaces/{namespace}/configmaps", kubernetes_objects.config_map("plain", a="seen")
    )

    written = polling.until(
        lambda: list(cluster.audit(namespace=namespace, verb="create", resource="configmaps", name="plain")),
        "the later write is in the audit log",
    )

    assert written[0].raw["requestObject"]["data"] == {"a": "seen"}
    assert list(cluster.audit(namespace=namespace, verb="create", resource="secrets", name="hidden"))
    assert "unheard-of" not in cluster.audit_log.path.read_text()
