"""Looks at a node's kernel: what is looked at when, and which ends are believed."""

from __future__ import annotations

import datetime as dt
import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from schedkit.kernel import sysfs
from schedkit.kernel.syslog import Syslog
from schedkit.model.api.schedextnode import NodeExit, NodeOwner, NodeOwnerKind, SchedExtNodeStatus
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.node.report import Look
from schedkit.sked.agent.watcher import Watcher

HOLDER = 77
STAT = "{pid} (scx_mini) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {began} 1 1 1\n"
BOOT = "<5>[    0.000000] Linux version 7.2.0"


def ended(at_s: int, ops: str = "mini", reason: str = "runnable task stall") -> list[str]:
    return [
        f'<3>[{at_s:5d}.000000] sched_ext: BPF scheduler "{ops}" disabled ({reason})',
        f"<3>[{at_s:5d}.000010] sched_ext: {ops}: victim[458] failed to run for 2.044s",
        f"<4>[{at_s:5d}.000020]    scx_watchdog_workfn+0x16a/0x1f0",  # a stack has spaces of its own
    ]


class Node:
    """A kernel in a folder, its log, and a witness who counts the walks through all processes."""

    def __init__(self, root: Path) -> None:
        self.root, self.now = root, 1000.0
        self.log = [BOOT]
        self.problem: OSError | None = None
        self.then: Callable[[], None] = lambda: None  # happens after each reading of the log
        self.hold = Hold.LINK
        self.cgroups: tuple[str, ...] = ()
        self.walks = 0
        self.walk_s = 0.0  # how long each takes
        (root / "sys/kernel/sched_ext/root").mkdir(parents=True)
        self.says("disabled", seq=0)
        self.starts()
        self.watcher = self.agent()

    def agent(self) -> Watcher:
        """An agent that has seen nothing yet."""
        log = Syslog(self.read_log)
        return Watcher(self.root, log, observe=self.observe, clock=lambda: self.now)

    def says(self, state: str, ops: str = "mini", seq: int = 1) -> None:
        folder = self.root / "sys/kernel/sched_ext"
        (folder / "state").write_text(state)
        (folder / "root/ops").write_text(ops if state == "enabled" else "")
        (folder / "enable_seq").write_text(str(seq))

    def starts(self, began: int = 1) -> None:
        folder = self.root / f"proc/{HOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(STAT.format(pid=HOLDER, began=began))

    def read_log(self, _: int | None) -> bytes:
        if self.problem:
            raise self.problem
        content = "".join(f"{line}\n" for line in self.log).encode()
        self.then()
        return content

    def observe(self, root: Path) -> Snapshot:
        self.walks += 1
        self.now += self.walk_s
        kernel = sysfs.read(root)
        if kernel.state is not State.ENABLED:
            return Snapshot(kernel)
        process = Process(HOLDER, cgroups=self.cgroups) if self.hold is Hold.LINK else None
        return Snapshot(kernel, Proof(self.hold, process))

    def look(self) -> Look:
        return self.watcher.look()

    def ends(self) -> list[tuple[str, int]]:
        return [(each.ops, each.count) for each in self.look().exits]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# What is looked at


def test_an_idle_node_is_walked_once(node: Node) -> None:
    for _ in range(100):
        node.now += 5
        assert node.look().snapshot.kernel == KernelState(State.DISABLED, enable_seq=0)

    assert node.walks == 1


def test_an_attached_scheduler_is_proved_once(node: Node) -> None:
    node.says("enabled")
    for _ in range(100):
        node.now += 5
        assert node.look().snapshot.proof.process == Process(HOLDER)

    assert node.walks == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"state": "enabled", "seq": 2}, id="another attachment"),
        pytest.param({"state": "enabled", "ops": "other"}, id="another scheduler"),
        pytest.param({"state": "disabled"}, id="another state"),
    ],
)
def test_processes_are_walked_when_the_kernel_runs_something_else(node: Node, change: dict[str, str]) -> None:
    node.says("enabled")
    node.look()
    node.says(**change)  # type: ignore[arg-type]  # words of `says`

    node.look()

    assert node.walks == 2


def test_processes_are_walked_when_the_holder_has_ended(node: Node) -> None:
    node.says("enabled")
    node.look()
    (node.root / f"proc/{HOLDER}/stat").unlink()
    node.hold = Hold.NOBODY

    assert node.look().snapshot.proof.hold is Hold.NOBODY
    assert node.walks == 2


def test_another_process_with_the_holders_number_is_not_the_holder(node: Node) -> None:
    node.says("enabled")
    node.look()
    node.starts(began=2)

    node.look()

    assert node.walks == 2


@pytest.mark.parametrize("hold", [Hold.UNKNOWN, Hold.NOBODY])
def test_an_owner_that_was_not_proved_is_looked_for_once_a_minute(node: Node, hold: Hold) -> None:
    node.hold = hold
    node.says("enabled")
    for _ in range(25):  # two minutes, and the first look
        node.look()
        node.now += 5

    assert node.walks == 3


@pytest.mark.parametrize(("walk_s", "walks"), [(0.1, 60), (0.5, 14), (1.0, 7), (60.0, 4)])
def test_walks_that_take_long_are_made_more_seldom(node: Node, walk_s: float, walks: int) -> None:
    """An hour on a machine with thousands of processes, whose scheduler nobody can prove to be anybody's."""
    node.hold, node.walk_s = Hold.UNKNOWN, walk_s
    node.says("enabled")
    end = node.now + 3600
    while node.now < end:
        node.look()
        node.now += 20

    assert abs(node.walks - walks) <= 1


def test_counters_of_the_kernel_are_new_at_each_look(node: Node) -> None:
    node.says("enabled")
    node.look()
    (node.root / "sys/kernel/sched_ext/nr_rejected").write_text("9")

    assert node.look().snapshot.kernel.nr_rejected == 9
    assert node.walks == 1


# Ends of schedulers


def test_what_ended_before_the_agent_began_is_dated_by_the_log(node: Node) -> None:
    node.log += ended(990)

    look = node.look()

    (end,) = look.exits
    assert (end.ops, end.kind, end.task, end.log_time) == ("mini", 1026, "victim[458]", 990_000_000)
    assert end.time == (look.now - dt.timedelta(seconds=10)).replace(microsecond=0)


@pytest.mark.parametrize("log_s", [400, 1600], ids=["the log's clock is slow", "the log's clock is fast"])
def test_an_end_that_was_seen_is_dated_by_the_looks_around_it(node: Node, log_s: int) -> None:
    """The log counts by a clock of its own: after months it is minutes away from this one."""
    node.says("enabled")
    earlier = node.look()
    node.says("disabled")
    node.log += ended(log_s)

    later = node.look()

    (end,) = later.exits
    assert end.time is not None
    assert earlier.now.replace(microsecond=0) <= end.time <= later.now


def test_an_end_during_an_agents_absence_is_dated_after_the_earlier_report(node: Node) -> None:
    reported = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=60)
    node.watcher.resume(SchedExtNodeStatus(reported_at=reported))
    node.log += ended(400)  # ten minutes ago, by a clock that is slow

    (end,) = node.look().exits

    assert end.time == reported.replace(microsecond=0)


def test_an_end_whose_words_were_waited_for_is_dated_by_the_look_that_it_was_new_at(node: Node) -> None:
    node.says("enabled")
    node.look()
    node.says("disabling")
    node.log += ended(990)
    waiting = node.look()
    node.says("disabled")

    (end,) = node.look().exits

    assert end.time is not None
    assert end.time <= waiting.now


FIRST, SECOND = "0" * 8 + "-0000-0000-0000-" + "1" * 12, "0" * 8 + "-0000-0000-0000-" + "2" * 12


def pod(uid: str) -> tuple[str, ...]:
    return (f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{'c' * 64}.scope",)


def test_an_end_names_the_pod_that_was_proved_to_own_the_scheduler(node: Node) -> None:
    """Both run the same scheduler: the second is a decoy."""
    node.cgroups = pod(FIRST)
    node.says("enabled")
    node.look()
    node.says("disabled")
    node.log += ended(10)
    first = node.look().exits
    node.cgroups = pod(SECOND)
    node.says("enabled", seq=2)
    node.look()
    node.says("disabled", seq=2)
    node.log += ended(20)

    assert [(each.owner, each.pod_uid) for each in first] == [("Pod", FIRST)]
    assert [(each.pod_uid, each.count) for each in node.look().exits] == [(FIRST, 1), (SECOND, 1)]


def test_what_came_and_went_between_two_looks_is_nobodys(node: Node) -> None:
    node.cgroups = pod(FIRST)
    node.says("enabled")
    node.look()
    node.says("disabled", seq=2)
    node.log += [*ended(10), *ended(11)]

    assert [(each.owner, each.pod_uid) for each in node.look().exits] == [("Pod", FIRST), ("", "")]


def test_an_end_while_no_agent_ran_is_of_whom_the_earlier_one_named(node: Node) -> None:
    owner = NodeOwner(kind=NodeOwnerKind.POD, pod_uid=FIRST)
    node.watcher.resume(SchedExtNodeStatus(state="enabled", ops="mini", enable_seq=1, owner=owner))
    node.says("disabled")
    node.log += ended(10)

    assert [(each.owner, each.pod_uid) for each in node.look().exits] == [("Pod", FIRST)]


def test_an_end_that_may_have_been_lost_leaves_the_next_one_without_an_owner(node: Node) -> None:
    node.cgroups = pod(FIRST)
    node.says("enabled")
    node.look()
    node.says("disabled", seq=2)
    node.log[:] = ["<5>[   19.000000] something else", *ended(20)]

    assert [each.pod_uid for each in node.look().exits] == [""]


def timeless(lines: list[str]) -> list[str]:
    return [re.sub(r"\[ *[0-9.]+\] ", "", line, count=1) for line in lines]


@pytest.mark.parametrize(
    "words",
    [
        "[    1.000000] y",
        "[    1.000000][    T1] y",
        "[    T1] y",
        "[T1] y",
        "[    1.000000]",
        " [    1.000000] y",
    ],
)
def test_an_end_is_told_once_when_somebody_switches_the_times_of_the_log(node: Node, words: str) -> None:
    """`printk.time` changes how every line is shown, the old ones as well, but none of their words."""
    node.log += [f"<6>[{second:5d}.000000] usb {second}: new device" for second in range(1, 9)]
    node.log += ended(10)
    node.log += [f"<3>[   11.000000] {line}" for line in ("tmpfs: Unknown parameter 'x", words)]
    assert node.ends() == [("mini", 1)]

    with_times, node.log = node.log, timeless([*node.log, *ended(20)])
    assert node.ends() == [("mini", 2)]

    node.log = [*with_times, *ended(20), *ended(30)]
    assert node.ends() == [("mini", 3)]


def test_an_agent_that_begins_anew_tells_no_end_again_though_all_are_alike_and_the_log_has_no_times(
    node: Node,
) -> None:
    """Of pods that came one after the other, more than a report holds."""
    node.log = timeless(node.log)
    for number in range(1, 13):
        node.cgroups = pod(f"{number:08d}-0000-4000-8000-000000000000")
        node.says("enabled", seq=number)
        node.look()
        node.says("disabled", seq=number)
        node.log += timeless(ended(number))
        seen = node.look()
    report = SchedExtNodeStatus(state="disabled", enable_seq=12, exits=seen.exits)

    node.watcher = node.agent()
    node.watcher.resume(report)

    assert node.look().exits == report.exits


def test_an_end_is_told_once(node: Node) -> None:
    node.says("enabled")
    node.look()
    node.says("disabled")
    node.log += ended(990)

    assert [node.ends() for _ in range(3)] == [[("mini", 1)]] * 3


def test_what_ended_before_the_agent_began_is_told(node: Node) -> None:
    node.says("enabled", seq=2)
    node.log += ended(900)

    assert node.ends() == [("mini", 1)]


def test_an_end_is_not_believed_while_the_same_attachment_goes_on(node: Node) -> None:
    node.says("enabled")
    node.look()
    node.log += ended(990)

    assert node.ends() == []

    node.says("disabled")

    assert node.ends() == []


@pytest.mark.parametrize("seq", [1, 2])
def test_an_end_is_believed_when_another_attachment_follows_at_once(node: Node, seq: int) -> None:
    node.says("enabled", seq=0)
    node.look()
    node.says("enabled", seq=seq)
    node.log += ended(990)

    assert node.ends() == [("mini", 1)]


def test_a_scheduler_that_never_got_attached_may_have_an_end(node: Node) -> None:
    """A bad `init`: the state was `disabled` at each look."""
    node.look()
    node.log += ended(990, reason="scx_bpf_error")

    assert node.ends() == [("mini", 1)]


def test_an_end_while_the_node_is_looked_at_is_not_lost(node: Node) -> None:
    """The log is read, then a scheduler ends and another follows, then the kernel is looked at."""
    node.says("enabled")
    node.look()

    def end() -> None:
        node.then = lambda: None
        node.says("enabled", seq=2)
        node.log += ended(990)

    node.then = end

    assert node.ends() == []
    assert node.ends() == [("mini", 1)]


def test_the_kernels_words_about_an_end_are_waited_for(node: Node) -> None:
    node.says("enabled")
    node.look()
    node.says("disabling")
    node.log += ended(990)[:1]
    assert node.ends() == []
    node.says("disabled")
    node.log += ended(990)[1:]

    (end,) = node.look().exits

    assert end.message == "victim[458] failed to run for 2.044s"


# Agents one after the other


def status_of(look: Look) -> SchedExtNodeStatus:
    return SchedExtNodeStatus(exits=look.exits, exits_since=look.exits_since, reported_at=look.now)


@pytest.mark.parametrize("has_times", [True, False])
def test_an_agent_goes_on_where_an_earlier_one_stopped(node: Node, has_times: bool) -> None:
    def said(lines: list[str]) -> list[str]:
        return lines if has_times else [line[:3] + line.partition("] ")[2] for line in lines]

    node.log = said([BOOT, *ended(900), *ended(950)])
    earlier = status_of(node.look())
    node.log += said([*ended(990), *ended(995, ops="other")])
    node.watcher = node.agent()
    node.watcher.resume(earlier)

    assert node.ends() == [("mini", 3), ("other", 1)]
    assert node.ends() == [("mini", 3), ("other", 1)]


def test_what_the_log_has_forgotten_is_kept_from_the_earlier_report(node: Node) -> None:
    earlier = SchedExtNodeStatus(exits=(NodeExit(ops="old", log_time=5, count=2),))
    node.watcher.resume(earlier)

    assert node.ends() == [("old", 2)]


# What is complete since when


def test_a_log_since_boot_is_complete(node: Node) -> None:
    assert node.look().exits_since is None


def test_a_log_that_begins_later_is_complete_since_then(node: Node) -> None:
    node.log = ["<6>[  400.000000] usb 1-1: new device"]

    look = node.look()

    assert look.exits_since == (look.now - dt.timedelta(seconds=600)).replace(microsecond=0)
    assert look.exits_problem == ""


def test_lines_that_were_lost_between_two_looks_move_the_date_once(node: Node) -> None:
    node.look()
    node.log = [f"<6>[  900.{number:06d}] packet {number}" for number in range(50)]
    first = node.look()

    second = node.look()

    assert first.exits_since == (first.now - dt.timedelta(seconds=100)).replace(microsecond=0)
    assert (second.exits_since, second.exits_problem) == (first.exits_since, "")


@pytest.mark.parametrize(("minutes_ago", "is_complete"), [(1, True), (60, False)])
def test_an_agent_that_was_away_for_longer_than_the_log_lasts_says_so(
    node: Node, minutes_ago: int, is_complete: bool
) -> None:
    node.log = ["<6>[  400.000000] usb 1-1: new device"]  # ten minutes ago
    then = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes_ago)
    node.watcher.resume(SchedExtNodeStatus(reported_at=then))

    assert (node.look().exits_since is None) is is_complete


def test_a_log_that_may_not_be_read_changes_nothing_from_look_to_look(node: Node) -> None:
    node.problem = OSError(errno.EPERM, "Operation not permitted")

    looks = [node.look() for _ in range(3)]

    assert {each.exits_since for each in looks} == {None}
    assert {each.exits_problem for each in looks} == {
        "the kernel's log cannot be read (Operation not permitted): CAP_SYSLOG is needed"
    }


def test_what_a_log_held_is_told_as_soon_as_it_can_be_read(node: Node) -> None:
    node.says("enabled")
    node.problem = OSError(errno.EPERM, "Operation not permitted")
    node.log += ended(900)
    node.look()
    node.problem = None

    assert node.ends() == [("mini", 1)]
