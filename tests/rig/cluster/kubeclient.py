"""Kubeconfigs, and a small JSON client that keeps its connections open.

Tests create thousands of objects; a kubectl per object would take minutes. This client knows no
resource and retries nothing: a test that kills the API server must see it die.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import select
import ssl
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from rig.base.certificates import KeyPair

JsonObject: TypeAlias = dict[str, Any]

_WATCH_S = 300
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


@dataclass
class ApiError(Exception):
    """The API server refused; the message is its own."""

    status: int
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}"


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, user: JsonObject) -> Path:
    """A kubeconfig in JSON, which is YAML too, with everything embedded and readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "rig", "cluster": {"server": server, "certificate-authority-data": _encoded(ca_file)}}
        ],
        "users": [{"name": "rig", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "current-context": "rig",
    }
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        json.dump(config, handle, indent=1)
    return path


def certificate_user(pair: KeyPair) -> JsonObject:
    """The `user` of a kubeconfig that proves itself with a certificate."""
    return {"client-certificate-data": _encoded(pair.cert), "client-key-data": _encoded(pair.key)}


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def tls_of(kubeconfig: Path) -> ssl.SSLContext:
    """With what that kubeconfig's user, who has a certificate, reaches its server."""
    config = json.loads(kubeconfig.read_text())
    tls = _trusting(config["clusters"][0]["cluster"])
    _present_certificate(tls, config["users"][0]["user"])
    return tls


class Client:
    """One user's requests to one API server, from any number of threads; connections end with the client."""

    def __init__(self, kubeconfig: Path, *, token: str | None = None, timeout_s: float = 60) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = urlsplit(cluster["server"])
        self._tls = _trusting(cluster)
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        else:
            _present_certificate(self._tls, user)
        self._idle: list[http.client.HTTPSConnection] = []
        weakref.finalize(self, _close, self._idle)

    def get(self, path: str, **query: str) -> JsonObject:
        """Read an object or a list."""
        return self._request("GET", _url(path, query))

    def find(self, path: str, **query: str) -> JsonObject | None:
        """Like `get`, None if it does not exist."""
        try:
            return self.get(path, **query)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def items(self, path: str, **query: str) -> list[JsonObject]:
        """The objects of a list."""
        found: list[JsonObject] = self.get(path, **query)["items"]
        return found

    def metadata(self, path: str, **query: str) -> list[JsonObject]:
        """The objects of a list without spec and status, which is most of their size."""
        answer = json.loads(self._exchange("GET", _url(path, query), None, {"Accept": _METADATA_ONLY}))
        found: list[JsonObject] = answer["items"]
        return found

    def text(self, path: str) -> str:
        """What a non-JSON endpoint such as `/readyz` says."""
        return self._exchange("GET", path, None, {}).decode()

    def create(self, path: str, body: Mapping[str, Any]) -> JsonObject:
        return self._request("POST", path, body)

    def refusal(self, path: str, body: Mapping[str, Any]) -> ApiError | None:
        """Why the object cannot be created; None if it could. Nothing is really created."""
        try:
            self.create(f"{path}?dryRun=All", body)
        except ApiError as error:
            return error
        return None

    def replace(self, path: str, body: Mapping[str, Any]) -> JsonObject:
        return self._request("PUT", path, body)

    def patch(self, path: str, body: Mapping[str, Any] | list[Any], *, kind: str = MERGE_PATCH) -> JsonObject:
        return self._request("PATCH", path, body, kind=kind)

    def delete(self, path: str, options: Mapping[str, Any] | None = None, **query: str) -> JsonObject:
        return self._request("DELETE", _url(path, query), options)

    def watch(self, path: str, resource_version: str, **query: str) -> Iterator[JsonObject]:
        """The events after that version, as the server sends them, until it ends the watch."""
        query |= {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": str(_WATCH_S)}
        connection = self._connect(_WATCH_S + 30)
        try:
            connection.request("GET", _url(path, query), headers=self._headers)
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise _refusal(response.status, response.read())
            for line in response:
                yield json.loads(line)
        finally:
            connection.close()

    def _request(
        self,
        verb: str,
        url: str,
        body: Mapping[str, Any] | list[Any] | None = None,
        *,
        kind: str = "application/json",
    ) -> JsonObject:
        headers = {"Content-Type": kind} if body is not None else {}
        data = json.dumps(body).encode() if body is not None else None
        answer: JsonObject = json.loads(self._exchange(verb, url, data, headers))
        return answer

    def _exchange(self, verb: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        connection = self._open_connection()
        try:
            connection.request(verb, url, data, {**self._headers, **headers})
            response = connection.getresponse()
            answer = response.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            raise
        self._idle.append(connection)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise _refusal(response.status, answer)
        return answer

    def _open_connection(self) -> http.client.HTTPSConnection:
        with suppress(IndexError):  # another thread may take the last one while we look
            while True:
                connection = self._idle.pop()
                if not _was_closed(connection):
                    return connection
                connection.close()
        return self._connect(self._timeout_s)

    def _connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        host, port = self._server.hostname or "", self._server.port
        return http.client.HTTPSConnection(host, port, context=self._tls, timeout=timeout_s)


def _close(connections: list[http.client.HTTPSConnection]) -> None:
    for connection in connections:
        connection.close()


def _was_closed(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server ended it while it was idle: it does so after a while, and when it ends itself."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))  # there is nothing to read but the end


def _url(path: str, query: Mapping[str, str]) -> str:
    return f"{quote(path)}?{urlencode(query)}" if query else quote(path)


def _refusal(status: int, body: bytes) -> ApiError:
    try:
        answer = json.loads(body)
        return ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(status, "", body.decode(errors="replace"))


def _trusting(cluster: JsonObject) -> ssl.SSLContext:
    pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=pem)


def _present_certificate(tls: ssl.SSLContext, user: JsonObject) -> None:
    # the ssl module reads keys from files only; this one is gone again at the end of the block
    with tempfile.NamedTemporaryFile() as pem:
        pem.write(base64.b64decode(user["client-certificate-data"]))
        pem.write(base64.b64decode(user["client-key-data"]))
        pem.flush()
        tls.load_cert_chain(pem.name)
