"""What Podman answers, as values of the port: no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.runtimes.containers import Output, Stream, shown

# stopping and paused ones still hold what they hold
_STATES = {
    "configured": ContainerState.CREATED,
    "created": ContainerState.CREATED,
    "initialized": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "stopped": ContainerState.EXITED,
    "exited": ContainerState.EXITED,
    "removing": ContainerState.EXITED,
}
_FRAME_HEADER_BYTES = 8
_LONGEST_REASON = 2000
_MISSING = "no such container"


def container(found: Mapping[str, Any]) -> Container:
    """What an inspection says."""
    state = found["State"]
    status = _STATES.get(state["Status"], ContainerState.UNKNOWN)
    return Container(
        id=found["Id"],
        name=found["Name"],
        driver="podman",
        state=status,
        pid=state["Pid"] or None if status is ContainerState.RUNNING else None,
        image=found["ImageName"],
        image_id=found["Image"] or None,
        labels=shown(found["Config"].get("Labels") or {}),
        created_at=time_of(found["Created"]),
        started_at=time_of(state["StartedAt"]),
        exit=_exit(state) if status is ContainerState.EXITED else None,
    )


def time_of(text: str) -> datetime | None:
    """A time as Go writes it; None for its zero."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.year > 1 else None


def reason(body: bytes) -> str:
    """Why Podman refused, in its own words."""
    text = _field(body, "message")
    return (body.decode(errors="replace") if text is None else text).strip()[:_LONGEST_REASON]


def is_of_a_missing_container(body: bytes) -> bool:
    """Whether Podman failed because the container in question is gone, whatever status it answered with."""
    return _field(body, "cause") == _MISSING


def _field(body: bytes, name: str) -> str | None:
    """That field of an answer, empty if it is no text; None: there is no such field."""
    try:
        value = json.loads(body)[name]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else ""


def outputs(pieces: Iterable[bytes]) -> Iterator[Output]:
    """The output in Podman's multiplexed stream, however it was cut; an unfinished frame ends it."""
    pending = bytearray()
    stream, left = Stream.STDOUT, 0
    for piece in pieces:
        pending += piece
        while len(pending) >= (_FRAME_HEADER_BYTES if left == 0 else 1):
            if left == 0:
                stream = Stream.STDERR if pending[0] > 1 else Stream.STDOUT
                left = int.from_bytes(pending[4:_FRAME_HEADER_BYTES])
                del pending[:_FRAME_HEADER_BYTES]
                continue
            data = bytes(pending[:left])
            del pending[: len(data)]
            left -= len(data)
            yield Output(stream, data)


def _exit(state: Mapping[str, Any]) -> Exit:
    return Exit(state["ExitCode"], time_of(state["FinishedAt"]), bool(state["OOMKilled"]))
