"""Addresses that servers name: of the web, whole, and without a login in them, or none at all."""

from __future__ import annotations

from urllib.parse import SplitResult, urljoin, urlsplit

from schedkit.oci.errors import Refused

_LONGEST = 8 * 1024
_PORTS = {"https": 443, "http": 80}


def split_address(url: str) -> SplitResult | None:
    """The parts of an http or https URL that a request can be made of; None for all other text."""
    if not url.isascii() or len(url) > _LONGEST:
        return None
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _PORTS and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def join_address(base: str, location: str) -> str:
    """Where a server sends us, as an absolute URL; `Refused` if no request can be made of it."""
    try:
        joined = urljoin(base, location)
    except ValueError:
        joined = ""
    if not location or split_address(joined) is None:
        raise Refused(f"{urlsplit(base).netloc} refers to {location[:80]!r}, which is not a usable address")
    return joined


def origin(url: str) -> tuple[str, str, int]:
    """What must be the same for a login to go along: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
