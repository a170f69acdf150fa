"""Who may read the metrics: those whose token the API server knows, and whom it lets get that path."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web

from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client
from schedkit.kube.errors import KubeError
from schedkit.kube.fence import no_fence
from schedkit.kube.resources import Metadata, Resource
from schedkit.sked.http.serving import Handler, plain

_log = structlog.get_logger()
_REMEMBERED = 64  # of those who may, and as many of those who may not
_GRANTED_S, _DENIED_S = 60.0, 5.0  # how long an answer is good for
# anybody may send tokens: what they cost the API server, and keep from the manager's own work, is bounded
_AT_ONCE = 4
_A_SECOND = 20
_PATIENCE = Patience(attempt_s=5, total_s=5, attempts=1)
_SCHEME = "Bearer "


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    metadata: Metadata | None = None
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    metadata: Metadata | None = None
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", _TokenReview, namespaced=False
)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    _AccessReview,
    namespaced=False,
)


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether somebody is let in."""

    status: int
    words: str


_GRANTED = Permission(200, "ok")
_NO_TOKEN = Permission(401, "there is no token: send a service account's token as Authorization: Bearer ...")
_UNKNOWN = Permission(401, "the API server does not know this token")
_TOO_MANY = Permission(503, "there are too many requests: try again later")
_UNREACHABLE = Permission(503, "the API server cannot be asked who you are: try again later")


class _Memory:
    """Verdicts by token, the latest few, each for a while."""

    def __init__(self, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._verdicts: OrderedDict[bytes, tuple[Permission, float]] = OrderedDict()

    def get(self, key: bytes) -> Permission | None:
        """What was found, if that is still good."""
        verdict, until = self._verdicts.get(key, (None, 0.0))
        return verdict if time.monotonic() < until else None

    def add(self, key: bytes, verdict: Permission) -> None:
        """Keep it; the oldest is forgotten for it."""
        self._verdicts[key] = (verdict, time.monotonic() + self._lasts_s)
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > _REMEMBERED:
            self._verdicts.popitem(last=False)


class Gatekeeper:
    """Asks the API server who may get a path, and remembers its answers for a while."""

    def __init__(self, client: Client, path: str, *, granted_s: float = _GRANTED_S) -> None:
        self._client, self._path = client.fenced(no_fence, patience=_PATIENCE), path
        # apart, so that a flood of wrong tokens drives out no right one
        self._granted, self._denied = _Memory(granted_s), _Memory(_DENIED_S)
        self._asking = 0
        self._asked_at: deque[float] = deque(maxlen=_A_SECOND)

    def guard(self, handler: Handler) -> Handler:
        """The same handler, for those who may."""

        async def guarded(request: web.BaseRequest) -> web.Response:
            verdict = await self._judge(request.headers.get("Authorization", ""))
            return await handler(request) if verdict is _GRANTED else plain(verdict.status, verdict.words)

        return guarded

    async def _judge(self, header: str) -> Permission:
        token = header.removeprefix(_SCHEME).strip()
        if not header.startswith(_SCHEME) or not token.isascii() or not token:
            return _NO_TOKEN
        key = hashlib.sha256(token.encode()).digest()  # a token itself is not kept
        return self._granted.get(key) or self._denied.get(key) or await self._ask(key, token)

    async def _ask(self, key: bytes, token: str) -> Permission:
        if self._is_busy():
            return _TOO_MANY
        self._asking += 1
        self._asked_at.append(time.monotonic())
        try:
            verdict = await self._review(token)
        except KubeError as error:
            _log.warning("reader_not_judged", reason=str(error))
            return _UNREACHABLE
        finally:
            self._asking -= 1
        (self._granted if verdict is _GRANTED else self._denied).add(key, verdict)
        return verdict

    def _is_busy(self) -> bool:
        oldest = self._asked_at[0] if len(self._asked_at) == _A_SECOND else 0.0
        return self._asking >= _AT_ONCE or time.monotonic() - oldest < 1

    async def _review(self, token: str) -> Permission:
        review = await self._client.create(TOKEN_REVIEWS, _body(TOKEN_REVIEWS, {"token": token}))
        if not review.status.authenticated:
            return _UNKNOWN
        user = review.status.user
        asked = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        answer = await self._client.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, asked))
        who = user.username
        words = f"{who} may not get {self._path}: bind this account to the metrics reader's ClusterRole"
        return _GRANTED if answer.status.allowed else Permission(403, words)


def _body(resource: Resource[Any], spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
