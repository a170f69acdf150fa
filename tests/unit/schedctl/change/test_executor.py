"""How plans are played: in order, and what happens after a failure at each place."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeAlias

import pytest

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
from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.runtimes.containers import Output, Stopped, Stream
from schedkit.runtimes.errors import ContainerRuntimeError, NoSuchContainerError, RefusedError, SilentError
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change.executor import Outcome, perform
from schedkit.schedctl.change.machine import Machine, NewContainer, Stops
from schedkit.schedctl.change.player import clear, play
from schedkit.schedctl.change.signals import ended_in_order, interrupted_once
from schedkit.schedctl.change.this_kernel import Kernel, ThisKernel
from schedkit.schedctl.problems.problem import Problem

PID = 7
OLD = Container("ab" * 32, "old", "podman", ContainerState.RUNNING, PID)
STEPS: tuple[Action, ...] = (Create(), Stop(OLD, is_awaited=False), AwaitFree(), Start(), Discard(OLD))
WAY_BACK = (AwaitFree(unless=OLD), Restart(OLD), AwaitReturn(OLD))
PLAN = Plan(STEPS, CLEAR, WAY_BACK)


class Runtime:
    """Writes down what it is asked for; `failing` is what it refuses. Its programs end at once."""

    def __init__(self, failing: str = "", error: BaseException | None = None) -> None:
        self.asked: list[str] = []
        self.state = ContainerState.EXITED
        self.raised: dict[str, signal.Signals] = {}  # by the call in which it comes
        self._failing, self._error = failing, error or RefusedError(f"no {failing}", "ask another")

    def _note(self, call: str) -> None:
        self.asked.append(call)
        if call in self.raised:
            signal.raise_signal(self.raised[call])
        if call == self._failing:
            raise self._error

    def create(self, spec: Spec) -> Container:
        self._note(f"create {spec.name}")
        return Container(f"{spec.name}-id", spec.name, "podman", ContainerState.CREATED)

    def start(self, container: str) -> None:
        self._note(f"start {container[:3]}")

    def stop(self, container: str, *, grace_s: float) -> Stopped:
        self._note(f"stop {container[:3]}")
        return Stopped(Exit(0), forced=grace_s < 0)

    def remove(self, container: str) -> None:
        self._note(f"remove {container[:3]}")

    def inspect(self, container: str) -> Container:
        return Container(container, "old", "podman", self.state, OLD.pid)

    def wait(self, container: str, *, timeout_s: float) -> Exit | None:  # noqa: ARG002 - as in the port
        return Exit(1)

    def logs(self, container: str, *, tail: int) -> Iterator[Output]:
        yield Output(Stream.STDERR, f"{tail} lines of {container}\n".encode())


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


def machine(root: Path, runtime: Runtime, kernel: Kernel | None = None) -> Machine:
    """One whose kernel runs its own scheduler."""
    (root / "sys/kernel/sched_ext").mkdir(parents=True)
    (root / "sys/kernel/sched_ext/state").write_text("disabled\n")
    (root / "proc").mkdir()
    new = NewContainer("podman", Spec(admission=UNSIGNED, name="new", image="image"), timeout_s=0)
    runtimes = {"podman": runtime}
    return Machine(kernel or ThisKernel(root), runtimes, lambda _: None, new=new, stops=Stops(at_once))  # type: ignore[arg-type]  # all that is asked for


def test_a_plan_is_played_in_its_order(tmp_path: Path) -> None:
    runtime = Runtime()

    play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked == ["create new", "stop aba", "start new", "remove aba"]


def test_what_fails_before_the_old_one_stops_leaves_it_alone(tmp_path: Path) -> None:
    runtime = Runtime("create new")

    with pytest.raises(RefusedError, match="no create new"):
        play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked == ["create new"]


def test_what_fails_afterwards_is_removed_and_the_old_one_started_again(tmp_path: Path) -> None:
    runtime = Runtime("start new")

    with pytest.raises(Problem) as met:
        play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked == ["create new", "stop aba", "start new", "stop new", "remove new", "start aba"]
    assert met.value.what == "no start new; and what ran before did not come back"
    assert "old was not attached: its program ended (exit code 1)" in met.value.why
    assert "schedctl status" in met.value.remedy


def test_an_old_one_that_does_not_stop_is_a_failure_of_its_own(tmp_path: Path) -> None:
    runtime = Runtime("stop aba")

    with pytest.raises(RefusedError, match="no stop aba"):
        play(Plan((Create(), Stop(OLD), Start()), CLEAR), machine(tmp_path, runtime))

    assert runtime.asked == ["create new", "stop aba", "stop new", "remove new"]


def test_an_old_one_that_could_not_be_stopped_is_not_waited_for_as_if_it_had_left(tmp_path: Path) -> None:
    runtime = Runtime("stop aba")
    runtime.state = ContainerState.RUNNING
    attached = Snapshot(KernelState(State.ENABLED, "fifo"), Proof(Hold.LINK, Process(PID)))
    played = machine(tmp_path, runtime, World(tmp_path, runtime, attached, attached))
    (tmp_path / "sys/kernel/sched_ext/state").write_text("enabled\n")
    (tmp_path / f"proc/{PID}").mkdir()
    (tmp_path / f"proc/{PID}/stat").write_text(f"{PID} (scx_fifo) S" + " 1" * 30)

    with pytest.raises(Problem, match="no stop aba; the kernel runs fifo again"):
        play(PLAN, played)

    assert runtime.asked == ["create new", "stop aba", "stop new", "remove new"]


def test_an_old_one_that_is_gone_already_has_stopped(tmp_path: Path) -> None:
    runtime = Runtime("stop aba", NoSuchContainerError("no container old", "look again"))

    play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked[-1] == "remove aba"


def test_an_interruption_goes_the_same_way_back(tmp_path: Path) -> None:
    runtime = Runtime("start new", KeyboardInterrupt())

    with pytest.raises(Problem, match="the switch was interrupted; and what ran before did not come back"):
        play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked[-1] == "start aba"


@pytest.fixture
def session() -> Iterator[None]:
    """A session whose loss is noticed, also where these tests run below nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_loss_of_a_session_goes_the_same_way_back_as_sigterm(
    tmp_path: Path, number: signal.Signals
) -> None:
    runtime = Runtime()
    runtime.raised = {"start new": number}

    with ended_in_order(), pytest.raises(Problem, match="the switch was interrupted"):
        play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked[-1] == "start aba"


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_interrupts_a_change_that_is_done_ends_and_undoes_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    runtime = Runtime()
    runtime.raised = {"remove old": number}
    plan = Plan((Create(), Start()), CLEAR, afterwards=(Discard(OLD._replace(id="old")),))

    with ended_in_order() as done:
        play(plan, machine(tmp_path, runtime), done=done)

    assert runtime.asked == ["create new", "start new", "remove old"]


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
@pytest.mark.parametrize("call", ["stop new", "remove new", "start aba"])
def test_a_second_interruption_does_not_end_the_way_back(
    tmp_path: Path, call: str, number: signal.Signals
) -> None:
    runtime = Runtime("start new", KeyboardInterrupt())
    runtime.raised = {call: number}

    with ended_in_order(), pytest.raises(Problem, match="the switch was interrupted"):
        play(PLAN, machine(tmp_path, runtime))

    assert runtime.asked[-3:] == ["stop new", "remove new", "start aba"]


def test_trouble_of_our_own_while_clearing_up_does_not_prevent_the_way_back(tmp_path: Path) -> None:
    runtime = Runtime("stop new", ValueError("an answer that nobody foresaw"))

    with pytest.raises(Problem, match="what ran before did not come back"):
        play(Plan((*STEPS[:-1], AwaitReturn(OLD)), CLEAR, WAY_BACK), machine(tmp_path, runtime))

    assert runtime.asked[-1] == "start aba"


LOADER = Process(PID)
FREE = Snapshot(KernelState(State.DISABLED, enable_seq=4))
BY_MAP = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.MAP, LOADER, map_id=3))
BY_LINK = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.LINK, LOADER, map_id=3))
BY_STRANGER = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.MAP, Process(99), map_id=3))
BY_NOBODY = Snapshot(KernelState(State.ENABLED, "fifo", 5), Proof(Hold.NOBODY, map_id=3))


class World(ThisKernel):
    """What the kernel runs until a container is removed, and from then on; BPF maps are for root alone."""

    def __init__(self, root: Path, runtime: Runtime, until: Snapshot, then: Snapshot) -> None:
        super().__init__(root)
        self.ejections: list[str] = []
        self.refusal: Problem | None = None
        self.turn = "remove new"
        self._runtime, self._until, self._then = runtime, until, then

    def observe(self, *, is_thorough: bool = False) -> Snapshot:  # noqa: ARG002 - as in the port
        return self._then if self.turn in self._runtime.asked else self._until

    def eject(self, *, is_blind: bool) -> None:
        self.ejections.append("by force" if is_blind else "without force")
        if self.refusal:
            raise self.refusal


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    def begin(runtime: Runtime, until: Snapshot, then: Snapshot) -> tuple[Machine, World]:
        world = World(tmp_path, runtime, until, then)
        return machine(tmp_path, runtime, world), world

    return begin


Begin: TypeAlias = Callable[[Runtime, Snapshot, Snapshot], tuple[Machine, World]]


@pytest.mark.parametrize(
    ("until", "then", "ejected"),
    [
        pytest.param(BY_MAP, BY_NOBODY, ["without force"], id="the kernel keeps it"),
        pytest.param(BY_MAP, FREE, [], id="its program takes it along"),
        pytest.param(BY_LINK, FREE, [], id="it ends with its process"),
        pytest.param(BY_STRANGER, BY_STRANGER, [], id="it is a stranger's"),
    ],
)
def test_what_outlives_a_failed_start_is_ejected(
    begin: Begin, until: Snapshot, then: Snapshot, ejected: list[str]
) -> None:
    played, world = begin(Runtime("start new"), until, then)

    with pytest.raises(RefusedError, match="no start new"):
        play(Plan((Create(), Start()), CLEAR), played)

    assert world.ejections == ejected


def test_what_was_proved_ours_while_its_program_lived_is_ejected_after_its_end(
    begin: Begin, tmp_path: Path
) -> None:
    played, world = begin(Runtime("remove aba"), BY_MAP, BY_NOBODY)
    world.turn = "remove aba"
    (tmp_path / f"proc/{PID}").mkdir()
    (tmp_path / f"proc/{PID}/stat").write_text(f"{PID} (loader) S{' 1' * 30}")

    with pytest.raises(RefusedError, match="no remove aba"):
        play(Plan((Create(), Start(), AwaitAttachment(), Discard(OLD)), CLEAR), played)

    assert world.ejections == ["without force"]


def test_what_cannot_be_removed_is_ejected_all_the_same(begin: Begin) -> None:
    played, world = begin(Runtime("remove new"), BY_MAP, BY_NOBODY)

    with pytest.raises(Problem, match="new may still run, and be attached"):
        play(Plan((Create(), Start(), AwaitAttachment()), CLEAR), played)

    assert world.ejections == ["without force"]


def test_what_a_stop_that_fails_leaves_to_the_removal_is_ejected_as_well(begin: Begin) -> None:
    runtime = Runtime("stop new")
    runtime.raised = {"start new": signal.SIGINT}
    played, world = begin(runtime, BY_MAP, BY_NOBODY)

    with pytest.raises(KeyboardInterrupt):
        play(Plan((Create(), Start()), CLEAR), played)

    assert (runtime.asked[-1], world.ejections) == ("remove new", ["without force"])


@pytest.mark.parametrize(
    "seq",
    [
        pytest.param(7, id="others came and went"),
        pytest.param(5, id="it came while ours was started"),
        pytest.param(4, id="it was there before"),
        pytest.param(None, id="the kernel does not count"),
    ],
)
def test_what_nobody_holds_and_may_be_a_strangers_is_left_and_named(begin: Begin, seq: int | None) -> None:
    theirs = BY_NOBODY._replace(kernel=KernelState(State.ENABLED, "theirs", seq))
    played, world = begin(Runtime("start new"), theirs, theirs)

    with pytest.raises(Problem, match=r"no start new; .* the kernel still runs theirs") as met:
        play(Plan((Create(), Start()), CLEAR), played)

    assert (world.ejections, met.value.remedy) == ([], "eject it: `schedctl reset`")


def test_what_took_the_place_of_ours_and_nobody_holds_is_left_and_named(begin: Begin) -> None:
    theirs = BY_NOBODY._replace(kernel=KernelState(State.ENABLED, "theirs", 7))
    played, world = begin(Runtime("start new"), BY_MAP, theirs)

    with pytest.raises(Problem, match=r"no start new; .* the kernel still runs theirs"):
        play(Plan((Create(), Start()), CLEAR), played)

    assert world.ejections == []


def test_an_ejection_that_fails_is_told_together_with_what_led_to_it(begin: Begin) -> None:
    played, world = begin(Runtime("start new"), BY_MAP, BY_NOBODY)
    world.refusal = Problem("the scheduler was not ejected", why="a file is read-only", remedy="run as root")

    with pytest.raises(
        Problem, match=r"no start new; .* still runs fifo; the scheduler was not ejected"
    ) as met:
        play(Plan((Create(), Start()), CLEAR), played)

    assert met.value.why.endswith("a file is read-only")
    assert met.value.remedy == "run as root"


def test_a_failed_start_that_could_not_be_removed_is_told_to_run_perhaps(begin: Begin) -> None:
    played, _ = begin(Runtime("remove new"), BY_LINK, BY_LINK)

    with pytest.raises(Problem, match=r"its program ended .*; new may still run, and be attached") as met:
        play(Plan((Create(), Start(), AwaitAttachment()), CLEAR), played)

    assert met.value.why.endswith("no remove new; ask another")


def test_what_a_plan_has_left_to_others_is_not_ejected(begin: Begin) -> None:
    played, world = begin(Runtime(), BY_NOBODY, BY_NOBODY)
    outcome = play(Plan((Create(), Start()), CLEAR), played)

    remains = clear(CLEAR, played, outcome).remains

    assert world.ejections == []
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ContainerRuntimeError
) -> None:
    def gone(container: str, *, timeout_s: float) -> Exit | None:
        raise error

    runtime = Runtime()
    monkeypatch.setattr(runtime, "wait", gone)
    played = machine(tmp_path, runtime)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text('3,2,1,-;sched_ext: BPF scheduler "new" disabled (runtime error)\n')

    with pytest.raises(Problem, match="its program ended") as met:
        perform(AwaitAttachment(), played, Outcome())

    assert "the kernel says: new: runtime error" in met.value.why
