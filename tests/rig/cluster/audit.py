"""The API server's audit log: who asked for what, and what came of it.

Reads are logged with their metadata, writes with their body too. Secrets and tokens never have their
body logged, and health checks are not logged at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from rig.cluster.kubeclient import JsonObject

POLICY: JsonObject = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {
            "level": "Metadata",
            "resources": [
                {"group": "", "resources": ["secrets", "serviceaccounts/token"]},
                {"group": "authentication.k8s.io"},
            ],
        },
        {"level": "Request", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "Metadata"},
    ],
}


class Filters(TypedDict, total=False):
    """Fields of an event that a reader may ask for."""

    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int


@dataclass(frozen=True)
class AuditEvent:
    """One finished request."""

    user: str
    verb: str
    resource: str  # with its subresource: `pods/status`; the path for requests outside the API
    namespace: str
    name: str
    code: int
    user_agent: str
    raw: JsonObject = field(repr=False, compare=False)

    @classmethod
    def parse(cls, raw: JsonObject) -> AuditEvent:
        target = raw.get("objectRef", {})
        words = (target.get("resource"), target.get("subresource"))
        return cls(
            user=raw["user"].get("username", ""),
            verb=raw["verb"],
            resource="/".join(word for word in words if word) or raw["requestURI"],
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=raw.get("responseStatus", {}).get("code", 0),
            user_agent=raw.get("userAgent", ""),
            raw=raw,
        )


class AuditLog:
    """The log file of one API server."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def position(self) -> int:
        """Where the log ends now: pass it as `since` to see only what comes after."""
        return self.path.stat().st_size if self.path.exists() else 0

    def events(self, *, since: int = 0, **filters: Unpack[Filters]) -> Iterator[AuditEvent]:
        """The finished requests after that position that match every filter, in order."""
        for event in self._read(since):
            if all(getattr(event, name) == value for name, value in filters.items()):
                yield event

    def _read(self, since: int) -> Iterator[AuditEvent]:
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(since)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # still being written; the next look sees it whole
                yield AuditEvent.parse(json.loads(line))
