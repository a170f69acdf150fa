"""Single requests over a connection each: for whoever asks the API server now and then.

It keeps nothing open and imports little. What asks often, watches, or must be fenced uses `client`.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from schedkit.kube import errors
from schedkit.kube.access.config import Connection
from schedkit.kube.errors import DecodeError, UnavailableError
from schedkit.kube.resources import Described, Resource

T = TypeVar("T", bound=Described)
S = TypeVar("S")
_MAX_ANSWER = 4 << 20
_PAGE = 100  # a Node may have 20 KB
_JSON_PATCH = "application/json-patch+json"


class _TooBigError(DecodeError):
    """There is more than fits."""


class _ListMeta(msgspec.Struct, frozen=True):
    next: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] = []


@dataclass(frozen=True, slots=True)
class DirectClient:
    """Reads and writes single objects as one user; every call blocks for `timeout_s` at most per step."""

    connection: Connection
    user_agent: str
    timeout_s: float = 10.0

    def get(self, kind: Resource[T], name: str, namespace: str | None = None, *, token: str | None) -> T:
        """The object of that name; raises `NotFoundError`."""
        return self._decode(kind, self._ask("GET", kind.path(namespace=namespace, name=name), token))

    def every(
        self, kind: Resource[T], namespace: str | None = None, *, token: str | None, **selection: str
    ) -> Iterator[T]:
        """All objects of the kind, a page at a time; a selection is as the API spells it."""
        path, size, query = kind.path(namespace=namespace), _PAGE, dict(selection)
        while True:
            try:
                content = self._ask("GET", f"{path}?{urlencode({'limit': size, **query})}", token)
            except _TooBigError:
                if size == 1:
                    raise
                size = 1  # anybody can fill annotations, and must not hide everybody else's objects
                continue
            page = _decoded(content, type=_Page, what=f"list of {kind}")
            yield from (_decoded(each, type=kind.type, what=kind.kind) for each in page.items)
            if not page.metadata.next:
                return
            query["continue"] = page.metadata.next

    def create(self, kind: Resource[T], body: object, *, token: str | None) -> T:
        """Make it; raises `AlreadyExistsError`."""
        return self._decode(kind, self._ask("POST", kind.path(), token, msgspec.json.encode(body)))

    def change(
        self, kind: Resource[T], patch: object, name: str, namespace: str | None = None, *, token: str | None
    ) -> T:
        """Apply a JSON patch; raises `ConflictError` if the object is of another version than it says."""
        path, body = kind.path(namespace=namespace, name=name), msgspec.json.encode(patch)
        return self._decode(kind, self._ask("PATCH", path, token, body, _JSON_PATCH))

    def delete(
        self, kind: Resource[T], name: str, namespace: str | None = None, *, uid: str, token: str | None
    ) -> None:
        """Delete this very object; raises `ConflictError` if another one has its name by now."""
        body = msgspec.json.encode({"preconditions": {"uid": uid}, "propagationPolicy": "Background"})
        self._ask("DELETE", kind.path(namespace=namespace, name=name), token, body)

    def _decode(self, kind: Resource[T], content: bytes) -> T:
        return _decoded(content, type=kind.type, what=kind.kind)

    def _ask(
        self,
        method: str,
        path: str,
        token: str | None,
        body: bytes | None = None,
        form: str = "application/json",
    ) -> bytes:
        headers = {"User-Agent": self.user_agent, "Accept": "application/json"}
        headers |= {"Content-Type": form} if body is not None else {}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        connected = self._connect()
        try:
            base = urlsplit(self.connection.server).path.rstrip("/")
            connected.request(method, base + path, body=body, headers=headers)
            answer = connected.getresponse()
            content = answer.read(_MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            where = self.connection.address
            raise UnavailableError(
                f"{where} did not answer: {str(error) or type(error).__name__}", acted=True
            ) from error
        finally:
            connected.close()
        if answer.status >= http.client.BAD_REQUEST:
            retry_after = answer.getheader("Retry-After")
            raise errors.failure(answer.status, errors.read_status(content), retry_after=retry_after)
        if len(content) > _MAX_ANSWER:
            raise _TooBigError(f"the answer to {method} {path} has more than {_MAX_ANSWER >> 20} MiB")
        return content

    def _connect(self) -> http.client.HTTPConnection:
        host, port = _place(self.connection.proxy or self.connection.server)
        if self.connection.tls is None:
            connected = http.client.HTTPConnection(host, port, timeout=self.timeout_s)
        else:
            connected = _Secure(host, port, self.connection, self.timeout_s)
        if self.connection.proxy:
            connected.set_tunnel(*_place(self.connection.server))
        return connected


def _decoded(content: bytes | msgspec.Raw, *, type: type[S], what: str) -> S:  # noqa: A002  # as msgspec has it
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"the answer is no {what}: {error}") from error


def _place(url: str) -> tuple[str, int]:
    """Host and port; without a port, the end of an IPv6 address would be taken for one."""
    parts = urlsplit(url)
    default = http.client.HTTPS_PORT if parts.scheme == "https" else http.client.HTTP_PORT
    return parts.hostname or "", parts.port or default


class _Secure(http.client.HTTPSConnection):
    """TLS under another name than the address's, where the configuration says so."""

    def __init__(self, host: str, port: int, to: Connection, timeout_s: float) -> None:
        self._tls: ssl.SSLContext = to.tls or ssl.create_default_context()
        super().__init__(host, port, timeout=timeout_s, context=self._tls)
        self._name = to.server_name or urlsplit(to.server).hostname

    def connect(self) -> None:
        """As the parent, but for the name."""
        http.client.HTTPConnection.connect(self)
        self.sock: Any = self._tls.wrap_socket(self.sock, server_hostname=self._name)
