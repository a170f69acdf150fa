"""What Podman reads and writes, translated from and to the values of the port: no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from schedkit.runtimes.port import (
    LOG_LIMIT_BYTES,
    PROVIDER_LABEL,
    Container,
    Exit,
    LeastPrivilege,
    Mount,
    Output,
    Spec,
    State,
    Stream,
)

# stopping and paused ones still hold what they hold
_STATES = {
    "configured": State.CREATED,
    "created": State.CREATED,
    "initialized": State.CREATED,
    "running": State.RUNNING,
    "paused": State.RUNNING,
    "stopping": State.RUNNING,
    "stopped": State.EXITED,
    "exited": State.EXITED,
    "removing": State.EXITED,
}
_FRAME_HEADER_BYTES = 8
_LONGEST_REASON = 2000


def create_body(spec: Spec) -> bytes:
    """The container as libpod's `containers/create` wants it."""
    wanted: dict[str, Any] = {
        "name": spec.name,
        "image": spec.image,
        "command": list(spec.args),
        "env": dict(spec.env),
        "labels": dict([PROVIDER_LABEL]) | dict(spec.labels),
        "pidns": {"nsmode": "host"},
        "netns": {"nsmode": spec.network.value},
        "mounts": [_run_folder(), *map(_bind, spec.mounts)],
        "systemd": "false",  # or Podman takes what is called `init` for systemd, and mounts over /run
        # whatever the machine's default: journald needs systemd, and `none` forgets a scheduler's last words
        "log_configuration": {"driver": "k8s-file", "size": LOG_LIMIT_BYTES},
    }
    if spec.memory_limit_bytes is not None:
        wanted["resource_limits"] = {"memory": {"limit": spec.memory_limit_bytes}}
    return json.dumps(wanted | _privileges(spec)).encode()


def container(found: Mapping[str, Any]) -> Container:
    """What an inspection says."""
    state = found["State"]
    status = _STATES.get(state["Status"], State.UNKNOWN)
    return Container(
        id=found["Id"],
        name=found["Name"],
        image=found["ImageName"],
        image_id=found["Image"] or None,
        labels=dict(found["Config"].get("Labels") or {}),
        state=status,
        created_at=time_of(found["Created"]),
        started_at=time_of(state["StartedAt"]),
        pid=state["Pid"] or None if status is State.RUNNING else None,
        exit=_exit(state) if status is State.EXITED else None,
    )


def time_of(text: str) -> datetime | None:
    """A time as Go writes it; None for its zero."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.year > 1 else None


def reason(body: bytes) -> str:
    """Why Podman refused, in its own words."""
    try:
        said = json.loads(body)
        text = said["message"] if isinstance(said["message"], str) else ""
    except (ValueError, KeyError, TypeError):
        text = body.decode(errors="replace")
    return text.strip()[:_LONGEST_REASON]


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


def _privileges(spec: Spec) -> dict[str, Any]:
    if not isinstance(spec.privileges, LeastPrivilege):
        return {"privileged": True}
    return {
        "cap_drop": ["ALL"],
        "cap_add": list(spec.privileges.capabilities),
        "no_new_privileges": True,
        "read_only_filesystem": True,
        # Podman 4.3 on Debian allows bpf(2) only together with CAP_SYS_ADMIN, which is far more than needed
        "seccomp_profile_path": "unconfined",
    }


def _run_folder() -> dict[str, Any]:
    return {
        "type": "tmpfs",
        "source": "tmpfs",
        "destination": "/run",
        "options": ["nosuid", "nodev", "mode=0755", "size=64m"],
    }


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "ro" if mount.read_only else "rw"]
    return {"type": "bind", "source": mount.source, "destination": mount.target, "options": options}
