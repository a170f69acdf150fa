"""Fetching one file by its URL, as carefully as anything from a registry."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from schedkit.oci.errors import Refused
from schedkit.oci.http.bodies import read_bounded, shown_host
from schedkit.oci.http.proxies import Proxies, is_loopback
from schedkit.oci.http.transport import Request, Transport, tls_context
from schedkit.oci.registry.host import ALWAYS, Patience, failure, follow, persistently


def fetch(
    url: str,
    *,
    limit: int,
    ca_file: Path | None = None,
    proxies: Proxies | None = None,
    patience: Patience | None = None,
) -> bytes:
    """What the URL serves, at most that many bytes; plain HTTP only from this machine. No login is sent."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise Refused(f"the URL for {shown_host(url)} has a login in it; leave it out, none is sent")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise Refused(f"{url.partition('?')[0]} is neither https nor on this machine: use an https URL")
    wait = patience or Patience()
    transport = Transport(tls=tls_context(ca_file), proxies=proxies or Proxies())

    def attempt(ends: float) -> bytes:
        with closing(follow(transport, Request("GET", url, ALWAYS), ends)) as response:
            if response.status != 200:
                raise failure(response, of_registry=False)
            return read_bounded(response, limit)

    with closing(transport):
        return persistently(attempt, wait, ends=wait.ends(time.monotonic(), size=limit))
