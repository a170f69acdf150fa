"""`make demo` with fake nodes, as a person and as a script see it; `tests/e2e` has the real node."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from rig.base import cache, polling, processes

ROOT = Path(__file__).parents[2]
# as root in a plain container, where no virtual machine can run
_WITHOUT_MOUNTS = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
DEMO = (*(_WITHOUT_MOUNTS if processes.is_root() else ()), sys.executable, "-m", "rig", "demo")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "CI": ""}
LIMIT_S = 300
IS_DEPLOYED = r"^schedext\S+/scx-rusty +\S+/scx_rusty:latest +3 +0 +3 +Unknown +\d+s$"


def folders() -> set[str]:
    """Of demos that run, or have left something behind."""
    return {folder.name for folder in (cache.root() / "run").glob("demo-*")}


def test_without_a_terminal_the_demo_tells_its_story_and_ends_by_itself(tmp_path: Path) -> None:
    before = folders()

    done = processes.run(DEMO, env=ENVIRONMENT, cwd=tmp_path, timeout_s=LIMIT_S)

    assert "virtual machines: virtiofsd and its mounts need root" in done.stderr
    assert "so this demo has fake nodes: their pods run nothing" in done.stderr
    assert "The nodes are not: their pods run nothing.\n" in done.stdout
    assert "schedext.sked.schedkit.io/scx-rusty created\n" in done.stdout
    assert re.search(IS_DEPLOYED, done.stdout, re.MULTILINE)
    assert re.search(r"^daemonset\.apps/scx-rusty +3 +3 +3 ", done.stdout, re.MULTILINE)
    answers = re.findall(r"^(\w+) +(True|False|Unknown) +\w+ ", done.stdout, re.MULTILINE)
    assert answers == [
        ("Accepted", "True"),
        ("Verified", "Unknown"),
        ("Deployed", "True"),
        ("Progressing", "False"),
        ("Ready", "Unknown"),
    ]
    assert "KUBECONFIG" not in done.stdout  # it would be gone before anybody could use it
    assert folders() <= before


def test_in_ci_a_demo_without_a_virtual_machine_is_a_failure(tmp_path: Path) -> None:
    done = processes.run(DEMO, env={**ENVIRONMENT, "CI": "true"}, cwd=tmp_path, timeout_s=60, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "virtual machines: virtiofsd and its mounts need root" in done.stderr


@pytest.mark.full
def test_at_a_terminal_the_cluster_stays_until_ctrl_c(tmp_path: Path) -> None:
    before = folders()
    with Terminal(tmp_path) as terminal:
        kubeconfig = terminal.await_word(r"export KUBECONFIG=(\S+)")
        kubectl = terminal.await_word(r"alias kubectl=(\S+)")
        environment = {"KUBECONFIG": kubeconfig, "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        found = processes.run([kubectl, "get", "schedext", "--output=name"], env=environment).stdout
        parts = processes.descendants(terminal.program.pid)

        terminal.program.send_signal(signal.SIGINT)
        code = terminal.program.wait(60)

    assert found == "schedext.sked.schedkit.io/scx-rusty\n"
    assert code == 0
    assert len(parts) > 5
    assert not [pid for pid in parts if processes.is_alive(pid)]
    assert folders() <= before


class Terminal:
    """The demo with somebody in front of it."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        self._said = ""
        self.program = subprocess.Popen(
            [*processes.LEASH, *DEMO],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=ENVIRONMENT,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self._ours)

    def await_word(self, pattern: str) -> str:
        """What the pattern's group finds, once it is on the screen."""

        def probe() -> re.Match[str] | None:
            while select.select([self._ours], [], [], 0)[0]:
                self._said += os.read(self._ours, 4096).decode(errors="replace")
            return re.search(pattern, self._said)

        return polling.until(probe, f"the screen shows {pattern}", timeout_s=LIMIT_S)[1]
