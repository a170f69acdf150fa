"""One look at `/sys/kernel/sched_ext`, in a tree made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedkit.kernel import sysfs
from schedkit.model.kernel.sched_ext import KernelState, State

ATTACHED = {
    "state": "enabled\n",
    "enable_seq": "3\n",
    "switch_all": "1\n",
    "nr_rejected": "0\n",
    "hotplug_seq": "2\n",
    "root/ops": "rusty_1.1.4_x86_64_unknown_linux_gnu\n",
    "root/events": "SCX_EV_BYPASS_ACTIVATE 1\n",
}


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        file = root / "sys/kernel/sched_ext" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


def test_everything_that_an_attached_scheduler_shows_is_read(tmp_path: Path) -> None:
    assert sysfs.read(tree(tmp_path, ATTACHED)) == KernelState(
        state=State.ENABLED,
        ops="rusty_1.1.4_x86_64_unknown_linux_gnu",
        enable_seq=3,
        switch_all=True,
        nr_rejected=0,
        hotplug_seq=2,
        events={"SCX_EV_BYPASS_ACTIVATE": 1},
    )


def test_a_kernel_without_sched_ext_is_no_kernel_with_it_disabled(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)

    assert sysfs.read(tmp_path) == KernelState(state=State.ABSENT)


def test_without_sys_nothing_is_known_and_waiting_does_not_help(tmp_path: Path) -> None:
    reading = sysfs.read(tmp_path)

    assert (reading.state, reading.is_moving) == (State.UNKNOWN, False)
    assert "is /sys mounted?" in reading.problem


@pytest.mark.parametrize("word", ["enabling", "disabling", "disabled"])
def test_no_other_state_is_shown_as_disabled(tmp_path: Path, word: str) -> None:
    assert sysfs.read(tree(tmp_path, {"state": word})).state.value == word


def test_an_unknown_word_is_quoted(tmp_path: Path) -> None:
    reading = sysfs.read(tree(tmp_path, {"state": "prepping\n"}))

    assert (reading.state, reading.is_moving) == (State.UNKNOWN, True)
    assert "says 'prepping', which schedkit does not know" in reading.problem


def test_a_state_that_cannot_be_read_is_unknown_and_not_absent(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/sched_ext/state").mkdir(parents=True)

    reading = sysfs.read(tmp_path)

    assert (reading.state, reading.is_moving) == (State.UNKNOWN, False)
    assert "cannot be read" in reading.problem


def test_partial_mode_is_told_from_a_kernel_that_does_not_say(tmp_path: Path) -> None:
    assert sysfs.read(tree(tmp_path / "partial", {"state": "enabled", "switch_all": "0"})).switch_all is False
    assert sysfs.read(tree(tmp_path / "silent", {"state": "enabled"})).switch_all is None


def test_sub_schedulers_are_named(tmp_path: Path) -> None:
    files = ATTACHED | {"root/sub/sub-812/ops": "inner\n", "root/sub/sub-9/caps": ""}

    assert sysfs.read(tree(tmp_path, files)).sub_schedulers == ("inner",)
