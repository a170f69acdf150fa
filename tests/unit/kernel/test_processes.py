"""A process is known by its number and its beginning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedkit.kernel import processes

STAT = "{pid} ({name}) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {began} 1 1 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Process 7."""
    folder = tmp_path / "proc/7"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(STAT.format(pid=7, name="scx_fifo", began=500))
    return folder


def test_a_life_goes_on_while_its_process_is_there(folder: Path, tmp_path: Path) -> None:
    life = processes.life(tmp_path, 7)

    assert life.is_going_on

    (folder / "stat").unlink()

    assert not life.is_going_on


def test_another_process_with_the_same_number_is_not_the_same_life(folder: Path, tmp_path: Path) -> None:
    life = processes.life(tmp_path, 7)

    (folder / "stat").write_text(STAT.format(pid=7, name="scx_fifo", began=501))

    assert not life.is_going_on


def test_what_was_gone_at_first_does_not_come_to_life(folder: Path, tmp_path: Path) -> None:
    text = (folder / "stat").read_text()
    (folder / "stat").unlink()
    life = processes.life(tmp_path, 7)
    (folder / "stat").write_text(text)

    assert not life.is_going_on
    assert not processes.life(tmp_path, 0).is_going_on


def test_a_name_may_look_like_what_follows_it(folder: Path) -> None:
    (folder / "stat").write_text(STAT.format(pid=7, name="a) S 1 2 (b", began=500))

    assert processes.beginning(folder) == 500


def test_this_process_is_going_on() -> None:
    assert processes.life(Path("/"), os.getpid()).is_going_on
