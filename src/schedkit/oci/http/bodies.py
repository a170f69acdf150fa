"""Reading what a server answered: up to a limit, and undecoded."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from schedkit.model.images import strictjson
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Refused, RegistryError, TooLarge, Unreachable
from schedkit.oci.http.transport import Response

_LARGEST_COMPLAINT = 8 * 1024


def read_bounded(response: Response, limit: int) -> bytes:
    """The whole body; `TooLarge` as soon as it is known to be more than that."""
    refuse_encoded(response)
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise TooLarge(f"{_said(response)} has {announced[:20]} bytes; the limit is {limit}")
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
        raise Unreachable(f"{_said(response)} was interrupted, and did not continue at the same place")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) != size - begins:
        raise Refused(f"{_said(response)} has {announced[:20]} bytes; {size - begins} were expected")


def refuse_encoded(response: Response) -> None:
    """A few kilobytes of compressed zeros are gigabytes: nothing is decoded that was not asked for."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in {"", "identity"}:
        raise Refused(f"{_said(response)} is encoded as {encoding[:40]!r}, but no encoding was requested")


def retry_after(value: str) -> float | None:
    """The seconds that a Retry-After header asks to wait, from a number or a date; None: it does not say."""
    text = value.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - dates are rare, and it brings much along

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def complaint(response: Response) -> str | None:
    """The first message, or code, of the distribution API's error document; None: there is none."""
    try:
        tree = strictjson.read_object(read_bounded(response, _LARGEST_COMPLAINT), what="the complaint")
        first = tree["errors"][0]
        words = (first.get("message"), first.get("code"))  # only the code must be there
    except (InvalidDocument, RegistryError, KeyError, IndexError, TypeError, AttributeError):
        return None
    finally:
        response.close()
    return next((word[:200] for word in words if isinstance(word, str)), None)


def _said(response: Response) -> str:
    return f"the answer of {shown_host(response.url)}"


def shown_host(url: str) -> str:
    """Host and port of a URL for a message, without a login that may be before them."""
    return urlsplit(url).netloc.rpartition("@")[2]
