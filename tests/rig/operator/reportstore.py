"""An API server that keeps the reports of nodes and nothing else, over real HTTP.

It has versions, conflicts and the words that Kubernetes has for them, so that what writes reports can be
tested without a control plane. Who may write what is left to the real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import Any, TypeAlias

from schedkit.kube.access.config import Connection
from schedkit.kube.access.credentials import FixedToken

JsonObject: TypeAlias = dict[str, Any]
COLLECTION = "/apis/sked.schedkit.io/v1/schedextnodes"
TORN = 0  # instead of a code: the connection is closed without an answer


@dataclass
class Failure:
    """What the next request is answered instead."""

    code: int
    reason: str = ""
    retry_after: str | None = None
    acts: bool = False  # the server did it, and the answer alone is wrong


@dataclass
class ReportStore:
    """The reports that are there, and what was asked."""

    url: str = ""
    objects: dict[str, JsonObject] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  # methods
    headers: list[dict[str, str]] = field(default_factory=list)
    failures: list[Failure | None] = field(default_factory=list)  # of the next requests; None: it succeeds
    collection: str = COLLECTION
    serves_reports: bool = True  # False: the CRD is not there
    unknown_fields: tuple[str, ...] = ()  # of a status, which an older CRD drops
    _version: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def connection(self) -> Connection:
        return Connection(self.url, credentials=FixedToken("a-token"))

    def put(self, name: str, content: JsonObject) -> JsonObject:
        """As somebody else would."""
        with self.lock:
            self._version += 1
            meta = {**content.get("metadata", {}), "name": name, "resourceVersion": str(self._version)}
            self.objects[name] = {**content, "metadata": meta}
            for field_name in self.unknown_fields:
                self.objects[name].get("status", {}).pop(field_name, None)
            return self.objects[name]

    def delete(self, name: str) -> None:
        """As somebody else would."""
        with self.lock:
            del self.objects[name]

    def status(self, name: str) -> JsonObject:
        with self.lock:
            found = self.objects.get(name, {}).get("status")
            return found if isinstance(found, dict) else {}

    def answer(self, method: str, name: str, body: Any) -> tuple[int, JsonObject]:
        """What Kubernetes would say to that."""
        if not self.serves_reports:
            return _failed(404, "NotFound")
        if method == "POST":
            name = body["metadata"]["name"]
            return _failed(409, "AlreadyExists") if name in self.objects else (201, self.put(name, body))
        if name not in self.objects:
            return _failed(404, "NotFound")
        return (200, self.objects[name]) if method == "GET" else self._patch(name, body)

    def _patch(self, name: str, operations: list[JsonObject]) -> tuple[int, JsonObject]:
        whole = json.loads(json.dumps(self.objects[name]))
        version = whole["metadata"]["resourceVersion"]
        for each in operations:
            *way, last = each["path"].removeprefix("/").split("/")
            place = whole
            for part in way:
                place = place[part]
            place[last] = each["value"]
        if whole["metadata"]["resourceVersion"] != version:
            return _failed(409, "Conflict")
        return 200, self.put(name, whole)


def _failed(code: int, reason: str) -> tuple[int, JsonObject]:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": f"{reason} of the store"}


class _Handler(BaseHTTPRequestHandler):
    store: ReportStore

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.store.lock:
            self.store.asked.append(self.command)
            self.store.headers.append({name.lower(): value for name, value in self.headers.items()})
            failure = self.store.failures.pop(0) if self.store.failures else None
            body = json.loads(content) if content else None
            name = self.path.removeprefix(self.store.collection).removeprefix("/")
            if failure is None or failure.acts:
                code, said = self.store.answer(self.command, name, body)
            if failure is not None:
                code, said = _failed(failure.code, failure.reason)
        if code != TORN:
            self._say(code, said, failure)

    def _say(self, code: int, said: JsonObject, failure: Failure | None) -> None:
        content = json.dumps(said).encode()
        self.send_response(code)
        if failure and failure.retry_after:
            self.send_header("Retry-After", failure.retry_after)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names that the library asks for

    def log_message(self, *_: object) -> None:
        """Nothing: a test says what went wrong."""


@contextmanager
def serving(host: str = "127.0.0.1", *, collection: str = COLLECTION) -> Iterator[ReportStore]:
    """A store that answers, in a thread; of other objects, if their collection is named."""
    store = ReportStore(collection=collection)
    family = AF_INET6 if ":" in host else AF_INET
    server_type = type("Server", (ThreadingHTTPServer,), {"address_family": family})
    with server_type((host, 0), type("Handler", (_Handler,), {"store": store})) as server:
        port = server.server_address[1]
        store.url = f"http://[{host}]:{port}" if family == AF_INET6 else f"http://{host}:{port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
