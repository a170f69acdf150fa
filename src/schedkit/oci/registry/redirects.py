"""Redirects of a registry: which are followed, and that no other host sees the login."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from schedkit.oci.errors import Refused
from schedkit.oci.http.bodies import shown_host
from schedkit.oci.http.transport import Request, Response, Transport
from schedkit.oci.http.urls import join_address, origin

_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def follow(transport: Transport, request: Request, ends: float) -> Response:
    """The answer at the end of all redirects; another origin never sees the login."""
    first = shown_host(request.url)
    for _ in range(_MOST_REDIRECTS + 1):
        response = transport.send(request, ends=ends)
        if response.status not in _REDIRECTS or request.method not in {"GET", "HEAD"}:
            return response
        response.close()
        request = _redirected(request, response.headers.get("location", ""))
    raise Refused(f"{first} redirects more than {_MOST_REDIRECTS} times")


def _redirected(request: Request, location: str) -> Request:
    target = join_address(request.url, location)
    if urlsplit(request.url).scheme == "https" and urlsplit(target).scheme != "https":
        there = shown_host(target)[:80]
        raise Refused(f"{shown_host(request.url)} redirects from https to plain http on {there!r}")
    if origin(target) == origin(request.url):
        return msgspec.structs.replace(request, url=target)
    headers = {name: value for name, value in request.headers.items() if name != "Authorization"}
    return msgspec.structs.replace(request, url=target, headers=headers)
