"""What Podman is asked: apart from how it is said, which loads h11."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Request(NamedTuple):
    """One request; a body that is no bytes is streamed."""

    method: str
    target: str
    body: bytes | Iterable[bytes] = b""
    headers: Mapping[str, str] | None = None
    timeout_s: float | None = 60  # between two pieces of the answer; None: wait for ever
