"""Fetching one small file by its URL: encrypted, bounded in size, hops and time."""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import urlsplit

import httpx2

from schedkit.schedctl.errors import Problem

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HOPS: Final = 5
_PATIENCE_S: Final = 15.0  # for each step
_DEADLINE_S: Final = 60.0  # for all of them: a server that drips cannot hold us


def fetch(url: str, *, limit: int) -> bytes:
    """What the URL serves, at most `limit` bytes and one more."""
    _require_privacy(url)
    deadline = time.monotonic() + _DEADLINE_S
    try:
        with httpx2.Client(timeout=_PATIENCE_S, headers={"Accept-Encoding": "identity"}) as client:
            return _follow(client, url, limit, deadline)
    except httpx2.HTTPError as error:
        raise _unreachable(url, str(error) or type(error).__name__) from error


def _follow(client: httpx2.Client, url: str, limit: int, deadline: float) -> bytes:
    request: httpx2.Request | None = client.build_request("GET", url)
    for _ in range(_HOPS + 1):
        assert request is not None  # noqa: S101 - set by the line before, or by a redirect
        answer = client.send(request, stream=True)
        try:
            if not answer.has_redirect_location:
                return _body(answer, limit, deadline)
            request = answer.next_request
            _require_privacy(str(request.url) if request else "")
        finally:
            answer.close()
    raise _unreachable(url, f"it redirects more than {_HOPS} times")


def _require_privacy(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return
    raise Problem(
        f"{url} is not fetched", why="only https is, or http on this machine itself", remedy="use https"
    )


def _body(answer: httpx2.Response, limit: int, deadline: float) -> bytes:
    if answer.status_code != httpx2.codes.OK:
        raise _unreachable(str(answer.url), f"the server answered {answer.status_code}")
    found = bytearray()
    for chunk in answer.iter_raw():
        found += chunk
        if len(found) > limit:
            return bytes(found[: limit + 1])
        if time.monotonic() > deadline:
            raise _unreachable(str(answer.url), f"it was not there after {_DEADLINE_S:.0f} seconds")
    return bytes(found)


def _unreachable(url: str, why: str) -> Problem:
    return Problem(f"{url} cannot be fetched", why=why, remedy="try again, or download it and give its path")
