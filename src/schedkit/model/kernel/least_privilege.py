"""What `LeastPrivilege` adds, in a cluster and on a host: capabilities, without which no scheduler loads."""

from __future__ import annotations

from collections.abc import Iterable

_NEEDED_BY_ALL = ("CAP_BPF", "CAP_PERFMON")


def least_privilege(needs: Iterable[str] = ()) -> tuple[str, ...]:
    """The capabilities of a scheduler with the least privilege, on a host and in a cluster.

    `needs` are those that the catalog lists for it, with or without CAP_; a cluster is told of none.
    """
    return tuple(dict.fromkeys((*_NEEDED_BY_ALL, *(f"CAP_{each.removeprefix('CAP_')}" for each in needs))))
