"""One program of a control plane, which tests may stop, kill, freeze and start again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rig.base import polling
from rig.base.errors import RigError
from rig.base.processes import Process

_STARTS_WITHIN_S = 120


class Component:
    """A program with a fixed command line and log; starting it again is starting the same thing.

    Start it from the main thread: the kernel ties a child's life to the thread that started it.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = log.stem
        self.log = log
        self._argv = argv
        self._ready = ready
        self._env = env
        self._process: Process | None = None  # None: never started

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether its process exists, frozen or not."""
        return self._process is not None and self._process.exit_code() is None

    def tail(self, lines: int = 15) -> str:
        """The end of its log, with its fate."""
        fate = "running" if self.is_running else "not running"
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([*text.splitlines()[-lines:], f"({fate})"])

    def start(self, *, wait: bool = True) -> None:
        """Start it; with `wait`, return when it does its work."""
        if self.is_running:
            raise RigError(f"{self.name} already runs as process {self.pid}: stop it first")
        self._process = Process(self._argv, log=self.log, env=self._env)
        if wait:
            self.await_ready()

    def await_ready(self, timeout_s: float = _STARTS_WITHIN_S) -> None:
        self._running().await_ready(self._ready, timeout_s=timeout_s)

    def stop(self, grace_s: float = 10) -> None:
        """End it politely, then by force; nothing happens if it does not run."""
        if self._process is not None and self.is_running:
            self._process.send(signal.SIGCONT)  # a frozen process would not see the polite request
            self._process.stop(grace_s)

    def kill(self) -> None:
        """SIGKILL, as a crash would; returns when it is gone."""
        self._running().kill()

    def restart(self) -> None:
        """Stop it if it runs, start it, and wait until it does its work."""
        self.stop(grace_s=2)  # an API server would wait for its watchers, who never leave by themselves
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, and nobody answers; returns when the last thread has stopped."""
        self._running().send(signal.SIGSTOP)
        polling.until(lambda: _is_stopped(self.pid), f"{self.name} has stopped", poll_s=0.01)

    def thaw(self) -> None:
        self._running().send(signal.SIGCONT)

    def _running(self) -> Process:
        if self._process is None or not self.is_running:
            raise RigError(f"{self.name} does not run: start it first")
        return self._process


def _is_stopped(pid: int) -> bool:
    """Whether no thread can answer any more: on a busy machine some go on for a while."""
    try:
        stats = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # one ended meanwhile: it had not stopped
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
