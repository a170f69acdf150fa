"""Ending processes that are not ours: the right one, gently first; and what is left alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedkit.kernel import structops
from schedkit.model.host.holders import MapsReading, SchedulerMap
from schedkit.model.host.processes import Process
from schedkit.schedctl.change import forced_ends
from schedkit.schedctl.problems.problem import Problem

LINK = "link_type:\tstruct_ops\nlink_id:\t5\nmap_id:\t13\n"
NOBODY = 1 << 22  # above every process's number


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def machine(root: Path, pid: int, command: str) -> Path:
    """A machine on which that process holds a scheduler's link."""
    folder = root / f"proc/{pid}"
    for name in ("fd", "fdinfo"):
        (folder / name).mkdir(parents=True)
    (folder / "fd/4").symlink_to("anon_inode:bpf_link")
    (folder / "fdinfo/4").write_text(LINK)
    (folder / "cmdline").write_text(command)
    (folder / "status").write_text("Name:\tx\n")
    (folder / "cgroup").write_text("0::/\n")
    return root


def test_a_process_that_holds_a_scheduler_is_asked_to_end(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    forced_ends.end_process(
        machine(tmp_path, sleeper.pid, "scx"), Process(sleeper.pid, command="scx"), grace_s=30
    )

    assert sleeper.wait(30) == -15


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        forced_ends.end_process(
            machine(tmp_path, process.pid, "scx"), Process(process.pid, command="scx"), grace_s=0.1
        )

        assert process.wait(30) == -9


def test_a_number_that_belongs_to_somebody_else_by_now_ends_nobody(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    root = machine(tmp_path, sleeper.pid, "an editor")

    forced_ends.end_process(root, Process(sleeper.pid, command="scx"), grace_s=0)
    forced_ends.end_process(tmp_path, Process(NOBODY, command="scx"), grace_s=0)

    assert sleeper.poll() is None


def kernel(root: Path, state: str) -> Path:
    (root / "sys/kernel/sched_ext").mkdir(parents=True)
    (root / "sys/kernel/sched_ext/state").write_text(f"{state}\n")
    (root / "proc").mkdir()
    (root / "proc/sysrq-trigger").touch()
    return root


@pytest.mark.parametrize(("state", "pressed"), [("disabled", ""), ("enabling", "S")])
def test_sysrq_is_pressed_only_where_there_is_something_to_eject(
    state: str, pressed: str, tmp_path: Path
) -> None:
    forced_ends.eject(kernel(tmp_path, state), is_blind=True)

    assert (tmp_path / "proc/sysrq-trigger").read_text() == pressed


def test_what_a_process_may_hold_is_not_ejected_unless_told_so(tmp_path: Path) -> None:
    root = kernel(tmp_path, "enabled")

    with pytest.raises(Problem, match="a process may hold it"):
        forced_ends.eject(root, is_blind=False)

    assert (root / "proc/sysrq-trigger").read_text() == ""


def test_who_may_not_press_it_is_told_to_be_root(tmp_path: Path) -> None:
    root = kernel(tmp_path, "enabling")
    (root / "proc/sysrq-trigger").unlink()
    (root / "proc/sysrq-trigger").mkdir()

    with pytest.raises(Problem, match="not ejected") as met:
        forced_ends.eject(root, is_blind=True)

    assert "root" in met.value.remedy


@pytest.mark.parametrize(("state", "removed"), [("disabled", [7]), ("enabled", []), ("disabling", [])])
def test_what_an_ejected_scheduler_has_left_stays_while_another_may_be_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, removed: list[int]
) -> None:
    left, seen = SchedulerMap(7, "fifo", is_registered=True), list[int]()
    (tmp_path / "sys/kernel/sched_ext").mkdir(parents=True)
    (tmp_path / "sys/kernel/sched_ext/state").write_text(f"{state}\n")
    monkeypatch.setattr(structops, "read", lambda _: MapsReading((left,)))  # for root alone
    monkeypatch.setattr(structops, "unregister", seen.append)

    forced_ends.unregister(tmp_path, left)

    assert seen == removed
