"""How plans are played: in order, and what happens after a failure at each place."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from rig.guest.fakekernel import FakeKernel
from rig.runtimes.fakeruntime import FakeRuntime, Program
from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.actions import (
    CLEAR,
    Action,
    AwaitAttachment,
    AwaitFree,
    AwaitReturn,
    Create,
    Discard,
    Plan,
    Restart,
    Start,
    Stop,
)
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.processes import Hold
from schedkit.model.kernel.log import ExitKind
from schedkit.runtimes.errors import ContainerRuntimeError, NoSuchContainerError, RefusedError, SilentError
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change import machine
from schedkit.schedctl.change.machine import Machine, NewContainer, Stops
from schedkit.schedctl.change.player import clear, play
from schedkit.schedctl.change.signals import ended_in_order, interrupted_once
from schedkit.schedctl.problems.problem import Problem

PID, STRANGER = 7, 99
OLD = Container("ab" * 32, "old", "podman", ContainerState.RUNNING, PID)
STEPS: tuple[Action, ...] = (Create(), Stop(OLD, is_awaited=False), AwaitFree(), Start(), Discard(OLD))
WAY_BACK = (AwaitFree(unless=OLD), Restart(OLD), AwaitReturn(OLD))
PLAN = Plan(STEPS, CLEAR, WAY_BACK)
LAST_STEP_FAILS = Plan((Create(), Start(), Discard(OLD)), CLEAR)


def at_once(stop: Callable[[], None]) -> Future[None]:
    """What is done beside everything else is done before it."""
    done: Future[None] = Future()
    try:
        stop()
    except Exception as error:  # noqa: BLE001 - whoever asks for the result meets it
        done.set_exception(error)
    else:
        done.set_result(None)
    return done


class Host:
    """A machine on which `old` runs, and `new` is asked for; what is `failing` is refused.

    The program of `old` ends at once when it is started again. That of `new` does what `program` says.
    """

    def __init__(self, *failing: str, error: BaseException | None = None) -> None:
        self.kernel = FakeKernel()
        self.program = Program()
        self.runtime = FakeRuntime(lambda _: self.program, began=self.kernel.began, ended=self.kernel.ended)
        self.runtime.failing |= {each: error or RefusedError(f"no {each}", "ask another") for each in failing}
        self.kernel.began(self.runtime.have(OLD, Program(code=1)))
        new = NewContainer("podman", Spec(admission=UNSIGNED, name="new", image="image"), timeout_s=0)
        runtimes = {"podman": self.runtime}
        self.machine = Machine(self.kernel, runtimes, lambda _: None, new=new, stops=Stops(at_once))

    def attaches(self, hold: Hold, ops: str = "fifo") -> None:
        """The program of `new` attaches such a scheduler when it begins."""
        self.program = Program(begins=lambda one: self.kernel.attach(one.pid or 0, ops, hold))

    def orphan(self, ops: str = "theirs") -> None:
        """The kernel runs a stranger's scheduler whose loader is gone."""
        self.kernel.spawn(STRANGER, "loader")
        self.kernel.attach(STRANGER, ops, Hold.MAP)
        self.kernel.end(STRANGER)

    @property
    def ejections(self) -> int:
        """How often something was ejected."""
        return self.kernel.ejections


def test_a_plan_is_played_in_its_order() -> None:
    host = Host()

    play(PLAN, host.machine)

    assert host.runtime.asked == ["create new", "stop old", "start new", "remove old"]


def test_what_fails_before_the_old_one_stops_leaves_it_alone() -> None:
    host = Host("create new")

    with pytest.raises(RefusedError, match="no create new"):
        play(PLAN, host.machine)

    assert host.runtime.asked == ["create new"]


def test_what_fails_afterwards_is_removed_and_the_old_one_started_again() -> None:
    host = Host("start new")

    with pytest.raises(Problem) as met:
        play(PLAN, host.machine)

    assert host.runtime.asked == [
        "create new",
        "stop old",
        "start new",
        "stop new",
        "remove new",
        "start old",
    ]
    assert met.value.what == "no start new; and the previous scheduler did not come back"
    assert "old was not attached: its program ended (exit code 1)" in met.value.why
    assert "schedctl status" in met.value.remedy


def test_an_old_one_that_does_not_stop_is_a_failure_of_its_own() -> None:
    host = Host("stop old")

    with pytest.raises(RefusedError, match="no stop old"):
        play(Plan((Create(), Stop(OLD), Start()), CLEAR), host.machine)

    assert host.runtime.asked == ["create new", "stop old", "stop new", "remove new"]


def test_an_old_one_that_could_not_be_stopped_is_not_waited_for_as_if_it_had_left() -> None:
    host = Host("stop old")
    host.kernel.attach(PID, "fifo")

    with pytest.raises(Problem, match="no stop old; the kernel runs fifo again"):
        play(PLAN, host.machine)

    assert host.runtime.asked == ["create new", "stop old", "stop new", "remove new"]


def test_an_old_one_that_is_gone_already_has_stopped() -> None:
    host = Host("stop old", error=NoSuchContainerError("no container old", "look again"))

    play(PLAN, host.machine)

    assert host.runtime.asked[-1] == "remove old"


def test_what_cannot_be_removed_when_all_is_done_is_told_and_undoes_nothing() -> None:
    host = Host("remove old")

    outcome = play(Plan((Create(), Start()), CLEAR, WAY_BACK, afterwards=(Discard(OLD),)), host.machine)

    assert outcome.left == ("container old was stopped, but is still there: no remove old; ask another",)
    assert host.runtime.asked == ["create new", "start new", "remove old"]


def test_an_interruption_goes_the_same_way_back() -> None:
    host = Host("start new", error=KeyboardInterrupt())

    with pytest.raises(Problem, match="interrupted; and the previous scheduler did not come back"):
        play(PLAN, host.machine)

    assert host.runtime.asked[-1] == "start old"


def test_a_stop_that_goes_on_when_waiting_for_it_is_interrupted_is_not_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    stops = Stops(lambda _: Future())
    stops.begin(lambda: None)
    monkeypatch.setattr(machine, "wait", interrupt)

    with pytest.raises(KeyboardInterrupt):
        stops.join()

    assert not stops.are_over


def test_what_the_kernel_keeps_of_an_old_one_is_ejected_on_the_way_back_as_well() -> None:
    """The switch was interrupted between the end of the old program and the ejection of its scheduler."""
    host = Host()
    host.kernel.attach(PID, "fifo", Hold.MAP)
    seen = host.kernel.observe()._replace(containers=(OLD,))
    host.runtime.have(OLD, Program(begins=lambda one: host.kernel.attach(one.pid or 0, "fifo", Hold.MAP)))
    until_free = AwaitFree(unless=OLD, ended=seen)
    host.runtime.failing["start new"] = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt):
        play(
            Plan((Create(), Stop(OLD), Start()), CLEAR, (until_free, Restart(OLD), AwaitReturn(OLD))),
            host.machine,
        )

    assert host.runtime.asked[-1] == "start old"
    assert host.kernel.state().ops == "fifo"


def test_everything_that_cannot_be_removed_is_told() -> None:
    host = Host("remove old", "remove older")
    older = OLD._replace(id="cd" * 32, name="older")
    host.runtime.have(older, Program())

    outcome = play(Plan((Create(), Start()), afterwards=(Discard(OLD), Discard(older))), host.machine)

    assert [each.split(" was ")[0] for each in outcome.left] == ["container old", "container older"]


@pytest.fixture
def session() -> Iterator[None]:
    """A session whose loss is noticed, also where these tests run below nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_loss_of_a_session_goes_the_same_way_back_as_sigterm(number: signal.Signals) -> None:
    host = Host()
    host.runtime.interrupted = {"start new": number}

    with ended_in_order(), pytest.raises(Problem, match="the switch was interrupted"):
        play(PLAN, host.machine)

    assert host.runtime.asked[-1] == "start old"


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_interrupts_a_change_that_is_done_ends_and_undoes_nothing(number: signal.Signals) -> None:
    host = Host()
    host.runtime.interrupted = {"remove old": number}
    plan = Plan((Create(), Start()), CLEAR, afterwards=(Discard(OLD),))

    with ended_in_order() as done:
        play(plan, host.machine, done=done)

    assert host.runtime.asked == ["create new", "start new", "remove old"]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_followed_after_a_change_can_be_interrupted_again(number: signal.Signals) -> None:
    with ended_in_order() as done:
        done()
        with pytest.raises((KeyboardInterrupt, SystemExit)), ended_in_order():
            signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_interrupted_once_finishes_what_is_done_about_it(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    with interrupted_once():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)
        assert signal.getsignal(number) is not signal.SIG_IGN, "a program that is started would inherit it"

    assert signal.getsignal(number) is before


def test_what_nohup_ignores_is_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("call", ["stop new", "remove new", "start old"])
def test_a_second_interruption_does_not_end_the_way_back(call: str, number: signal.Signals) -> None:
    host = Host("start new", error=KeyboardInterrupt())
    host.runtime.interrupted = {call: number}

    with ended_in_order(), pytest.raises(Problem, match="the switch was interrupted"):
        play(PLAN, host.machine)

    assert host.runtime.asked[-3:] == ["stop new", "remove new", "start old"]


def test_trouble_of_our_own_while_clearing_up_does_not_prevent_the_way_back() -> None:
    host = Host("stop new", error=ValueError("an answer that nobody foresaw"))

    with pytest.raises(Problem, match="the previous scheduler did not come back"):
        play(Plan((*STEPS[:-1], AwaitReturn(OLD)), CLEAR, WAY_BACK), host.machine)

    assert host.runtime.asked[-1] == "start old"


@pytest.mark.parametrize(
    ("hold", "ejections"),
    [
        pytest.param(Hold.MAP, 1, id="the kernel keeps it"),
        pytest.param(Hold.LINK, 0, id="it ends with its process"),
    ],
)
def test_what_outlives_a_failed_start_is_ejected(hold: Hold, ejections: int) -> None:
    host = Host("remove old")
    host.attaches(hold)

    with pytest.raises(RefusedError, match="no remove old"):
        play(LAST_STEP_FAILS, host.machine)

    assert (host.ejections, host.kernel.state().ops) == (ejections, None)


def test_what_its_program_takes_along_is_not_ejected() -> None:
    host = Host("remove old")
    host.attaches(Hold.MAP)
    host.runtime.hooks["stop new"] = host.kernel.let_go

    with pytest.raises(RefusedError, match="no remove old"):
        play(LAST_STEP_FAILS, host.machine)

    assert (host.ejections, host.kernel.state().ops) == (0, None)


def test_a_strangers_scheduler_is_not_ejected_after_a_failed_start() -> None:
    host = Host("remove old")
    host.kernel.spawn(STRANGER, "stranger")
    host.kernel.attach(STRANGER, "theirs", Hold.MAP)

    with pytest.raises(RefusedError, match="no remove old"):
        play(LAST_STEP_FAILS, host.machine)

    assert (host.ejections, host.kernel.state().ops) == (0, "theirs")


def test_what_was_proved_ours_while_its_program_lived_is_ejected_after_its_end() -> None:
    host = Host("remove old")
    host.attaches(Hold.MAP)
    host.runtime.hooks["remove old"] = lambda: host.runtime.end("new", 1)

    with pytest.raises(RefusedError, match="no remove old"):
        play(Plan((Create(), Start(), AwaitAttachment(), Discard(OLD)), CLEAR), host.machine)

    assert host.ejections == 1


def test_what_cannot_be_removed_is_ejected_all_the_same() -> None:
    host = Host("remove old", "remove new")
    host.attaches(Hold.MAP)

    with pytest.raises(Problem, match="new may still run and be attached"):
        play(LAST_STEP_FAILS, host.machine)

    assert host.ejections == 1


def test_what_a_stop_that_fails_leaves_to_the_removal_is_ejected_as_well() -> None:
    host = Host("stop new")
    host.attaches(Hold.MAP)
    host.runtime.interrupted = {"remove old": signal.SIGINT}

    with pytest.raises(KeyboardInterrupt):
        play(LAST_STEP_FAILS, host.machine)

    assert (host.runtime.asked[-1], host.ejections) == ("remove new", 1)


@pytest.mark.parametrize("moment", ["create new", "start new"], ids=["before", "while ours was started"])
def test_what_nobody_holds_and_may_be_a_strangers_is_left_and_named(moment: str) -> None:
    host = Host("start new")
    host.runtime.hooks[moment] = host.orphan

    with pytest.raises(Problem, match=r"no start new; .* the kernel still runs theirs") as met:
        play(Plan((Create(), Start()), CLEAR), host.machine)

    assert (host.ejections, met.value.remedy) == (0, "eject it: `schedctl reset`")


def test_what_took_the_place_of_ours_and_nobody_holds_is_left_and_named() -> None:
    host = Host("remove old")
    host.attaches(Hold.MAP)

    def replace() -> None:
        host.kernel.let_go()
        host.orphan()

    host.runtime.hooks["stop new"] = replace

    with pytest.raises(Problem, match=r"no remove old; .* the kernel still runs theirs"):
        play(LAST_STEP_FAILS, host.machine)

    assert host.ejections == 0


def test_an_ejection_that_fails_is_told_together_with_what_led_to_it() -> None:
    host = Host("remove old")
    host.attaches(Hold.MAP)
    host.kernel.refusal = Problem(
        "the scheduler was not ejected", why="a file is read-only", remedy="run as root"
    )

    with pytest.raises(
        Problem, match=r"no remove old; .* still runs fifo; the scheduler was not ejected"
    ) as met:
        play(LAST_STEP_FAILS, host.machine)

    assert met.value.why.endswith("a file is read-only")
    assert met.value.remedy == "run as root"


def test_a_failed_start_that_could_not_be_removed_is_told_to_run_perhaps() -> None:
    host = Host("remove new")
    host.program = Program(code=1)

    with pytest.raises(Problem, match=r"its program ended .*; new may still run and be attached") as met:
        play(Plan((Create(), Start(), AwaitAttachment()), CLEAR), host.machine)

    assert met.value.why.endswith("no remove new; ask another")


def test_what_a_plan_has_left_to_others_is_not_ejected() -> None:
    host = Host()
    host.orphan("fifo")
    outcome = play(Plan((Create(), Start()), CLEAR), host.machine)

    remains = clear(CLEAR, host.machine, outcome).remains

    assert host.ejections == 0
    assert remains
    assert "still runs fifo" in remains.what


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(NoSuchContainerError("no container new", "look again"), id="somebody removed it"),
        pytest.param(SilentError("Podman does not answer", "look after it"), id="its runtime is in trouble"),
    ],
)
def test_a_refusal_is_told_in_the_kernels_words_whatever_became_of_the_container(
    error: ContainerRuntimeError,
) -> None:
    host = Host("wait", error=error)

    def stall(one: Container) -> None:
        host.kernel.attach(one.pid or 0, "new")
        host.kernel.throw_out(ExitKind.ERROR_STALL)

    host.program = Program(begins=stall, code=1)

    with pytest.raises(Problem, match="its program ended") as met:
        play(Plan((Create(), Start(), AwaitAttachment()), CLEAR), host.machine)

    assert "the kernel says: new: runnable task stall" in met.value.why
