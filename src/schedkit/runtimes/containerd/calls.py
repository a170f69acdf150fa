"""How the rest of the adapter calls containerd, apart from gRPC, which is slow to import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol


class CallError(Exception):
    """containerd answered with an error: its code by name, and its own words."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"{code}: {said}")
        self.code = code
        self.said = said


class Calls(Protocol):
    """Calls by name, `Service.Method` of containerd.proto; a lease keeps what they make."""

    def message(self, kind: str, /, **fields: object) -> Any:  # noqa: ANN401 - a class made at run time
        """A message of containerd.proto."""

    def call(
        self, method: str, /, *, lease: str = "", timeout_s: float | None = ..., **fields: object
    ) -> Any:  # noqa: ANN401 - as above
        """The answer to one question."""

    def later(self, method: str, /, **fields: object) -> Callable[[], bool]:
        """Ask without waiting. The result says whether the answer has come, or raises if none will."""

    def read(self, method: str, /, **fields: object) -> Iterator[Any]:
        """The stream of answers to one question."""

    def converse(self, method: str, /, requests: Iterable[Any], *, lease: str) -> None:
        """Send one message after another, each when the last was answered."""
