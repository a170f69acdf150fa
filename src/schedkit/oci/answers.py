"""Reading what a server answered: up to a limit, undecoded, and led nowhere but to the web."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

from schedkit.model import documents
from schedkit.model.documents import InvalidDocument
from schedkit.oci.errors import Refused, RegistryError, TooLarge, Unreachable
from schedkit.oci.transport import Response

_LARGEST_COMPLAINT = 8 * 1024
_LONGEST_ADDRESS = 8 * 1024


def read_bounded(response: Response, limit: int) -> bytes:
    """The whole body; `TooLarge` as soon as it is known to be more than that."""
    refuse_encoded(response)
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise TooLarge(f"{_said(response)} has {announced[:20]} bytes; {limit} is the most")
    body = bytearray()
    for piece in response.pieces():
        body += piece
        if len(body) > limit:
            raise TooLarge(f"{_said(response)} has more than {limit} bytes")
    return bytes(body)


def refuse_unfit(response: Response, size: int, *, begins: int = 0) -> None:
    """Let pass only what may be the undecoded bytes of something of that size, from that place on."""
    refuse_encoded(response)
    if begins and not response.headers.get("content-range", "").startswith(f"bytes {begins}-"):
        raise Unreachable(f"{_said(response)} broke off, and is not continued where it did")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) != size - begins:
        raise Refused(f"{_said(response)} has {announced[:20]} bytes; {size - begins} were expected")


def refuse_encoded(response: Response) -> None:
    """A few kilobytes of compressed zeros are gigabytes: nothing is decoded that was not asked for."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in {"", "identity"}:
        raise Refused(f"{_said(response)} is encoded as {encoding[:40]!r}, though no encoding was asked for")


def join_address(base: str, location: str) -> str:
    """Where a server sends us, as an absolute http or https URL; `Refused` if it is none."""
    try:
        joined = urljoin(base, location)
        parts = urlsplit(joined)
        usable = parts.scheme in {"http", "https"} and parts.hostname and not parts.username
        port_is_number = parts.port is None or parts.port > 0
    except ValueError:
        usable = port_is_number = False
    acceptable = location.isascii() and 0 < len(location) <= _LONGEST_ADDRESS
    if not (acceptable and usable and port_is_number):
        raise Refused(f"{urlsplit(base).netloc} sends us to {location[:80]!r}, which is no usable address")
    return joined


def retry_after(value: str) -> float | None:
    """The seconds that a Retry-After header asks to wait, from a number or a date; None: it does not say."""
    if value.strip().isdecimal():
        return float(value[:9])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def origin(url: str) -> tuple[str, str, int]:
    """What must be the same for a login to go along: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def complaint(response: Response) -> str:
    """The first message of the distribution API's error document, if there is one."""
    try:
        tree = documents.read_object(read_bounded(response, _LARGEST_COMPLAINT), what="the complaint")
        message = tree["errors"][0]["message"]
    except (InvalidDocument, RegistryError, KeyError, IndexError, TypeError):
        return ""
    finally:
        response.close()
    return f": {message[:200]!r}" if isinstance(message, str) else ""


def _said(response: Response) -> str:
    return f"the answer of {urlsplit(response.url).netloc}"
