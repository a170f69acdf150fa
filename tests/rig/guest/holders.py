"""Whose scheduler a node's kernel runs: found in its /proc by a shell, without a line of what is tested."""

from __future__ import annotations

import re

from rig.guest.vm import Guest

# every open file that is the link of a struct_ops, and the control groups of whoever has it open
_LINKS = """
for info in $(grep -sl '^link_type:[[:space:]]*struct_ops' /proc/[0-9]*/fdinfo/*); do
  pid=${info#/proc/}
  cat "/proc/${pid%%/*}/cgroup"
done
"""
_POD = r"pod([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"


def pods_with_links(guest: Guest) -> set[str]:
    """The uids of the pods whose processes hold the link of a struct_ops; empty: no pod does."""
    return set(re.findall(_POD, guest.run(_LINKS).output))
