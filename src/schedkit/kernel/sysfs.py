"""`/sys/kernel/sched_ext`: what the kernel runs now."""

from __future__ import annotations

import errno
from pathlib import Path

from schedkit.kernel import files, parsing
from schedkit.model.kernel import SchedExt, State

_FOLDER = "sys/kernel/sched_ext"
_LOOKS = 3  # a state that changes while we read is read again
_MAX_SUB_SCHEDULERS = 256


def read(root: Path) -> SchedExt:
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


def _read_once(folder: Path) -> SchedExt:
    state, problem = _read_state(folder / "state")
    switch_all = parsing.number(files.text(folder / "switch_all"))
    return SchedExt(
        state=state,
        ops=files.text(folder / "root/ops") or None,
        enable_seq=parsing.number(files.text(folder / "enable_seq")),
        switch_all=None if switch_all is None else bool(switch_all),
        nr_rejected=parsing.number(files.text(folder / "nr_rejected")),
        hotplug_seq=parsing.number(files.text(folder / "hotplug_seq")),
        events=parsing.events(files.text(folder / "root/events") or ""),
        sub_schedulers=_sub_schedulers(folder / "root/sub"),
        problem=problem,
    )


def _read_state(path: Path) -> tuple[State, str]:
    """The state, and why it is unknown."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            return State.ABSENT, ""
        return State.UNKNOWN, f"{path} cannot be read: {error.strerror}"
    state = parsing.state(text)
    is_known = state is not State.UNKNOWN
    return state, "" if is_known else f"{path} says {text.strip()[:64]!r}, a word that schedkit does not know"


def _sub_schedulers(folder: Path) -> tuple[str, ...]:
    try:
        found = sorted(folder.iterdir())[:_MAX_SUB_SCHEDULERS]
    except OSError:  # none, or an older kernel
        return ()
    return tuple(name for each in found if (name := files.text(each / "ops")))
