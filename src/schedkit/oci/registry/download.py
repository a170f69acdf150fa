"""Fetching files by their URLs, as carefully as anything from a registry. No login is sent."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from schedkit.oci.errors import Refused
from schedkit.oci.http.bodies import read_bounded, shown_host
from schedkit.oci.http.proxies import Proxies, is_loopback
from schedkit.oci.http.tls import system_authorities
from schedkit.oci.http.transport import Request, Transport
from schedkit.oci.registry.host import ALWAYS, Patience, failure, persistently
from schedkit.oci.registry.redirects import follow


class Downloads:
    """Files from anywhere, over connections that are kept for the next file; close it when done."""

    def __init__(
        self,
        *,
        ca_file: Path | None = None,
        proxies: Proxies | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._transport = Transport(tls=system_authorities(ca_file), proxies=proxies or Proxies())
        self._patience = patience or Patience()

    def fetch(self, url: str, *, limit: int) -> bytes:
        """What the URL serves, at most that many bytes; a `RegistryError` for all else."""

        def attempt(ends: float) -> bytes:
            with closing(follow(self._transport, Request("GET", url, ALWAYS), ends)) as response:
                if response.status != 200:
                    raise failure(response, of_registry=False)
                return read_bounded(response, limit)

        ends = self._patience.ends(time.monotonic(), size=limit)
        return persistently(attempt, self._patience, ends=ends)

    def close(self) -> None:
        """End all connections."""
        self._transport.close()


def fetch(
    url: str,
    *,
    limit: int,
    ca_file: Path | None = None,
    proxies: Proxies | None = None,
    patience: Patience | None = None,
) -> bytes:
    """What one URL serves, at most that many bytes; plain HTTP only from this machine."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise Refused(
            f"the URL for {shown_host(url)} contains a login: remove the login, which is never sent"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise Refused(f"{url.partition('?')[0]} is neither https nor on this machine: use an https URL")
    with closing(Downloads(ca_file=ca_file, proxies=proxies, patience=patience)) as downloads:
        return downloads.fetch(url, limit=limit)
