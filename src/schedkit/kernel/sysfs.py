"""`/sys/kernel/sched_ext`: what the kernel runs now."""

from __future__ import annotations

import errno
from pathlib import Path

from schedkit.kernel import file_formats, files
from schedkit.model.kernel.sched_ext import KernelState, State

_FOLDER = "sys/kernel/sched_ext"
_LOOKS = 3  # a state that changes while we read is read again
_MAX_SUB_SCHEDULERS = 256


def read(root: Path) -> KernelState:
    """One consistent look: state and name belong to the same moment."""
    folder = root / _FOLDER
    for _ in range(_LOOKS):
        before = _signature(folder)
        reading = _read_once(folder)
        if _signature(folder) == before:
            break
    return reading


def _signature(folder: Path) -> tuple[str | None, str | None]:
    return files.text(folder / "state"), files.text(folder / "enable_seq")


def _read_once(folder: Path) -> KernelState:
    state, problem, is_readable = _read_state(folder)
    switch_all = file_formats.number(files.text(folder / "switch_all"))
    return KernelState(
        state=state,
        ops=files.text(folder / "root/ops") or None,
        enable_seq=file_formats.number(files.text(folder / "enable_seq")),
        switch_all=None if switch_all is None else bool(switch_all),
        nr_rejected=file_formats.number(files.text(folder / "nr_rejected")),
        hotplug_seq=file_formats.number(files.text(folder / "hotplug_seq")),
        events=file_formats.events(files.text(folder / "root/events") or ""),
        sub_schedulers=_sub_schedulers(folder / "root/sub"),
        problem=problem,
        is_readable=is_readable,
    )


def _read_state(folder: Path) -> tuple[State, str, bool]:
    """The state, why it is unknown, and whether there was a word at all."""
    path = folder / "state"
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        state, problem = _without_state(folder, error)
        return state, problem, state is not State.UNKNOWN
    state = file_formats.state(text)
    is_known = state is not State.UNKNOWN
    problem = "" if is_known else f"{path} says {text.strip()[:64]!r}, which schedkit does not know"
    return state, problem, True


def _without_state(folder: Path, error: OSError) -> tuple[State, str]:
    """A kernel has no sched_ext if it shows all the rest, and not if /sys is not there at all."""
    if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
        return State.UNKNOWN, f"{folder / 'state'} cannot be read: {error.strerror}"
    if not folder.parent.is_dir():
        return State.UNKNOWN, f"{folder.parent} does not exist: is /sys mounted?"
    return State.ABSENT, ""


def _sub_schedulers(folder: Path) -> tuple[str, ...]:
    try:
        found = sorted(folder.iterdir())[:_MAX_SUB_SCHEDULERS]
    except OSError:  # none, or an older kernel
        return ()
    return tuple(name for each in found if (name := files.text(each / "ops")))
