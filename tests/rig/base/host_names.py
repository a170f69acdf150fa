"""Host names that only this process and its children know.

The rig's registry has one name everywhere. In guests and pods that name leads to the host; here
it leads to loopback, through an /etc/hosts that is bind-mounted in a private mount namespace.
The machine's own file is never touched, and the mount ends with the process.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache as once
from pathlib import Path

from rig.base import processes
from rig.registries import registry

_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000


@once
def learn() -> None:
    """Make the registry's name lead to loopback from here on. Call it before any thread starts."""
    processes.require_mounts("the rig's host names", "a private /etc/hosts needs root")
    hosts = processes.run_folder("names") / "hosts"
    own = Path("/etc/hosts").read_text()
    hosts.write_text(f"{own.rstrip()}\n127.0.0.1 {registry.NAME}\n")
    _call("unshare", _CLONE_NEWNS)
    _call("mount", b"none", b"/", None, _MS_REC | _MS_SLAVE, None)  # nothing we mount reaches the machine
    _call("mount", str(hosts).encode(), b"/etc/hosts", None, _MS_BIND, None)


def _call(function: str, *arguments: bytes | int | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
