"""What `sked agent --once` proves on a real kernel by what it is given, with a decoy beside the owner."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from rig.base import polling, processes
from rig.base.progress import say
from rig.guest import schedext, schedulers
from rig.guest.schedext import Launcher

pytestmark = pytest.mark.kernel("7")

_ONCE = (sys.executable, "-c", "from schedkit.sked.main import main; main(['agent', '--once'])")
_NOBODY = ("--reuid=65532", "--regid=65532", "--clear-groups")
_BOUND = "--bounding-set=-all"
_LIMIT_S = 60
LEVELS = {
    1: ("unshare", "--pid", "--fork", "--mount-proc", "setpriv", *_NOBODY, _BOUND, "--inh-caps=-all"),
    2: ("setpriv", f"{_BOUND},+sys_ptrace,+syslog", "--inh-caps=-all"),
    3: ("setpriv", f"{_BOUND},+sys_ptrace,+syslog,+sys_admin", "--inh-caps=-all"),
}


def prepare_on_host() -> None:
    schedulers.built()


def once(level: int) -> dict[str, Any]:
    said = processes.run([*LEVELS[level], *_ONCE], timeout_s=_LIMIT_S).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def test_each_level_proves_what_it_can_and_names_what_is_missing_for_the_rest(launcher: Launcher) -> None:
    """An ejected holder lives on, and TCP's link is the newest: links alone would name the wrong one."""
    ejected = launcher.attach("lingering")
    schedext.eject()
    schedext.await_disabled()
    owner = launcher.attach("lingering")
    tcp = launcher.start("tcp")
    polling.until(lambda: schedext.links(tcp.pid), "the TCP holder has its link")
    assert len({ejected.pid, owner.pid, tcp.pid}) == 3

    said = {level: once(level) for level in LEVELS}

    for level, each in said.items():
        say(f"level {level}: {each['owner']}; {each.get('exits') or each.get('exitsProblem')}")
        assert (each["state"], each["eligible"]) == ("enabled", "Yes")
    assert said[1]["owner"]["kind"] == said[2]["owner"]["kind"] == "Unknown"
    assert "the host's process namespace is needed" in said[1]["owner"]["reason"]
    assert "CAP_SYSLOG is needed" in said[1]["exitsProblem"]
    assert said[2]["owner"]["reason"] == "the kernel does not show its BPF maps: CAP_SYS_ADMIN is needed"
    assert [each["kind"] for each in said[2]["exits"]][-1:] == [67]
    assert said[3]["owner"]["program"] == os.readlink(f"/proc/{owner.pid}/exe")  # noqa: PTH115 - as it is told
    assert said[3]["owner"]["kind"] == "Foreign"
    assert said[3]["exits"] == said[2]["exits"]
