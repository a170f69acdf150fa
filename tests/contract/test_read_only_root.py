"""What a person runs in an agent's container works there: nothing can be written, and no runtime answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rig.base import processes

_PROGRAMS = Path(sys.executable).parent
# a root of its own, with all that is mounted below, of which the root itself cannot be written
_ENTER = (
    'mount --make-rprivate / && mount --rbind / "$0" && '
    'mount -o remount,ro,bind "$0" && exec chroot "$0" "$@"'
)


def run(folder: Path, *words: str) -> processes.Completed:
    processes.require_mounts("a root that cannot be written", "it needs mounts of its own")
    environment = {"HOME": "/", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = ["unshare", "--mount", "sh", "-c", _ENTER, str(folder), *words]
    return processes.run(argv, env=environment, check=False, timeout_s=60)


def test_the_root_cannot_be_written(tmp_path: Path) -> None:
    assert "Read-only file system" in run(tmp_path, "touch", "/anything").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("schedctl", "status"), "Kernel:"),
        (("schedctl", "doctor"), "kernel.sched_ext"),
        (("sked", "agent", "--once"), '"kernel":'),
    ],
    ids=["status", "doctor", "once"],
)
def test_looking_needs_no_place_to_write(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run(tmp_path, str(_PROGRAMS / words[0]), *words[1:])

    assert said in done.stdout
    assert "Read-only" not in done.stdout + done.stderr
    assert done.returncode in {0, 1, 2, 3}  # answers, and no failure of the program
