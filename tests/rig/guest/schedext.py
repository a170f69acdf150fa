"""What the running kernel says about sched_ext, read by tests on their own.

Deliberately not the product's code: what is tested must not be its own witness.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rig.base import polling, processes
from rig.guest import schedulers

_SYSFS = Path("/sys/kernel/sched_ext")
_SYSRQ = Path("/proc/sysrq-trigger")
_ATTACH_TIMEOUT_S = 60  # half a second on a quiet machine


def state() -> str:
    """`disabled`, `enabling`, `enabled` or `disabling`."""
    return (_SYSFS / "state").read_text().strip()


def ops() -> str | None:
    """The name of the attached scheduler, None if there is none."""
    try:
        return (_SYSFS / "root/ops").read_text().strip()
    except OSError:  # gone, or going while it is read: ENODEV
        return None


def enable_seq() -> int:
    """How many times a scheduler has been attached since boot."""
    return int((_SYSFS / "enable_seq").read_text())


def takes_all_tasks() -> bool:
    return (_SYSFS / "switch_all").read_text().strip() == "1"


def eject() -> None:
    """Switch back to the kernel's own scheduler, as an operator does with SysRq-S."""
    _SYSRQ.write_text("S")


def await_disabled(timeout_s: float = 30) -> None:
    polling.until(lambda: state() == "disabled", "sched_ext is disabled", timeout_s=timeout_s, poll_s=0.05)


@dataclass(frozen=True)
class Link:
    """A BPF link that a process holds open."""

    kind: str
    link_id: int
    map_id: int | None  # None: a kind that has no map


def links(pid: int) -> list[Link]:
    """The links among the process's open files; none of a process that has ended."""
    with suppress(OSError):
        files = list(Path(f"/proc/{pid}/fdinfo").iterdir())
        return [link for file in files if (link := _parse_link(_content(file))) is not None]
    return []


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it was closed while we looked
        return ""


def _parse_link(text: str) -> Link | None:
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    if "link_type" not in fields:
        return None
    map_id = int(fields["map_id"]) if "map_id" in fields else None
    return Link(fields["link_type"], int(fields["link_id"]), map_id)


class Launcher:
    """Starts the rig's schedulers and clears up after them, whatever state they left the kernel in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[processes.Process] = []

    def start(self, name: str, *arguments: str) -> processes.Process:
        """Start a scheduler; it may not be attached yet, and may never be."""
        log = self._folder / f"{name}-{len(self._started)}.log"
        process = processes.Process([schedulers.binary(name), *arguments], log=log)
        self._started.append(process)
        return process

    def attach(self, name: str, *arguments: str) -> processes.Process:
        """Start a scheduler and wait until the kernel runs it and has counted it."""
        before = enable_seq()
        process = self.start(name, *arguments)
        expected = schedulers.catalog()[name].ops_name

        def is_counted() -> bool:
            # the kernel says `enabled` a moment before it raises the count
            return is_attached(expected) and enable_seq() > before

        process.await_ready(is_counted, timeout_s=_ATTACH_TIMEOUT_S, poll_s=0.05)
        return process

    def clear(self) -> None:
        """End every process that was started, and eject what outlives its process."""
        for process in self._started:
            if process.exit_code() is None:
                process.send(signal.SIGKILL)
                process.wait(30)
        if not _became_disabled():
            eject()
            await_disabled()


def is_attached(name: str) -> bool:
    return state() == "enabled" and ops() == name


def _became_disabled() -> bool:
    """The kernel needs a moment to let go of a killed scheduler; an orphan it never lets go of."""
    return not polling.stays_untrue(lambda: state() == "disabled", for_s=5, poll_s=0.05)


def set_cpu_online(cpu: int, *, online: bool) -> None:
    """Plug a CPU in or out."""
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text(str(int(online)))
