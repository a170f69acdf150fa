"""Processes that cannot outlive the one that started them, and folders that are swept when they do.

The kernel does the work: each child asks to be killed when its parent dies, and whole trees
(container runtimes and their shims) live in a PID namespace that ends with its first process.
Mounts are made in private mount namespaces only, so that they end with the processes as well.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache as once
from pathlib import Path
from typing import TypeAlias

from rig.base import cache
from rig.base.errors import FREE_SPACE, RigError, Unavailable

# A child that detaches from its parent would survive it; these arguments to unshare(1) make the
# tree's first process PID 1 of a namespace, and the kernel ends a namespace with its PID 1.
_TREE = ("unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc")
# a shell starts background jobs with SIGINT ignored, and that is inherited: ours shall hear it all the same
LEASH = ("env", "--default-signal=INT", "setpriv", "--pdeathsig", "KILL")
_PREFERRED = -10  # nice
_TREE_ENDS_WITHIN_S = 10  # at once, unless the kernel is busy for one of its processes

_NO_SPACE = re.compile(r"no space left on device|enough free space|disk quota exceeded", re.IGNORECASE)

Completed: TypeAlias = subprocess.CompletedProcess[str]


def run_folder(name: str) -> Path:
    """A fresh folder for one run, deleted by the next run if this process dies before it can."""
    runs = cache.root() / "run"
    runs.mkdir(exist_ok=True)
    with cache.locked("run"):  # to make a folder and to own it are two steps: no sweeper may come between
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=runs))
        # never closed: the lock, and with it the folder, lives as long as this process
        fcntl.flock(os.open(folder / ".owner", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC), fcntl.LOCK_EX)
    return folder


def sweep() -> list[str]:
    """Delete run folders whose owner is gone; return their names."""
    swept = []
    with cache.locked("run"):
        for folder in sorted((cache.root() / "run").glob("*-*")):
            if not is_owned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                swept.append(folder.name)
    return swept


def is_owned(folder: Path) -> bool:
    """Whether the process that made the run folder still lives."""
    try:
        with (folder / ".owner").open("r+") as handle:
            # shared: two that ask at the same time must not take each other for the owner
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def is_root() -> bool:
    return os.geteuid() == 0


@once
def can_mount() -> bool:
    """Whether this process may make mount namespaces: being root is not enough in a plain container."""
    return is_root() and run(["unshare", "--mount", "true"], check=False).returncode == 0


def require_mounts(what: str, why: str) -> None:
    """Raise `Unavailable` where namespaces and mounts are not allowed."""
    if not is_root():
        raise Unavailable(what, why, "run this as root")
    if not can_mount():
        remedy = "run outside of the container, or give it that capability (`--privileged`)"
        raise Unavailable(what, f"{why}, and this one lacks CAP_SYS_ADMIN", remedy)


def require_scratch() -> None:
    """Raise `Unavailable` where the programs of others could not write their temporary files."""
    folder = os.environ.get("TMPDIR") or "/tmp"
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "set TMPDIR to a folder that you may write, or run this as root"
        raise Unavailable("temporary files", f"{folder} cannot be written", remedy)


class Process:
    """One running program of a rig: leashed to this process, its output in a log file."""

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        tree: bool = False,
        cwd: Path | None = None,
    ) -> None:
        self.name = Path(argv[0]).name
        self.log = log
        self._tree = tree
        wrapped = [*LEASH, *(_TREE if tree else ()), *map(str, argv)]
        with log.open("ab") as out:
            # a session of its own: Ctrl-C reaches us alone, and we stop the parts in order
            self._popen = subprocess.Popen(
                wrapped,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._popen.poll()

    def tail(self, lines: int = 15) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def send(self, number: signal.Signals) -> None:
        """Signal the program itself: unshare(1), which stands before a tree, blocks SIGTERM."""
        inner = self.inner_pid() if number != signal.SIGKILL else None
        if inner is None:
            self._popen.send_signal(number)
        else:
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(inner, number)

    def inner_pid(self) -> int | None:
        """The first process of a tree; None where there is no tree, or no longer one."""
        if not self._tree:
            return None
        try:
            pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:  # it has just ended
            return None
        return int(pids[0]) if pids else None

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None if it still runs after that time."""
        try:
            return self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, grace_s: float = 10) -> None:
        """SIGTERM, wait, SIGKILL; returns when it is gone, and with it everything in its tree."""
        if self.exit_code() is None:
            self.send(signal.SIGTERM)
            if self.wait(grace_s) is None:
                self.kill()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone, and with it everything in its tree."""
        inner = self.inner_pid()
        with _end_of(inner) if inner is not None else nullcontext():
            self._popen.kill()
            self._popen.wait()

    def await_ready(self, ready: Callable[[], bool], *, timeout_s: float, poll_s: float = 0.1) -> None:
        """Wait until `ready`; raise with the end of the log if it dies or takes too long."""
        deadline = time.monotonic() + timeout_s
        while True:
            is_ready = ready()
            # asked second: whoever answers for a program that has ended is somebody else
            if (code := self.exit_code()) is not None:
                raise RigError(f"{self.name} ended with {code} before it was ready:\n{self.tail()}")
            if is_ready:
                return
            if time.monotonic() > deadline:
                raise RigError(f"{self.name} was not ready after {timeout_s:.0f} s:\n{self.tail()}")
            time.sleep(poll_s)


@contextmanager
def _end_of(pid: int) -> Iterator[None]:
    """At the end of the block, wait until the process that has this id now is gone."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # it is gone already
        yield
        return
    try:
        yield
        select.select([handle], [], [], _TREE_ENDS_WITHIN_S)
    finally:
        os.close(handle)


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float = 60,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    check: bool = True,
    tree: bool = False,
) -> Completed:
    """Run a short command to its end, leashed; raise with its output when it fails or takes too long."""
    command = " ".join(map(str, argv))
    try:
        done = subprocess.run(
            [*LEASH, *(_TREE if tree else ()), *map(str, argv)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = _text(late.stdout) + _text(late.stderr)
        raise RigError(f"`{command}` did not end within {timeout_s:.0f} s; so far:\n{said}") from late
    if check and done.returncode != 0:
        raise _failure(command, done)
    return done


def _failure(command: str, done: Completed) -> RigError:
    """What it said; of a full disk, what to do about it instead of all that it did not get done."""
    said = done.stdout + done.stderr
    if not _NO_SPACE.search(said):
        return RigError(f"`{command}` ended with {done.returncode}:\n{said}")
    program = Path(command.partition(" ")[0]).name
    return RigError(f"{program} found no space left on the disk: {FREE_SPACE}")


def _text(said: str | bytes | None) -> str:
    """What a command has said until it was ended: bytes, even if text was asked for."""
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""


_ports_given: set[int] = set()


def free_port() -> int:
    """A loopback port that was free a moment ago, and that the kernel gives to nobody by itself.

    Ports from the kernel's own range can be taken by any outgoing connection while a server restarts;
    a client that polls such a port may even connect to itself. No port is given twice, because the one it
    was given to may not listen yet.
    """
    for port in random.sample(range(10_000, max(20_000, _kernels_first_port())), 200):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _ports_given:
                _ports_given.add(port)
                return port
    raise RigError("no free port on loopback: look with `ss -ltn` at who has them")


def _kernels_first_port() -> int:
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Stop the process at the end of the block, whatever happens in it."""
    try:
        yield process
    finally:
        process.stop()


def descendants(ancestor: int) -> set[int]:
    """A process and all that come from it, in whatever PID namespace they are."""
    found = {ancestor}
    parents = {pid: int(fields[1]) for pid, fields in _status_of_all()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def cpu_seconds(ancestor: int) -> float:
    """Processor time of a process and all that come from it, the ended ones included that were waited for."""
    known = dict(_status_of_all())
    ticks = sum(sum(map(int, known[pid][11:15])) for pid in descendants(ancestor) if pid in known)
    return ticks / os.sysconf("SC_CLK_TCK")


def prefer(pid: int) -> None:
    """Let a process have the processor before others, as far as this one may decide that."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _PREFERRED)
        # where a session as a whole has its fair share, the priority of a process counts only within it
        Path(f"/proc/{pid}/autogroup").write_text(str(_PREFERRED))


def identities() -> dict[int, str]:
    """Start time and command line of every living process, which together name it for good."""
    return {pid: f"{fields[19]} {command_line(pid)}" for pid, fields in _status_of_all() if fields[0] != "Z"}


def command_lines() -> dict[int, str]:
    """The words of every process that has some: the kernel's own and the dead have none."""
    lines = {pid: command_line(pid) for pid, _ in _status_of_all()}
    return {pid: line for pid, line in lines.items() if line}


def command_line(pid: int) -> str:
    """The words a process was started with, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not just waiting for its parent to take note of its end."""
    fields = _status(pid)
    return fields is not None and fields[0] != "Z"


def _status_of_all() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        if (fields := _status(int(folder.name))) is not None:
            yield int(folder.name), fields


def _status(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
