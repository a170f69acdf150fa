"""However a run of the e2e tier ends, it leaves no process, mount, network interface or run folder behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rig.base import cache, polling, processes
from rig.base.errors import RigError
from rig.build import debian
from rig.guest import guestroot
from rig.session import reporting

_PROJECT = Path(__file__).parents[2]
_STARTED_S = 240

pytestmark = pytest.mark.alone


class Made:
    """`make` at work in a session of its own, as a terminal would run it."""

    def __init__(self, *arguments: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                # leashed, so that this test leaves nothing behind either when it is killed itself
                [*processes.LEASH, "make", *arguments],
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

    def has_ended(self) -> bool:
        return self._popen.poll() is not None

    def descendants(self) -> dict[int, str]:
        """Everything below make now, by process id: what names each for good."""
        living = processes.identities()
        return {pid: living[pid] for pid in processes.descendants(self._popen.pid) if pid in living}


def _plain_environment() -> Mapping[str, str]:
    """Without what the outer make and pytest have set: the inner make starts afresh."""
    own = ("MAKE", "MFLAGS", "PYTEST_", "PYTHONPATH", "CI")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {"PYTEST_ADDOPTS": f"--ignore={Path(__file__)}"}  # or it would start itself


def _machine_state() -> dict[str, set[str]]:
    """What a careless run would leave in the machine's own namespaces."""
    mounts = Path("/proc/1/mountinfo").read_text().splitlines()
    return {
        "mounts": {line.split()[4] for line in mounts},
        "interfaces": {path.name for path in Path("/sys/class/net").iterdir()},
        "nft tables": _nft_tables(),
    }


def _nft_tables() -> set[str]:
    """None on a machine whose own kernel has no nftables, where nobody can leave any."""
    root = guestroot.tree()
    environment = os.environ | {"LD_LIBRARY_PATH": debian.library_path(root)}
    tables = processes.run([root / "usr/sbin/nft", "list", "tables"], env=environment, check=False)
    if tables.returncode != 0:
        reporting.note(f"nft tables could not be compared: {tables.stderr.strip().splitlines()[0]}")
    return set(tables.stdout.splitlines())


@pytest.fixture
def untouched() -> dict[str, set[str]]:
    """The machine before anything was started; one that could start all of it."""
    processes.require_mounts("virtual machines", "virtiofsd and its mounts need root")
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
    if made.has_ended():
        raise RigError(f"make ended before a whole cluster ran:\n{made.log.read_text()[-3000:]}")
    words = " ".join(made.descendants().values())
    return all(name in words for name in ("etcd", "kube-apiserver", "olareg", "virtiofsd", "qemu-system"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_a_killed_run_leaves_nothing_behind(
    number: signal.Signals, made: Made, untouched: dict[str, set[str]]
) -> None:
    ran = made.descendants()
    folders = _run_folders(ran)
    assert folders

    made.send(number)
    made.wait()

    polling.until(lambda: not _survivors(ran), f"none of {len(ran)} processes survives", timeout_s=30)
    processes.sweep()
    assert {folder for folder in folders if folder.exists()} == set()
    assert _machine_state() == untouched


def _run_folders(ran: Mapping[int, str]) -> set[Path]:
    """The folders that the run's own processes speak of: other runs may have theirs beside."""
    runs = cache.root() / "run"
    return {
        runs / name
        for words in ran.values()
        for name in re.findall(rf"{re.escape(str(runs))}/([\w-]+)", words)
    }


def _survivors(ran: Mapping[int, str]) -> list[str]:
    living = processes.identities()
    return [identity for pid, identity in ran.items() if living.get(pid) == identity]
