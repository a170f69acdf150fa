"""However `make test` ends, it leaves no process, mount, network interface or run folder behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rig import cache, debian, guestroot, polling, processes

_PROJECT = Path(__file__).parents[2]
_STARTED_S = 240


class Made:
    """`make` at work in a session of its own, as a terminal would run it."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                # leashed, so that this test leaves nothing behind either when it is killed itself
                ["setpriv", "--pdeathsig", "KILL", "make", *arguments],
                cwd=_PROJECT,
                env=_plain_environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        """Ctrl-C reaches the whole foreground group of a terminal; other signals are sent to make alone."""
        if number == signal.SIGINT:
            os.killpg(self._popen.pid, number)
        else:
            os.kill(self._popen.pid, number)

    def wait(self) -> int:
        return self._popen.wait(60)

    def end(self) -> None:
        """For the fixture: whatever the test did, make is gone."""
        if self._popen.poll() is None:
            self.send(signal.SIGKILL)
        self.wait()

    def descendants(self) -> dict[int, str]:
        """Everything below make now: start time and command line by process id, which names it for good."""
        children = _children()
        found, open_ends = {}, [self._popen.pid]
        while open_ends:
            pid = open_ends.pop()
            open_ends += children.get(pid, [])
            if (identity := _identity(pid)) is not None:
                found[pid] = identity
        return found


def _plain_environment() -> Mapping[str, str]:
    """Without what the outer make and pytest have set: the inner make starts afresh."""
    own = ("MAKE", "MFLAGS", "PYTEST_", "PYTHONPATH", "CI")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"PYTEST_ADDOPTS": f"--ignore={Path(__file__)}"}  # or it would start itself


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it ended while we looked
        children.setdefault(parent, []).append(int(file.parent.name))
    return children


def _identity(pid: int) -> str | None:
    """Start time and command line; None for a process that is gone, or dead and waiting for its parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    return None if fields[0] == "Z" else f"{fields[19]} {words}"


def _machine_state() -> dict[str, set[str]]:
    """What a careless run would leave in the machine's own namespaces."""
    mounts = Path("/proc/1/mountinfo").read_text().splitlines()
    root = guestroot.tree()
    environment = os.environ | {"LD_LIBRARY_PATH": debian.library_path(root)}
    tables = processes.run([root / "usr/sbin/nft", "list", "tables"], env=environment, check=False)
    return {
        "mounts": {line.split()[4] for line in mounts},
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "nft tables": set(tables.stdout.splitlines()),
    }


@pytest.fixture
def untouched() -> dict[str, set[str]]:
    """The machine before anything was started."""
    return _machine_state()


@pytest.fixture
def made(untouched: dict[str, set[str]], tmp_path: Path) -> Iterator[Made]:
    """A run of the e2e tier in the middle: its control plane, registry and virtual machine are up."""
    assert untouched
    made = Made("test-e2e", log=tmp_path / "make.log")
    try:
        polling.until(lambda: _has_everything(made), "a whole cluster runs", timeout_s=_STARTED_S, poll_s=0.3)
        yield made
    finally:
        made.end()


def _has_everything(made: Made) -> bool:
    words = " ".join(made.descendants().values())
    return all(name in words for name in ("etcd", "kube-apiserver", "olareg", "virtiofsd", "qemu-system"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_killed_run_leaves_nothing_behind(
    number: signal.Signals, made: Made, untouched: dict[str, set[str]]
) -> None:
    ran = made.descendants()
    folders = set((cache.root() / "run").iterdir())

    made.send(number)
    made.wait()

    polling.until(lambda: not _survivors(ran), f"none of {len(ran)} processes survives", timeout_s=30)
    processes.sweep()
    assert {path for path in folders if path.exists() and not processes.is_owned(path)} == set()
    assert _machine_state() == untouched


def _survivors(ran: Mapping[int, str]) -> list[str]:
    return [identity for pid, identity in ran.items() if _identity(pid) == identity]
