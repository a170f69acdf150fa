"""Processes over time: numbers are given again, so that a process is known by its beginning as well."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from schedkit.kernel import file_formats, files

_BEGINNING = 19  # among what follows the name in /proc/PID/stat


class Life(NamedTuple):
    """A process as it was when it was first looked at."""

    folder: Path
    began: int | None  # in ticks since boot; None: it was gone already

    @property
    def is_going_on(self) -> bool:
        """Whether it is there still, and not another with its number."""
        return self.began is not None and beginning(self.folder) == self.began


def life(root: Path, pid: int) -> Life:
    """The process of that number; of 0 there is none."""
    folder = root / "proc" / str(pid)
    return Life(folder, beginning(folder) if pid > 0 else None)


def beginning(folder: Path) -> int | None:
    """When the process of `/proc/PID` began, in ticks since boot; None: it is gone."""
    text = files.text(folder / "stat") or ""
    # a name may have spaces and brackets in it
    fields = text.rpartition(")")[2].split()
    return file_formats.number(fields[_BEGINNING]) if len(fields) > _BEGINNING else None
