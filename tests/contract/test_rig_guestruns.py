"""Guests work beside the host, one after the other, and one that dies costs its module and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from rig.base.errors import RigError
from rig.session.guestruns import Errand, Guests, Machine, Place

SIX, SEVEN = Machine("6"), Machine("7")
PLACES = {
    "a::one": Place(SIX, "a"),
    "a::two": Place(SIX, "a"),
    "b::one": Place(SIX, "b"),
    "c::one": Place(SEVEN, "c"),
}


def report(test: str, when: str = "teardown") -> pytest.TestReport:
    return pytest.TestReport(test, ("", 0, test), {}, "passed", None, when)  # type: ignore[arg-type]


@dataclass
class Scripted:
    """A guest that reports one test at each look, and dies instead of the test that it is told to."""

    tests: list[str]
    dies_at: str | None = None
    ended: list[str] = field(default_factory=list)

    def news(self) -> Iterator[pytest.TestReport]:
        if self.tests and self.tests[0] != self.dies_at:
            yield report(self.tests.pop(0))

    def require_progress(self) -> None:
        if self.tests and self.tests[0] == self.dies_at:
            raise RigError("the kernel panicked")

    def cpu_seconds(self) -> float:
        return 2.0

    def stop(self) -> None:
        self.ended.append("stopped")

    def kill(self) -> None:
        self.ended.append("killed")


@dataclass
class Boots:
    """Every guest that was started, in order."""

    dies_at: str | None = None
    made: list[tuple[Machine, list[str], Scripted]] = field(default_factory=list)

    def __call__(self, machine: Machine, words: Sequence[str]) -> Scripted:
        assert all(guest.ended for *_, guest in self.made), "one at a time"
        guest = Scripted(list(words), self.dies_at)
        self.made.append((machine, list(words), guest))
        return guest


def guests(boots: Boots) -> Guests:
    errand = Errand(PLACES, words=lambda tests: tests, prepare=lambda _: None)
    return Guests(errand, boots, look_every_s=0)


def test_a_look_boots_the_first_guest_and_waits_for_nothing() -> None:
    boots = Boots()

    guests(boots).tend()

    assert [(machine, tests) for machine, tests, _ in boots.made] == [(SIX, ["a::one", "a::two", "b::one"])]


def test_looks_alone_bring_one_guest_to_its_end_and_boot_the_next() -> None:
    boots = Boots()
    beside = guests(boots)

    for _ in range(10):
        beside.tend()

    assert [machine for machine, *_ in boots.made] == [SIX, SEVEN]
    assert [guest.ended for *_, guest in boots.made] == [["stopped"], ["stopped"]]
    assert [beside.reports_of(test)[0].nodeid for test in PLACES] == list(PLACES)
    assert beside.cpu_seconds() == 4.0


def test_a_guest_that_dies_takes_the_rest_of_its_module_and_the_others_get_another() -> None:
    boots = Boots(dies_at="a::two")
    beside = guests(boots)

    assert beside.reports_of("a::one")
    with pytest.raises(RigError, match="the kernel panicked"):
        beside.reports_of("a::two")
    assert beside.reports_of("b::one")
    assert beside.reports_of("c::one")
    beside.close()

    assert [tests for _, tests, _ in boots.made] == [["a::one", "a::two", "b::one"], ["b::one"], ["c::one"]]
    assert [guest.ended for *_, guest in boots.made] == [["killed"], ["stopped"], ["stopped"]]


def test_a_guest_that_is_still_at_work_at_the_end_is_not_waited_for() -> None:
    boots = Boots()
    beside = guests(boots)
    beside.tend()

    beside.close()

    assert [guest.ended for *_, guest in boots.made] == [["killed"]]


def test_a_module_that_cannot_prepare_loses_its_own_tests_alone() -> None:
    def prepare(place: Place) -> None:
        if place.module == "a":
            raise RigError("it does not compile")

    boots = Boots()
    beside = Guests(Errand(PLACES, words=lambda tests: tests, prepare=prepare), boots)

    with pytest.raises(RigError, match="it does not compile"):
        beside.reports_of("a::one")
    assert beside.reports_of("b::one")
