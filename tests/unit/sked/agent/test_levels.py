"""What an agent says by what it is given: less privilege means less proof, and never a guess."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

import pytest

from schedkit.kernel import held_objects, observation
from schedkit.kernel.syslog import Syslog
from schedkit.model.api.schedextnode import NodeAgent, NodeKernel, NodeOwnerKind, SchedExtNodeStatus
from schedkit.model.host.holders import MapsReading, SchedulerMap
from schedkit.model.node.report import Identity, report
from schedkit.sked.agent.watcher import Watcher

IDENTITY = Identity("node-uid", NodeKernel(), NodeAgent())
POD = "0b1c2d3e-0000-4000-8000-000000000001"
HOLDER, DECOY = 77, 78
LINK = "link_type:\tstruct_ops\nlink_id:\t{}\nmap_id:\t{}\n"
LOG = b"""<5>[    0.000000] Linux version 7.2.0
<3>[    9.000000] sched_ext: BPF scheduler "mini" disabled (runnable task stall)
"""
SCHEDULERS = MapsReading((SchedulerMap(13, "mini"),), frozenset({5, 6}), other_maps=frozenset({14}))


class Node:
    """A machine on which a pod's scheduler is attached, beside a newer link of TCP's: a decoy."""

    def __init__(self, root: Path) -> None:
        self.root = root
        folder = root / "sys/kernel/sched_ext"
        (folder / "root").mkdir(parents=True)
        for name, text in (("state", "enabled"), ("root/ops", "mini"), ("enable_seq", "2")):
            (folder / name).write_text(text)
        (root / "proc/self/ns").mkdir(parents=True)
        self.is_in_a_container = True
        self.add(1)

    def shows_all_processes(self) -> None:
        self.is_in_a_container = False
        self.add(HOLDER, link=LINK.format(5, 13))
        self.add(DECOY, link=LINK.format(6, 14))

    def add(self, pid: int, link: str = "") -> None:
        folder = self.root / f"proc/{pid}"
        for name in ("fd", "fdinfo"):
            (folder / name).mkdir(parents=True)
        (folder / "status").write_text(f"Name:\tx\nPid:\t{pid}\nPPid:\t{0 if pid == 1 else 1}\n")
        (folder / "stat").write_text(f"{pid} (x) " + " ".join(["1"] * 30))
        (folder / "cgroup").write_text(f"0::/kubepods/pod{POD}/{'a' * 64}\n")
        if link:
            (folder / "fd/4").symlink_to("anon_inode:bpf_link")
            (folder / "fdinfo/4").write_text(link)

    def report(self, *, shows_log: bool, maps: MapsReading) -> SchedExtNodeStatus:
        number = "4026532201" if self.is_in_a_container else "4026531836"
        (self.root / "proc/self/ns/pid").symlink_to(f"pid:[{number}]")

        def read(_: int | None) -> bytes:
            if not shows_log:
                raise PermissionError(errno.EPERM, "Operation not permitted")
            return LOG

        gather = partial(held_objects.gather, maps=lambda _: maps)
        watcher = Watcher(self.root, Syslog(read), observe=partial(observation.observe, gather=gather))
        return report(IDENTITY, watcher.look(), (), None)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


NO_MAPS = MapsReading(problem="the kernel does not show its BPF maps: CAP_SYS_ADMIN is needed")


def test_without_any_privilege_state_and_name_are_told_and_what_is_missing_for_the_rest(node: Node) -> None:
    said = node.report(shows_log=False, maps=NO_MAPS)

    assert (said.state, said.ops, said.enable_seq) == ("enabled", "mini", 2)
    assert said.owner.kind is NodeOwnerKind.UNKNOWN
    assert "the host's process namespace is needed" in said.owner.reason
    assert "CAP_SYS_ADMIN is needed" in said.owner.reason
    assert said.exits == ()
    assert "CAP_SYSLOG is needed" in said.exits_problem


def test_with_processes_and_log_the_ends_are_told_but_nobody_is_called_the_owner(node: Node) -> None:
    """The newest link is TCP's here: by that alone, the wrong one would be named."""
    node.shows_all_processes()

    said = node.report(shows_log=True, maps=NO_MAPS)

    assert said.owner.kind is NodeOwnerKind.UNKNOWN
    assert said.owner.reason == "the kernel does not show its BPF maps: CAP_SYS_ADMIN is needed"
    assert [(each.ops, each.kind) for each in said.exits] == [("mini", 1026)]
    assert said.exits_problem == ""


def test_with_the_kernels_maps_the_owner_is_proved(node: Node) -> None:
    node.shows_all_processes()

    said = node.report(shows_log=True, maps=SCHEDULERS)

    assert (said.owner.kind, said.owner.pod_uid) == (NodeOwnerKind.POD, POD)


def test_the_kernels_maps_alone_prove_nothing(node: Node) -> None:
    said = node.report(shows_log=False, maps=SCHEDULERS)

    assert said.owner.kind is NodeOwnerKind.UNKNOWN
    assert "the host's process namespace is needed" in said.owner.reason


@pytest.mark.parametrize("is_privileged", [True, False])
def test_that_nothing_is_attached_needs_no_proof(node: Node, is_privileged: bool) -> None:
    (node.root / "sys/kernel/sched_ext/state").write_text("disabled")

    said = node.report(shows_log=is_privileged, maps=SCHEDULERS if is_privileged else NO_MAPS)

    assert said.owner.kind is NodeOwnerKind.NONE
