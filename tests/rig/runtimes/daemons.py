"""Container runtimes as guests of this machine: what they fork, mount and write ends with them.

On the host a runtime is *isolated*: a PID namespace takes conmon, shims and containers along when its first
process ends, and a private mount namespace hides the machine's /run, where runtimes keep sockets at fixed
paths. Inside a VM neither is wanted: there the VM is the wall, and process ids must be the machine's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rig.base import processes
from rig.base.processes import Process
from rig.build import debian

COMMAND_TIMEOUT_S = 240  # tenths of a second on the host; an emulated guest on a busy host is slow
_START_TIMEOUT_S = 120
_PATHS = ("usr/sbin", "usr/bin", "sbin", "bin")
# The first process of a PID namespace inherits every orphan in it. Runtimes do not collect what is not theirs
# and then wait for it themselves; a shell does, and passes on the request to stop.
_AS_FIRST_PROCESS = """\
"$@" &
daemon=$!
trap 'kill -TERM $daemon' TERM
while kill -0 $daemon 2>/dev/null; do wait $daemon; code=$?; done
exit $code
"""
_AS_ANY_PROCESS = 'exec "$@"'


_started: list[Daemon] = []


def obituaries() -> list[tuple[str, str]]:
    """The runtimes that have ended without being stopped: what became of each, and its last words."""
    ended = [daemon for daemon in _started if daemon.exit_code() is not None]
    return [(f"{each.name} ended by itself with {each.exit_code()}", each.last_words()) for each in ended]


class Daemon:
    """A runtime in its folder, with a tmpfs at `storage`: an overlay cannot lie on every filesystem."""

    def __init__(
        self, name: str, folder: Path, root: Path, *, isolated: bool, storage_mb: int | None = None
    ) -> None:
        """`root` holds the programs: `/` inside a VM, an unpacked tree otherwise. None: room enough."""
        self.name = name
        self._root = root
        self.folder = folder
        self.storage = folder / "storage"
        self._isolated = isolated
        self._mount_options = "mode=0755" + (f",size={storage_mb}m" if storage_mb else "")
        self._process: Process | None = None
        self.storage.mkdir(parents=True, exist_ok=True)

    def start(self, argv: Sequence[str | Path], env: Mapping[str, str], ready: Callable[[], bool]) -> None:
        """Returns when it is ready."""
        processes.require_mounts(self.name, "its namespaces and mounts need root")
        command = ["sh", "-c", self._script(), self.name, *argv]
        log = self.folder / f"{self.name}.log"
        self._process = Process(command, log=log, env=env, tree=self._isolated)
        self._process.name = self.name
        _started.append(self)
        self._process.await_ready(ready, timeout_s=_START_TIMEOUT_S)

    def stop(self) -> None:
        """End it; isolated, its containers end with it."""
        if self in _started:
            _started.remove(self)
        if self._process is not None:
            self._process.stop()

    def exit_code(self) -> int | None:
        """None while it runs, or before its start."""
        return self._process.exit_code() if self._process is not None else None

    def last_words(self) -> str:
        """The end of what it wrote."""
        return self._process.tail(60) if self._process is not None else ""

    def pids(self) -> set[int]:
        """The process ids, as this machine counts them, of everything that would end with it."""
        first = self._process.inner_pid() if self._process is not None else None
        return processes.descendants(first) if first is not None else set()

    def inside(self, argv: Sequence[str | Path]) -> list[str | Path]:
        """The command line that runs a program where the daemon's own mounts are visible."""
        pid = self._process.inner_pid() if self._process is not None else None
        return [*(("nsenter", "--target", str(pid), "--mount", "--pid") if pid else ()), *argv]

    def _script(self) -> str:
        storage = shlex.quote(str(self.storage))
        mount = f"mount -t tmpfs -o {self._mount_options} {self.name} {storage}"
        lines = ["set -e", f"mountpoint -q {storage} || {mount}"]
        if self._isolated:
            lines += [f"mount -t tmpfs -o mode=0755 {self.name} /run", *self._make_libraries_known()]
            lines += ["set +e", _AS_FIRST_PROCESS]
        else:
            lines.append(_AS_ANY_PROCESS)
        return "\n".join(lines)

    def _make_libraries_known(self) -> list[str]:
        """Podman starts itself anew without our LD_LIBRARY_PATH; the loader's own cache reaches it."""
        folders = debian.library_path(self._root).split(":")
        known = shlex.quote(str(self.folder / "ld.so.cache"))
        return [
            shlex.join(["ldconfig", "-X", "-C", str(self.folder / "ld.so.cache"), *filter(None, folders)]),
            f"mount --bind {known} /etc/ld.so.cache",
        ]


def search_path(tree: Path) -> str:
    """PATH that finds a tree's programs before the machine's."""
    folders = [tree / sub for sub in _PATHS] + [Path("/") / sub for sub in _PATHS]
    return ":".join(str(folder) for folder in folders)


def cgroups(name: str) -> list[Path]:
    """The control groups of that name, in every hierarchy."""
    return list(Path("/sys/fs/cgroup").glob(f"**/{name}"))


def remove_empty_cgroups(parent: str) -> None:
    """Remove the groups below `parent` that containers killed with their runtime left behind.

    Only groups without a process can be removed, so that a container of somebody else is safe.
    """
    for folder in cgroups(parent):
        for group in (*folder.glob("*/"), folder):
            with suppress(OSError):
                group.rmdir()
