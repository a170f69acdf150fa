"""Ending what is in no container of ours: processes that hold a scheduler, and schedulers without any."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

from schedkit.kernel import held_objects, observation, structops, sysfs
from schedkit.model.host.holders import SchedulerMap
from schedkit.model.host.processes import Hold, Process
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import State
from schedkit.runtimes.containers import KILL_TIMEOUT_S
from schedkit.schedctl.problems.problem import Problem

_TRIGGER = "proc/sysrq-trigger"


def end_process(root: Path, process: Process, *, grace_s: float) -> None:
    """SIGTERM, and SIGKILL for what still runs after that time; it may be gone already."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # only now: its number cannot become another process's any more while we look
        if not _still_holds(root, process):
            return
        if not _ends(descriptor, signal.SIGTERM, grace_s) and not _ends(
            descriptor, signal.SIGKILL, KILL_TIMEOUT_S
        ):
            raise Problem(
                f"process {process.pid} ({process.command}) was killed, but is still there",
                remedy=f"check what it waits for: `cat /proc/{process.pid}/stack`",
            )
    finally:
        os.close(descriptor)


def _still_holds(root: Path, process: Process) -> bool:
    holders = held_objects.gather(root).processes
    return any((each.pid, each.command) == (process.pid, process.command) for each in holders)


def _ends(descriptor: int, number: signal.Signals, timeout_s: float) -> bool:
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))


def eject(root: Path, *, is_blind: bool) -> None:
    """Take the scheduler out of the kernel; unless `is_blind`, only one that no process holds."""
    seen = observation.observe(root)
    if seen.kernel.state is State.DISABLED:
        return
    if not is_blind and seen.proof.hold is not Hold.NOBODY:
        what = f"the kernel now runs {seen.kernel.ops or 'another scheduler'}, and a process may hold it"
        raise Problem(what, why=seen.proof.reason, remedy="`schedctl status` shows who owns it")
    if not _is_unregistered(root, seen.proof.map_id) and not _is_detached(seen):
        _press_sysrq(root)


def unregister(root: Path, scheduler: SchedulerMap) -> None:
    """Remove what an ejected scheduler has left; it may be gone already.

    Not while one is attached: kernels before 7 would detach that one, whosever it is.
    """
    is_there = scheduler in structops.read(root).schedulers
    if not is_there or sysfs.read(root).state is not State.DISABLED:
        return
    try:
        structops.unregister(scheduler.map_id)
    except OSError as error:
        what = f"BPF map {scheduler.map_id} of the ejected {scheduler.ops} is still registered"
        remedy = f"`bpftool struct_ops unregister id {scheduler.map_id}` removes it, and so does a reboot"
        raise Problem(what, why=f"the kernel said: {error.strerror}", remedy=remedy) from error


def _is_unregistered(root: Path, map_id: int | None) -> bool:
    """Do what the loader of a scheduler without a link would have done; SysRq-S leaves its map behind."""
    registered = {each.map_id for each in structops.read(root).schedulers if each.is_registered}
    if map_id is None or map_id not in registered:
        return False
    try:
        structops.unregister(map_id)
    except OSError:
        return False
    return True


def _is_detached(seen: Snapshot) -> bool:
    """Detach by its pinned link, which takes no SysRq: the unit for boot may not press it."""
    if seen.proof.map_id is None or seen.held is None:
        return False
    try:
        return structops.detach(seen.proof.map_id, seen.held.pinned_links)
    except OSError:
        return False


def _press_sysrq(root: Path) -> None:
    try:
        (root / _TRIGGER).write_text("S")
    except OSError as error:
        why = f"/{_TRIGGER} cannot be written: {error.strerror}"
        raise Problem("the scheduler was not ejected", why=why, remedy="run as root, on the host") from error
