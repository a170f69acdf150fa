"""The capabilities that a Linux process may have, and those that a scheduler needs."""

from __future__ import annotations

from collections.abc import Iterable

# by number, as <linux/capability.h> counts them
CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in [
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "LINUX_IMMUTABLE",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "IPC_OWNER",
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_CHROOT",
        "SYS_PTRACE",
        "SYS_PACCT",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_NICE",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "MKNOD",
        "LEASE",
        "AUDIT_WRITE",
        "AUDIT_CONTROL",
        "SETFCAP",
        "MAC_OVERRIDE",
        "MAC_ADMIN",
        "SYSLOG",
        "WAKE_ALARM",
        "BLOCK_SUSPEND",
        "AUDIT_READ",
        "PERFMON",
        "BPF",
        "CHECKPOINT_RESTORE",
    ]
)
_NEEDED_BY_ALL = ("CAP_BPF", "CAP_PERFMON")


def least_privilege(needs: Iterable[str] = ()) -> tuple[str, ...]:
    """The capabilities of a scheduler with the least privilege, on a host and in a cluster.

    `needs` are those that the catalog lists for it, with or without CAP_; a cluster is told of none.
    """
    return tuple(dict.fromkeys((*_NEEDED_BY_ALL, *(f"CAP_{each.removeprefix('CAP_')}" for each in needs))))
