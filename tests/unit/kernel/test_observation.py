"""One look at a machine: kernel and evidence belong together, or the answer is `unknown`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schedkit.kernel.observation import observe
from schedkit.model.host.holders import HeldLink, HeldObjects, SchedulerMap
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.kernel.sched_ext import State

MINI = HeldObjects((Process(7),), (HeldLink(7, 1, 10),), (), (SchedulerMap(10, "mini"),))
PINNED = HeldObjects(schedulers=(SchedulerMap(10, "mini"),), pinned_links=frozenset({1}))


class Machine:
    """Its kernel, and a witness that counts how often it is asked."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked = 0
        (root / "sys/kernel/sched_ext/root").mkdir(parents=True)

    def says(self, state: str, ops: str = "mini", seq: int = 1) -> None:
        folder = self.root / "sys/kernel/sched_ext"
        (folder / "state").write_text(state)
        (folder / "root/ops").write_text(ops)
        (folder / "enable_seq").write_text(str(seq))

    def witness(
        self, *answers: HeldObjects, then: Callable[[], None] = lambda: None
    ) -> Callable[[Path], HeldObjects]:
        def gather(root: Path) -> HeldObjects:
            self.asked += 1
            then()
            return answers[min(self.asked, len(answers)) - 1]

        return gather


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("state", ["disabled", "enabling", "disabling"])
def test_processes_are_left_alone_while_nothing_is_attached(machine: Machine, state: str) -> None:
    machine.says(state)

    observation = observe(machine.root, gather=machine.witness(MINI))

    assert (observation.kernel.state.value, observation.proof) == (state, Proof(Hold.NOTHING))
    assert machine.asked == 0


def test_what_is_held_is_looked_at_once_if_it_is_asked_for_while_nothing_is_attached(
    machine: Machine,
) -> None:
    machine.says("disabled")

    observation = observe(machine.root, is_thorough=True, gather=machine.witness(MINI))

    assert (observation.proof, observation.held) == (Proof(Hold.NOTHING), MINI)
    assert machine.asked == 1


def test_the_owner_is_proved_by_what_was_held_at_that_moment(machine: Machine) -> None:
    machine.says("enabled")

    observation = observe(machine.root, is_thorough=True, gather=machine.witness(MINI))

    assert (observation.proof.process, observation.held, machine.asked) == (Process(7), MINI, 1)


def test_one_look_is_enough_for_a_holder_that_is_there(machine: Machine) -> None:
    machine.says("enabled")

    observation = observe(machine.root, gather=machine.witness(MINI))

    assert (observation.proof.hold, machine.asked) == (Hold.LINK, 1)


def test_a_holder_that_seemed_to_be_none_is_looked_for_again(machine: Machine) -> None:
    machine.says("enabled")

    observation = observe(machine.root, gather=machine.witness(PINNED, MINI))

    assert (observation.proof.hold, machine.asked) == (Hold.LINK, 2)


def test_what_is_said_twice_is_believed(machine: Machine) -> None:
    machine.says("enabled")

    observation = observe(machine.root, gather=machine.witness(PINNED))

    assert (observation.proof.hold, machine.asked) == (Hold.NOBODY, 2)


def test_a_scheduler_that_goes_while_we_look_is_gone(machine: Machine) -> None:
    machine.says("enabled")

    observation = observe(machine.root, gather=machine.witness(MINI, then=lambda: machine.says("disabled")))

    assert observation.kernel.state is State.DISABLED
    assert observation.proof.hold is Hold.NOTHING


def test_evidence_of_a_scheduler_that_was_replaced_meanwhile_is_not_used(machine: Machine) -> None:
    machine.says("enabled", "old", seq=1)

    observation = observe(
        machine.root,
        gather=machine.witness(PINNED, MINI, then=lambda: machine.says("enabled", "mini", seq=2)),
    )

    assert (observation.kernel.ops, observation.proof.hold) == ("mini", Hold.LINK)


def test_schedulers_that_change_faster_than_we_look_have_an_unknown_owner(machine: Machine) -> None:
    machine.says("enabled")

    def replace() -> None:
        machine.says("enabled", seq=machine.asked + 1)

    observation = observe(machine.root, gather=machine.witness(MINI, then=replace))

    assert observation.proof.hold is Hold.UNKNOWN
    assert "faster than they can be observed" in observation.proof.reason
