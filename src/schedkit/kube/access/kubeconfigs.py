"""Reads kubeconfig files: contexts, certificates, tokens, credential programs and proxies."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from schedkit.kube.access.config import Connection, proxy_for, trusting, without_userinfo
from schedkit.kube.access.credentials import (
    Credentials,
    ExecPlugin,
    FixedToken,
    TokenFile,
    load_client_certificate,
)
from schedkit.kube.errors import ConfigError


class _Part(msgspec.Struct, rename="kebab", kw_only=True):
    # the folder of the file it was read from, where its relative paths start
    folder: Path = msgspec.field(default=Path(), name="-folder")

    def bytes_of(self, data: str | None, file: str | None, what: str) -> bytes | None:
        """Content given inline in base64, or in a file; None if in neither."""
        try:
            if data:
                return base64.b64decode(data, validate=True)
            return (self.folder / file).read_bytes() if file else None
        except (OSError, binascii.Error) as error:
            raise ConfigError(f"{what} of the kubeconfig cannot be read: {error}") from error


class _Cluster(_Part, rename="kebab", kw_only=True):
    server: str = ""
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class _User(_Part, rename="kebab", kw_only=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    exec: _Exec | None = None
    username: str | None = None
    auth_provider: object = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def load(files: Sequence[Path], *, context: str | None, env: Mapping[str, str]) -> Connection:
    """The connection of that context, or of the current one; of several files the first word counts."""
    parsed = [_read(file) for file in files]
    current = context or next((file.current_context for file in parsed if file.current_context), None)
    where = ", ".join(map(str, files))
    if current is None:
        raise ConfigError(f"{where} has no current-context: name one")
    contexts = {each.name: each.context for file in reversed(parsed) for each in file.contexts or ()}
    clusters = {each.name: each.cluster for file in reversed(parsed) for each in file.clusters or ()}
    users = {each.name: each.user or _User() for file in reversed(parsed) for each in file.users or ()}
    chosen = _pick("context", current, contexts, where)
    cluster = _pick("cluster", chosen.cluster, clusters, where)
    user = _pick("user", chosen.user, users, where) if chosen.user else _User()
    return _connection(cluster, user, chosen.namespace or "default", env)


_Value = TypeVar("_Value")


def _pick(what: str, name: str, known: Mapping[str, _Value], where: str) -> _Value:
    if name not in known:
        raise ConfigError(f"{where} has no {what} {name!r}: it has {', '.join(sorted(known)) or 'none'}")
    return known[name]


def _read(file: Path) -> _File:
    try:
        parsed = msgspec.yaml.decode(file.read_bytes(), type=_File)
    except OSError as error:
        raise ConfigError(f"the kubeconfig {file} cannot be read: {error.strerror}; name another") from error
    except msgspec.MsgspecError as error:
        content = f"one is YAML with clusters, users and contexts ({error})"
        raise ConfigError(f"{file} is no kubeconfig: {content}; name another") from error
    for each in parsed.clusters or ():
        each.cluster.folder = file.parent
    for one in parsed.users or ():
        if one.user is not None:
            one.user.folder = file.parent
    return parsed


def _connection(cluster: _Cluster, user: _User, namespace: str, env: Mapping[str, str]) -> Connection:
    if not cluster.server.startswith(("https://", "http://")):
        shown = without_userinfo(cluster.server)
        raise ConfigError(f"the kubeconfig's server {shown!r} is no https:// address")
    tls = _tls(cluster, user) if cluster.server.startswith("https://") else None
    return Connection(
        cluster.server.rstrip("/"),
        tls=tls,
        credentials=_credentials(cluster, user, tls),
        namespace=namespace,
        server_name=cluster.tls_server_name,
        proxy=proxy_for(cluster.server, cluster.proxy_url, env),
    )


def _tls(cluster: _Cluster, user: _User) -> ssl.SSLContext:
    authority = cluster.bytes_of(
        cluster.certificate_authority_data, cluster.certificate_authority, "the certificate authority"
    )
    tls = trusting(cadata=authority.decode(errors="replace") if authority else None)
    if cluster.insecure_skip_tls_verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = user.bytes_of(
        user.client_certificate_data, user.client_certificate, "the client certificate"
    )
    if certificate is not None:
        key = user.bytes_of(user.client_key_data, user.client_key, "the client key")
        load_client_certificate(tls, certificate, key or b"")
    return tls


def _credentials(cluster: _Cluster, user: _User, tls: ssl.SSLContext | None) -> Credentials:
    if user.username is not None or user.auth_provider is not None:
        raise ConfigError(
            "the kubeconfig's user has a password or an auth-provider, which Kubernetes dropped: "
            "use a token, a certificate or a credential program"
        )
    if user.token_file is not None:
        return TokenFile(user.folder / user.token_file)
    if user.token is not None:
        return FixedToken(user.token)
    if user.exec is not None:
        return _program(cluster, user, user.exec, tls)
    return FixedToken()


def _program(cluster: _Cluster, user: _User, plugin: _Exec, tls: ssl.SSLContext | None) -> ExecPlugin:
    # as kubectl: a path is relative to the file, a bare name is found on PATH
    command = str(user.folder / plugin.command) if "/" in plugin.command else plugin.command
    info: dict[str, object] = {"server": cluster.server}
    if authority := cluster.bytes_of(
        cluster.certificate_authority_data, cluster.certificate_authority, "the certificate authority"
    ):
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    return ExecPlugin(
        (command, *(plugin.args or ())),
        api_version=plugin.api_version,
        env={each.name: each.value for each in plugin.env or ()},
        tls=tls,
        cluster_info=info if plugin.provide_cluster_info else None,
        hint=plugin.install_hint,
    )
