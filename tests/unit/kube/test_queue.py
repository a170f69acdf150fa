"""The keyed queue: what it promises about one key, and about many."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rig.base import polling
from schedkit.kube.backoff import backoff
from schedkit.kube.queue import KeyedQueue
from schedkit.kube.schedule import Agenda

KEYS = st.sampled_from("abcd")
SECONDS = st.integers(min_value=0, max_value=5)


def test_groups_take_turns_and_each_keeps_its_order() -> None:
    agenda: Agenda[str] = Agenda(group_of=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "a4"):
        agenda.add(key, 0)
    first = agenda.pop(0)
    for key in ("c1", "b1", "b2"):
        agenda.add(key, 0)
    assert agenda.overdue == 6

    rest = [agenda.pop(0) for _ in range(7)]

    assert [first, *rest] == ["a1", "b1", "a2", "c1", "b2", "a3", "a4", None]


class AgendaMachine(RuleBasedStateMachine):
    """Against a model that only knows, for each key, the soonest time somebody wanted it."""

    def __init__(self) -> None:
        super().__init__()
        self.agenda: Agenda[str] = Agenda()
        self.now = 0.0
        self.wanted: dict[str, float] = {}
        self.busy: set[str] = set()

    @rule(key=KEYS, after_s=SECONDS, urgent=st.booleans())
    def add(self, key: str, after_s: int, urgent: bool) -> None:
        self.agenda.add(key, self.now, after_s=after_s, urgent=urgent)
        self.wanted[key] = min(self.now + after_s, self.wanted.get(key, float("inf")))

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def pop(self) -> None:
        due = {key for key, when in self.wanted.items() if when <= self.now and key not in self.busy}
        key = self.agenda.pop(self.now)
        if key is None:
            assert not due
            return
        assert key in due
        del self.wanted[key]
        self.busy.add(key)

    @rule(key=KEYS)
    def done(self, key: str) -> None:
        if key in self.busy:
            self.busy.remove(key)
            self.agenda.done(key, self.now)

    @invariant()
    def counts_agree(self) -> None:
        assert self.agenda.waiting == len(self.wanted)

    @invariant()
    def the_next_time_is_the_soonest_of_those_not_busy(self) -> None:
        times = [max(when, self.now) for key, when in self.wanted.items() if key not in self.busy]
        assert self.agenda.next_due(self.now) == min(times, default=None)


AgendaMachine.TestCase.settings = settings(stateful_step_count=40)
test_the_agenda_behaves_as_its_model = pytest.mark.timeout(120)(AgendaMachine.TestCase)


def test_keys_come_out_in_the_order_they_became_due() -> None:
    agenda: Agenda[str] = Agenda()
    agenda.add("late", 0, after_s=3)
    agenda.add("soon", 0, after_s=1)
    agenda.add("now", 0)

    assert [agenda.pop(5) for _ in range(4)] == ["now", "soon", "late", None]


def test_a_key_that_always_returns_does_not_starve_the_others() -> None:
    agenda: Agenda[str] = Agenda()
    for key in ("hot", "b", "c"):
        agenda.add(key, 0)
    order = []
    for now in range(4):
        taken = agenda.pop(now)
        assert taken is not None
        order.append(taken)
        agenda.add("hot", now)
        agenda.done(taken, now)

    assert order == ["hot", "b", "c", "hot"]


def test_a_spaced_key_waits_for_its_time_unless_it_is_urgent() -> None:
    agenda: Agenda[str] = Agenda(spacing_s=10)
    agenda.add("a", 0)
    assert agenda.pop(0) == "a"
    agenda.done("a", 1)

    agenda.add("a", 2)
    assert agenda.pop(9) is None
    assert agenda.next_due(9) == 10
    agenda.add("a", 9, urgent=True)
    assert agenda.pop(9) == "a"


def test_what_is_urgent_takes_turns_with_all_the_others() -> None:
    agenda: Agenda[str] = Agenda()
    for key in ("a", "b", "c", "d"):
        agenda.add(key, 0)
    assert agenda.pop(0) == "a"
    for key in ("c", "x", "a"):  # one in line, a new one, and one that is worked on
        agenda.add(key, 1, urgent=True)
    assert agenda.waiting == 5
    agenda.done("a", 1)

    assert [agenda.pop(1) for _ in range(6)] == ["c", "b", "x", "d", "a", None]


def test_spacing_remembers_no_key_for_longer_than_it_needs() -> None:
    agenda: Agenda[int] = Agenda(spacing_s=10)
    for now in range(1000):
        agenda.add(now, now)
        agenda.pop(now)
        agenda.done(now, now)

    assert len(agenda._spaced) <= 12  # noqa: SLF001  # a leak shows nowhere else


@pytest.mark.parametrize(
    ("failures", "chance", "delay_s"),
    [(1, 1, 1), (1, 0, 0.5), (3, 1, 4), (3, 0.5, 3), (6, 1, 20), (5000, 1, 20)],
)
def test_a_delay_doubles_up_to_the_longest_and_chance_takes_up_to_half(
    failures: int, chance: float, delay_s: float
) -> None:
    assert backoff(failures, 1, 20, chance) == delay_s


# With a clock and workers


def run(
    scenario: Callable[[KeyedQueue[str]], Awaitable[None]],
    *,
    first_delay_s: float = 0.1,
    longest_delay_s: float = 300,
) -> None:
    async def play() -> None:
        async with asyncio.timeout(20):
            await scenario(KeyedQueue(first_delay_s=first_delay_s, longest_delay_s=longest_delay_s))

    asyncio.run(play())


def test_no_key_is_worked_on_twice_at_once_and_none_is_lost() -> None:
    working: Counter[str] = Counter()
    done: Counter[str] = Counter()

    async def scenario(queue: KeyedQueue[str]) -> None:
        async def work() -> None:
            while (key := await queue.take()) is not None:
                working[key] += 1
                assert working[key] == 1
                await asyncio.sleep(0.001)
                working[key] -= 1
                done[key] += 1
                queue.done(key)

        workers = [asyncio.create_task(work()) for _ in range(8)]
        for number in range(400):
            queue.add(f"key-{number % 20}", after_s=0.002 * (number % 3))
            if number % 50 == 0:
                await asyncio.sleep(0.003)
        await polling.soon(lambda: not queue.depth and not working.total(), "all keys are done")
        queue.close()
        await asyncio.gather(*workers)

    run(scenario)

    assert len(done) == 20
    assert sum(done.values()) < 400, "duplicates were merged"


def test_a_key_added_during_its_work_is_worked_on_once_more() -> None:
    async def scenario(queue: KeyedQueue[str]) -> None:
        queue.add("a")
        assert await queue.take() == "a"
        queue.add("a")
        queue.add("a")
        assert queue.depth == 1
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert queue.depth == 0

    run(scenario)


def test_failures_of_one_key_delay_that_key_ever_longer_and_no_other() -> None:
    async def scenario(queue: KeyedQueue[str]) -> None:
        delays = []
        for _ in range(6):
            queue.add("bad")
            assert await queue.take() == "bad"
            delays.append(queue.retry("bad"))
            queue.done("bad")
        assert all(0.5 * 2**count <= delay <= 2**count for count, delay in enumerate(delays[:5]))
        assert delays[5] <= 20

        queue.add("good")
        assert await queue.take() == "good"
        queue.forget("bad")
        assert queue.retry("bad") <= 1

    run(scenario, first_delay_s=1, longest_delay_s=20)


def test_a_taker_that_is_cancelled_leaves_its_turn_to_another() -> None:
    async def scenario(queue: KeyedQueue[str]) -> None:
        first, second = (asyncio.create_task(queue.take()) for _ in range(2))
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()

        assert await second == "a"

    run(scenario)


def test_a_delayed_key_wakes_a_taker_that_already_waits() -> None:
    async def scenario(queue: KeyedQueue[str]) -> None:
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.add("a", after_s=0.05)

        assert await taker == "a"

    run(scenario)


def test_a_closed_queue_gives_out_nothing_and_lets_work_end() -> None:
    async def scenario(queue: KeyedQueue[str]) -> None:
        queue.add("a")
        assert await queue.take() == "a"
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.close()
        queue.add("b")

        assert await waiting is None
        assert await queue.take() is None
        queue.done("a")

    run(scenario)
