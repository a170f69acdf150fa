"""The client's verbs and credentials, as a real API server takes them."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from rig.builders import kubernetes_objects
from rig.cluster import faultproxy
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from schedkit.kube import errors
from schedkit.kube.access import config
from schedkit.kube.client import Client, Selection
from schedkit.kube.informer import Informer
from schedkit.kube.resources import Metadata, Resource

pytestmark = pytest.mark.full  # the tier would outgrow its budget

R = TypeVar("R")


class ConfigMap(msgspec.Struct, gc=False):
    metadata: Metadata | None = None
    data: dict[str, str] | None = None


class Namespace(msgspec.Struct, gc=False):
    metadata: Metadata | None = None


MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMap)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", Namespace, namespaced=False)


def ask(kubeconfig: Path, do: Callable[[Client], Awaitable[R]]) -> R:
    async def play() -> R:
        async with asyncio.timeout(60), Client(config.discover(kubeconfig, env={})) as client:
            return await do(client)

    return asyncio.run(play())


def identity(thing: ConfigMap) -> tuple[str, str]:
    assert thing.metadata is not None
    return thing.metadata.uid or "", thing.metadata.resource_version or ""


def test_an_object_lives_through_every_verb(cluster: ControlPlane, namespace: str) -> None:
    async def life(client: Client) -> None:
        made = await client.create(MAPS, kubernetes_objects.config_map("x", a="1"), namespace)
        assert made.data == {"a": "1"}

        merged = await client.patch(MAPS, {"data": {"b": "2"}}, "x", namespace)
        assert merged.data == {"a": "1", "b": "2"}

        replaced = await client.update(MAPS, kubernetes_objects.config_map("x", d="4"), "x", namespace)
        assert replaced.data == {"d": "4"}

        assert (await client.get(MAPS, "x", namespace)).data == {"d": "4"}
        await client.delete(MAPS, "x", namespace)
        assert await client.find(MAPS, "x", namespace) is None

    ask(cluster.kubeconfig, life)


def test_a_stale_version_is_a_conflict_for_every_write(cluster: ControlPlane, namespace: str) -> None:
    async def stale(client: Client) -> None:
        _, version = identity(await client.create(MAPS, kubernetes_objects.config_map("x"), namespace))
        await client.patch(MAPS, {"data": {"a": "1"}}, "x", namespace)
        old = {"name": "x", "resourceVersion": version}
        with pytest.raises(errors.ConflictError):
            await client.update(MAPS, {"metadata": old}, "x", namespace)
        with pytest.raises(errors.ConflictError):
            await client.patch(MAPS, {"metadata": old, "data": {"a": "2"}}, "x", namespace)

    ask(cluster.kubeconfig, stale)


def test_a_write_meant_for_a_predecessor_of_the_same_name_is_refused(
    cluster: ControlPlane, namespace: str
) -> None:
    async def recreated(client: Client) -> None:
        uid, _ = identity(await client.create(MAPS, kubernetes_objects.config_map("x"), namespace))
        await client.delete(MAPS, "x", namespace, uid=uid)
        await client.create(MAPS, kubernetes_objects.config_map("x", fresh="yes"), namespace)
        with pytest.raises(errors.ConflictError):
            await client.delete(MAPS, "x", namespace, uid=uid)
        with pytest.raises(errors.ConflictError):
            await client.patch(MAPS, {"metadata": {"uid": uid}, "data": {"fresh": "no"}}, "x", namespace)
        assert (await client.get(MAPS, "x", namespace)).data == {"fresh": "yes"}

    ask(cluster.kubeconfig, recreated)


def test_refusals_keep_the_servers_words(cluster: ControlPlane, namespace: str) -> None:
    async def refused(client: Client) -> None:
        await client.create(MAPS, kubernetes_objects.config_map("x"), namespace)
        with pytest.raises(errors.AlreadyExistsError, match='configmaps "x" already exists'):
            await client.create(MAPS, kubernetes_objects.config_map("x"), namespace)
        with pytest.raises(errors.NotFoundError, match='configmaps "y" not found'):
            await client.get(MAPS, "y", namespace)
        with pytest.raises(errors.InvalidError) as invalid:
            await client.create(MAPS, kubernetes_objects.config_map("Not A Name"), namespace)
        assert [cause.field for cause in invalid.value.causes] == ["metadata.name"]

    ask(cluster.kubeconfig, refused)


def test_a_user_without_permission_is_told_what_is_missing(cluster: ControlPlane, namespace: str) -> None:
    with pytest.raises(errors.ForbiddenError, match='cannot get resource "configmaps"') as refused:
        ask(cluster.user("nobody-in-particular"), lambda client: client.get(MAPS, "x", namespace))
    assert refused.value.code == 403


def test_a_list_in_pages_is_one_snapshot(cluster: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(7):
        body = kubernetes_objects.config_map(f"map-{number}")
        body["metadata"]["labels"] = {"mine": "yes"}
        cluster.client.create(path, body)

    async def paged(client: Client) -> list[tuple[str, int]]:
        sizes = []
        async for page in client.pages(MAPS, Selection(namespace, labels="mine=yes"), limit=3):
            sizes.append((page.version, len(page.items)))
            cluster.client.create(path, kubernetes_objects.config_map(f"late-{len(sizes)}"))
        return sizes

    sizes = ask(cluster.kubeconfig, paged)

    assert [size for _, size in sizes] == [3, 3, 1]
    assert len({version for version, _ in sizes}) == 1


def test_cluster_wide_kinds_are_read(cluster: ControlPlane, namespace: str) -> None:
    async def every(client: Client) -> list[Namespace]:
        return [each async for page in client.pages(NAMESPACES) for each in page.items]

    found = ask(cluster.kubeconfig, every)

    assert namespace in {each.metadata.name for each in found if each.metadata}


async def default_namespace(client: Client) -> str:
    """The name of a namespace that is always there, which takes a connection to find out."""
    found = await client.get(NAMESPACES, "default")
    return found.metadata.name if found.metadata else ""


def test_a_closed_client_has_no_connection_left_whatever_was_under_way(
    cluster: ControlPlane, namespace: str
) -> None:
    async def interrupted_after(seconds: float) -> int:
        async with Client(config.discover(cluster.kubeconfig, env={})) as client:
            following = asyncio.create_task(Informer(client, MAPS, Selection(namespace)).run())
            await asyncio.sleep(seconds)  # while it connects, shakes hands, lists, or watches
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return connections(cluster)

    before = connections(cluster)  # the rig's own

    assert [asyncio.run(interrupted_after(moment / 1000)) for moment in range(40)] == [before] * 40


def connections(cluster: ControlPlane) -> int:
    """This process's sockets that lead to the API server, as the kernel sees them."""
    mine = {link.readlink().name for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    port = f":{cluster.layout.ports.api:04X}"
    return sum(row[2].endswith(port) and f"socket:[{row[9]}]" in mine for row in rows)


# Credentials and ways to the server


def kubeconfig(cluster: ControlPlane, path: Path, user: JsonObject, **more: Any) -> Path:  # noqa: ANN401
    """A kubeconfig for the cluster with another user, or other words about the cluster."""
    whole = json.loads(cluster.kubeconfig.read_text())
    whole["users"][0]["user"] = user
    whole["clusters"][0]["cluster"] |= more
    path.write_text(json.dumps(whole))
    return path


def token_of(cluster: ControlPlane, namespace: str, name: str) -> str:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if cluster.client.find(f"{accounts}/{name}") is None:
        cluster.client.create(accounts, {"metadata": {"name": name}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = cluster.client.create(f"{accounts}/{name}/token", request)["status"]["token"]
    return token


def may_read_maps(cluster: ControlPlane, namespace: str) -> None:
    """Everybody with a service account of the namespace may."""
    binding = kubernetes_objects.role_binding("reader", user="unused")
    group = f"system:serviceaccounts:{namespace}"
    binding["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]
    cluster.apply(kubernetes_objects.role("reader", {"configmaps": ["get"]}), binding, namespace=namespace)
    cluster.client.create(
        f"/api/v1/namespaces/{namespace}/configmaps", kubernetes_objects.config_map("x", seen="yes")
    )


async def read_x(client: Client, namespace: str) -> ConfigMap:
    return await client.get(MAPS, "x", namespace)


def test_a_token_the_server_refuses_is_replaced_as_soon_as_the_file_has_a_good_one(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    may_read_maps(cluster, namespace)
    file = tmp_path / "token"
    file.write_text(token_of(cluster, namespace, "first"))

    async def rotate(client: Client) -> None:
        await polling_get(client, namespace)
        file.write_text("no token of this cluster")
        with pytest.raises(errors.ForbiddenError) as error:
            await read_x(client, namespace)
        assert error.value.code == 401

        file.write_text(token_of(cluster, namespace, "second"))
        assert (await read_x(client, namespace)).data == {"seen": "yes"}

    ask(kubeconfig(cluster, tmp_path / "config", {"tokenFile": str(file)}), rotate)


async def polling_get(client: Client, namespace: str) -> ConfigMap:
    """A new role takes effect a moment after it was accepted."""
    for _ in range(50):
        try:
            return await read_x(client, namespace)
        except errors.ForbiddenError:
            await asyncio.sleep(0.1)
    return await read_x(client, namespace)


def test_in_a_pod_the_mounted_token_and_namespace_are_used(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    may_read_maps(cluster, namespace)
    (tmp_path / "token").write_text(token_of(cluster, namespace, "default") + "\n")
    (tmp_path / "ca.crt").write_bytes(cluster.layout.authority.ca_file.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(cluster.layout.ports.api)}

    async def read() -> ConfigMap:
        async with Client(config.in_cluster(env, tmp_path)) as client:
            return await polling_get(client, client.namespace)

    assert asyncio.run(read()).data == {"seen": "yes"}


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_a_credential_program_speaks_for_the_user(
    cluster: ControlPlane, namespace: str, tmp_path: Path, kind: str
) -> None:
    may_read_maps(cluster, namespace)
    pair = cluster.layout.pair("exec-admin", group="system:masters")
    status = {
        "token": {"token": token_of(cluster, namespace, "default")},
        "certificate": {
            "clientCertificateData": pair.cert.read_text(),
            "clientKeyData": pair.key.read_text(),
        },
    }[kind]
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "credential.json").write_text(json.dumps(credential))
    script = tmp_path / "helper"
    script.write_text(
        f"#!{sys.executable}\nimport os, pathlib\n"
        "assert '127.0.0.1' in os.environ['KUBERNETES_EXEC_INFO'], os.environ\n"
        "print(pathlib.Path(os.environ['ANSWER']).read_text())\n"
    )
    script.chmod(0o700)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./helper",
        "env": [{"name": "ANSWER", "value": str(tmp_path / "credential.json")}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }

    file = kubeconfig(cluster, tmp_path / "config", {"exec": plugin})

    assert ask(file, lambda client: polling_get(client, namespace)).data == {"seen": "yes"}


def test_certificates_by_relative_path_and_another_server_name(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    whole = json.loads(cluster.kubeconfig.read_text())
    user = whole["users"][0]["user"]
    for name in ("client-certificate", "client-key"):
        (tmp_path / f"{name}.pem").write_bytes(base64.b64decode(user[f"{name}-data"]))
    named = {name: f"{name}.pem" for name in ("client-certificate", "client-key")}
    file = kubeconfig(cluster, tmp_path / "config", named, **{"tls-server-name": "kubernetes.default"})

    assert ask(file, default_namespace) == "default"

    wrong = kubeconfig(cluster, tmp_path / "wrong", named, **{"tls-server-name": "elsewhere.example"})
    with pytest.raises(errors.UnavailableError, match=r"elsewhere\.example") as refusal:
        ask(wrong, default_namespace)
    assert not refusal.value.acted


def test_a_proxy_named_in_the_kubeconfig_is_used(cluster: ControlPlane, tmp_path: Path) -> None:
    connects: list[str] = []

    async def through_a_proxy() -> str:
        async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connects.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0])
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await made.accept(reader, writer)

        made = faultproxy.Relay(cluster.layout.ports.api)
        async with faultproxy.listening(tunnel) as port:
            user = json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]
            proxy = {"proxy-url": f"http://127.0.0.1:{port}"}
            file = kubeconfig(cluster, tmp_path / "config", user, **proxy)
            async with Client(config.discover(file, env={})) as client:
                return await default_namespace(client)

    assert asyncio.run(through_a_proxy()) == "default"
    assert connects == [f"CONNECT 127.0.0.1:{cluster.layout.ports.api} HTTP/1.1"]
