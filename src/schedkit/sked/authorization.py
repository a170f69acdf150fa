"""Who may read the metrics: those whose token the API server knows, and whom it lets get that path."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from aiohttp import web

from schedkit.kube.client import Client
from schedkit.kube.errors import KubeError
from schedkit.kube.resources import Metadata, Resource
from schedkit.sked.serving import Handler, plain

_log = structlog.get_logger()
_REMEMBERED = 64
_GRANTED_S, _DENIED_S = 60.0, 5.0  # how long an answer is good for
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
class Verdict:
    """Whether somebody is let in."""

    status: int
    words: str


_GRANTED = Verdict(200, "ok")
_NO_TOKEN = Verdict(401, "send a token of a service account: Authorization: Bearer ...")
_UNKNOWN = Verdict(401, "the API server does not know this token")


class Gatekeeper:
    """Asks the API server about tokens, and remembers its answers for a while."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[tuple[bytes, str], tuple[Verdict, float]] = OrderedDict()

    def guard(self, handler: Handler) -> Handler:
        """The same handler, for those who may."""

        async def guarded(request: web.BaseRequest) -> web.Response:
            verdict = await self._judge(request)
            return await handler(request) if verdict is _GRANTED else plain(verdict.status, verdict.words)

        return guarded

    async def _judge(self, request: web.BaseRequest) -> Verdict:
        header = request.headers.get("Authorization", "")
        token = header.removeprefix(_SCHEME).strip()
        if not header.startswith(_SCHEME) or not token:
            return _NO_TOKEN
        # a token itself is not kept
        key = (hashlib.sha256(token.encode()).digest(), request.path)
        verdict, until = self._known.get(key, (_UNKNOWN, 0.0))
        return verdict if time.monotonic() < until else await self._ask(key, token, request.path)

    async def _ask(self, key: tuple[bytes, str], token: str, path: str) -> Verdict:
        try:
            verdict = await self._review(token, path)
        except KubeError as error:
            _log.warning("reader_not_judged", reason=str(error))
            return Verdict(503, "the API server cannot be asked who you are: try again later")
        lasts_s = _GRANTED_S if verdict is _GRANTED else _DENIED_S
        self._known[key] = (verdict, time.monotonic() + lasts_s)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return verdict

    async def _review(self, token: str, path: str) -> Verdict:
        review = await self._client.create(TOKEN_REVIEWS, _body(TOKEN_REVIEWS, {"token": token}))
        if not review.status.authenticated:
            return _UNKNOWN
        user = review.status.user
        asked = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        answer = await self._client.create(ACCESS_REVIEWS, _body(ACCESS_REVIEWS, asked))
        words = f"{user.username} may not get {path}: bind it to the metrics reader's ClusterRole"
        return _GRANTED if answer.status.allowed else Verdict(403, words)


def _body(resource: Resource[Any], spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
