"""Which open files of a process watch others (epoll), told without reading their descriptions.

The kernel makes a description whole before it gives the first byte, in memory that counts as the reader's:
of a file that watches a million others it takes more than an agent has.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache

_SYSCALL = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "loongarch64": 272, "s390x": 343, "ppc64le": 354}
_WATCHED_FILE = 7  # kcmp(2): compare a file with one that a third one watches
_NO_SUCH_FILE = (1 << 32) - 1


def is_watching(pid: int, number: int) -> bool:
    """Whether that open file watches others; False also where the kernel does not say."""
    call = _SYSCALL.get(os.uname().machine)
    if call is None:
        return False
    watched = struct.pack("=III", number, _NO_SUCH_FILE, 0)
    result: int = _libc().syscall(call, pid, pid, _WATCHED_FILE, number, watched)
    # it looks for what is watched in files that watch alone: any other is wrong already
    return result >= 0 or ctypes.get_errno() == errno.ENOENT


@cache
def _libc() -> ctypes.CDLL:
    """Loaded once: there are many files."""
    return ctypes.CDLL(None, use_errno=True)
