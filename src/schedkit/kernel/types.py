"""The running kernel's BTF, or a file of it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from schedkit.kernel import file_formats, files
from schedkit.model.kernel.btf import BtfReading, Layout, find_layouts, read_kfuncs

RUNNING = "sys/kernel/btf/vmlinux"
_LIMIT = 256 << 20  # 5 to 20 MB are usual
_SYMBOLS_LIMIT = 64 << 20


def read(file: Path) -> BtfReading:
    """What a BTF file says about the functions of sched_ext."""
    content = files.data(file, limit=_LIMIT)
    return read_kfuncs(content) if content is not None else BtfReading(problem=f"{file} cannot be read")


@lru_cache(maxsize=2)
def layouts(root: Path) -> tuple[Layout, ...]:
    """How the running kernel lays out its sched_ext schedulers; that does not change while it runs."""
    return find_layouts(files.data(root / RUNNING, limit=_LIMIT) or b"")


def symbols(root: Path) -> frozenset[str]:
    """The functions of sched_ext for BPF that the running kernel has; none when it hides them."""
    return file_formats.kfunc_symbols(files.data(root / "proc/kallsyms", limit=_SYMBOLS_LIMIT) or b"")
