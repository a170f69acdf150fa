"""The runtime specification of a container for containerd, computed from the port's values: no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedkit.model.kernel.capabilities import CAPABILITIES
from schedkit.runtimes.errors import RefusedError
from schedkit.runtimes.specs import LeastPrivilege, Mount, Spec

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# none for processes: a container shares those of the host that it does not have
_OWN_NAMESPACES = ("mount", "ipc", "uts", "network")
# what every runtime hides from, or shows read-only to, a container that is not privileged
_HIDDEN = ("acpi", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "scsi")
_READ_ONLY = ("asound", "bus", "fs", "irq", "sys", "sysrq-trigger")


@dataclass(frozen=True, slots=True)
class Program:
    """What an image says about its program."""

    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()  # unless others are given
    env: tuple[str, ...] = ()
    folder: str = "/"
    user: str = ""  # empty: root


def parse_program(config: bytes) -> Program:
    """Read it from an image's configuration."""
    run: Mapping[str, Any] = json.loads(config).get("config") or {}
    return Program(
        tuple(run.get("Entrypoint") or ()),
        tuple(run.get("Cmd") or ()),
        tuple(run.get("Env") or ()),
        run.get("WorkingDir") or "/",
        run.get("User") or "",
    )


def render(spec: Spec, program: Program, *, cgroup: str, grantable: tuple[str, ...]) -> dict[str, Any]:
    """The specification; `grantable` are the capabilities that containerd itself has."""
    least = isinstance(spec.privileges, LeastPrivilege)
    capabilities = spec.privileges.capabilities if isinstance(spec.privileges, LeastPrivilege) else grantable
    return {
        "ociVersion": "1.0.2",
        "process": _process(spec, program, capabilities),
        "root": {"path": "rootfs", "readonly": least},
        "mounts": [*_mounts("ro" if least else "rw"), *map(_bind, spec.mounts)],
        "linux": {
            "namespaces": [{"type": kind} for kind in _OWN_NAMESPACES],
            "cgroupsPath": cgroup,
            "resources": _resources(spec),
            "maskedPaths": [f"/proc/{name}" for name in _HIDDEN] + ["/sys/firmware"] if least else [],
            "readonlyPaths": [f"/proc/{name}" for name in _READ_ONLY] if least else [],
        },
    }


def granted(bounding: int) -> tuple[str, ...]:
    """The capabilities in a set, as /proc/PID/status writes it."""
    return tuple(name for number, name in enumerate(CAPABILITIES) if bounding >> number & 1)


def _process(spec: Spec, program: Program, capabilities: tuple[str, ...]) -> dict[str, Any]:
    env = {one.partition("=")[0]: one for one in (_PATH, *program.env)}
    sets = ("bounding", "effective", "permitted")
    return {
        "user": _user(spec.image, program.user),
        "args": [*program.entrypoint, *(spec.args or program.arguments)],
        "env": list(env.values()),
        "cwd": program.folder,
        "capabilities": {name: list(capabilities) for name in sets},
        "noNewPrivileges": isinstance(spec.privileges, LeastPrivilege),
    }


def _user(image: str, text: str) -> dict[str, int]:
    uid, _, gid = ("0" if text in {"", "root"} else text).partition(":")
    if not uid.isdecimal() or not (gid or "0").isdecimal():
        hint = "publish the image with a numeric user ID, or use Podman, which looks up names"
        raise RefusedError(
            f"{image} wants to run as the user {text!r}, but containerd accepts only numbers", hint
        )
    return {"uid": int(uid), "gid": int(gid or "0")}


def _mounts(access: str) -> list[dict[str, Any]]:
    safe = ["nosuid", "noexec", "nodev"]
    return [
        _mount("/proc", "proc", *safe),
        _mount("/dev", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _mount("/dev/pts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"),
        _mount("/dev/shm", "tmpfs", *safe, "mode=1777", "size=65536k"),  # noqa: S108 - in the container
        _mount("/sys", "sysfs", *safe, access),
        _mount("/sys/fs/cgroup", "cgroup", *safe, "relatime", access),
        _mount("/run", "tmpfs", "nosuid", "nodev", "mode=755", "size=65536k"),
    ]


def _mount(target: str, kind: str, *options: str) -> dict[str, Any]:
    return {"destination": target, "type": kind, "source": kind, "options": list(options)}


def _bind(mount: Mount) -> dict[str, Any]:
    options = ["rbind", "ro" if mount.read_only else "rw"]
    return {"destination": mount.target, "type": "bind", "source": mount.source, "options": options}


def _resources(spec: Spec) -> dict[str, Any]:
    every = not isinstance(spec.privileges, LeastPrivilege)
    memory = {} if spec.memory_limit_bytes is None else {"memory": {"limit": spec.memory_limit_bytes}}
    return {"devices": [{"allow": every, "access": "rwm"}]} | memory
