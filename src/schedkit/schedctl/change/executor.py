"""What plans of `model.host` do to this machine: one case for each action."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, assert_never

from schedkit.kernel import kmsg, observation, ownership, processes, sysfs
from schedkit.kernel.processes import Life
from schedkit.model.host.actions import (
    Action,
    AwaitAttachment,
    AwaitFree,
    AwaitRelease,
    AwaitReturn,
    Create,
    Discard,
    Eject,
    EndProcess,
    Known,
    Listen,
    Refused,
    Restart,
    Start,
    Stop,
    Unregister,
)
from schedkit.model.host.attachment import (
    Course,
    FailureFacts,
    explain_failure,
    has_stayed,
    is_free,
    is_released,
    judge_start,
    left_in_kernel,
    outlives,
)
from schedkit.model.host.owners import OurContainer, OwnerKind, attribute
from schedkit.model.host.ownership import leftovers
from schedkit.model.host.processes import Hold
from schedkit.model.host.status import HostObservation
from schedkit.model.kernel.log import LogReading, gap_us, last_words, unwanted_exits
from schedkit.model.kernel.sched_ext import State as KernelState
from schedkit.runtimes.containers import Container, Exit, Output, State
from schedkit.runtimes.errors import ContainerRuntimeError, NoSuchContainerError
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change import eject, snapshot
from schedkit.schedctl.change.signals import undisturbed
from schedkit.schedctl.change.why_detached import written
from schedkit.schedctl.problems.problem import Problem, explain

_RELEASE_TIMEOUT_S = 30.0
_RETURN_TIMEOUT_S = 30.0  # at least, however little time the new one was given
_POLL_S, _SHORT_POLL_S = 0.05, 0.01
_CLEAR_UP = "`schedctl status` says more; `schedctl reset` clears up"
_EXIT_TIMEOUT_S = 30.0  # for a runtime to notice that a program has ended
Decision = TypeVar("Decision")


class Gap(NamedTuple):
    """How long the kernel ran its own scheduler between two others."""

    seconds: float
    source: Literal["kernel-log", "observation"]  # observed, it begins when the old one was told to stop


@dataclass(slots=True)
class Stage:
    """Where a plan is played: this machine, the container that is asked for, and what came of it."""

    root: Path
    runtimes: Mapping[str, Runtime]
    driver: str
    tell: Callable[[str], None]
    spec: Spec | None = None
    timeout_s: float = 30.0
    grace_s: float = 10.0
    stdin: int | None = None  # the descriptor of what it reads; None: it has no input
    created: Container | None = None  # as it was then; names may be given again, and ids are not
    outputs: Iterable[Output] = ()
    attached: HostObservation | None = None
    attached_at: float = 0.0
    stopped_at: float | None = None  # when something was told to end; None: nothing was
    log_seq: int = -1  # of the kernel's log before anything was done
    # the last look that proved what was created to be attached without a link: the kernel would keep it
    proved: HostObservation | None = None
    remains: Problem | None = None  # what could not be cleared up
    pool: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor)
    stops: list[Future[None]] = field(default_factory=list)  # that go on

    def play(
        self,
        plan: Iterable[Action],
        *,
        way_back: Iterable[Action] = (),
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Do all of it; after a failure the container that was asked for is gone again.

        `way_back` is played after a failure, too, once something was told to stop. `done` is called when all
        is; what interrupts us before leads to a failure, and what does so later undoes nothing.
        """
        self.log_seq = kmsg.read(self.root).last_seq
        try:
            for action in plan:
                self.perform(action)
            done()
        except BaseException as failure:
            with undisturbed():
                self._undo(tuple(way_back), failure)
            raise

    def _undo(self, way_back: tuple[Action, ...], failure: BaseException) -> None:
        try:
            if self.created:
                self.clear()
        finally:
            told = self._told(failure)
            if way_back and self.stopped_at is not None:
                self._return(way_back, told, failure)
        if told and self.remains:
            raise told from failure

    def _told(self, failure: BaseException) -> Problem | None:
        """What to say about the failure, and about what is left of it; None: it speaks for itself."""
        told = explain(failure) if isinstance(failure, Exception) else None
        if told and self.remains:
            return and_remains(told, self.remains)
        if self.remains:
            self.tell(self.remains.as_text())
        return told

    def _return(self, way_back: tuple[Action, ...], told: Problem | None, failure: BaseException) -> None:
        """Go back to what ran before; what is told about the failure says how that went."""
        self.tell("going back to what ran before")
        try:
            for action in way_back:
                self.perform(action)
        except Exception as error:
            interrupted = Problem("the switch was interrupted")
            raise without_return(told or interrupted, explain(error), self.remains) from error
        back = f"the kernel runs {self.attached.kernel.ops if self.attached else ''} again"
        if told:
            raise Problem(
                f"{told.what}; {back}{self._after()}", why=told.why, remedy=told.remedy
            ) from failure
        self.tell(back)

    def _after(self) -> str:
        gap = self.gap()
        return f", after {gap.seconds:.2f} s" if gap else ""

    def perform(self, action: Action) -> None:  # noqa: C901, PLR0912 - one case for each action
        """Do one thing."""
        match action:
            case Discard(container):
                self._await_stops()
                self.runtimes[container.driver].remove(container.id)
            case Create():
                self.created = self._runtime.create(self._spec)
            case Listen():
                self.outputs = self._runtime.attach(self._spec.name, stdin=self.stdin)
            case Start():
                self.tell(f"starting {self._spec.name}")
                self._runtime.start(self._spec.name)
            case AwaitAttachment():
                self._await_attachment(self._runtime, self._spec.name, self.timeout_s)
            case Stop(container, is_awaited):
                self.tell(f"stopping {container.name}")
                self._stop(container, is_awaited=is_awaited)
            case AwaitRelease(container):
                self._await_release(container)
            case EndProcess(process):
                self.tell(f"ending process {process.pid} ({process.command})")
                self.stopped_at = time.monotonic()
                eject.end_process(self.root, process, grace_s=self.grace_s)
            case Eject(is_blind):
                self.tell("ejecting the scheduler")
                eject.eject(self.root, is_blind=is_blind)
            case Unregister(scheduler):
                self.tell(f"removing what {scheduler.ops} has left in the kernel")
                eject.unregister(self.root, scheduler)
            case AwaitFree(ignored, unless):
                self._await_free(ignored, unless)
            case Restart(container):
                self._restart(container)
            case AwaitReturn(container):
                patience_s = max(self.timeout_s, _RETURN_TIMEOUT_S)
                self._await_attachment(self.runtimes[container.driver], container.id, patience_s)
            case _:
                assert_never(action)

    def clear(self) -> Exit | None:
        """Remove what was created, also from the kernel, and say how it ended if that is known.

        `remains` says what is left all the same.
        """
        ended, kept = None, self._kept() or self.proved
        with suppress(ContainerRuntimeError):  # its removal ends it as well
            ended = self._runtime.stop(self.id, grace_s=self.grace_s).exit
        # in this order: only what no process holds can be ejected
        removal, left = self._remove(), self._eject(kept)
        self.remains = and_remains(removal, left) if removal and left else removal or left
        return ended

    def _remove(self) -> Problem | None:
        try:
            self._runtime.remove(self.id)
        except ContainerRuntimeError as error:
            return Problem(f"{self.name} may still run, and be attached", why=str(error), remedy=_CLEAR_UP)
        return None

    def _eject(self, kept: HostObservation | None) -> Problem | None:
        """Take out of the kernel what is proved to be of what was created; say what else nobody holds."""
        seen = snapshot.settled(self.root)
        left = left_in_kernel(seen)
        if left is None:
            return None
        if kept is None or not outlives(seen, kept):
            return problem(left)
        try:
            eject.eject(self.root, is_blind=False)
        except Problem as error:
            return and_remains(problem(left), error)
        return None

    def _kept(self) -> HostObservation | None:
        """A look that proves that the kernel runs the scheduler of what was created, and would keep it."""
        seen = observation.observe(self.root)
        if seen.proof.hold is not Hold.MAP:  # it ends with its process, or is not proved to be ours
            return None
        try:
            found = self.find()
        except ContainerRuntimeError:
            return None
        return seen if found and _is_kept(seen, _ours(found)) else None

    def find(self) -> Container | None:
        """What was created, as it is now; None if it is gone, whatever has its name since."""
        try:
            found = self._runtime.inspect(self.id)
        except NoSuchContainerError:
            return None
        # containerd's ids are names
        return found if self.created and found.created_at == self.created.created_at else None

    @property
    def id(self) -> str:
        """Of the container that was created."""
        if self.created is None:
            raise TypeError("the plan has not created a container yet")
        return self.created.id

    @property
    def name(self) -> str:
        """Of the container that is asked for."""
        return self._spec.name

    @property
    def _runtime(self) -> Runtime:
        return self.runtimes[self.driver]

    @property
    def _spec(self) -> Spec:
        if self.spec is None:
            raise TypeError("the plan creates a container, and none was asked for")
        return self.spec

    def _stop(self, container: Known, *, is_awaited: bool) -> None:
        self.stopped_at = time.monotonic()
        self.stops.append(self.pool.submit(self._end, container))
        if is_awaited:
            self._await_stops()

    def _end(self, container: Known) -> None:
        with suppress(NoSuchContainerError):  # somebody was faster, and it has ended all the same
            self.runtimes[container.driver].stop(container.id, grace_s=self.grace_s)

    def _await_stops(self) -> None:
        """Until what was told to stop has; raises what hindered it."""
        while self.stops:
            self.stops.pop().result()

    def _restart(self, container: Known) -> None:
        self._await_stops()
        runtime = self.runtimes[container.driver]
        if runtime.inspect(container.id).state is not State.RUNNING:
            self.tell(f"starting {container.name} again")
            runtime.start(container.id)

    def _await_attachment(self, runtime: Runtime, word: str, timeout_s: float) -> None:
        self.tell("waiting for the kernel")
        found = runtime.inspect(word)
        container, life = _ours(found), processes.life(self.root, found.pid or 0)
        deadline = time.monotonic() + timeout_s
        course, seen = self._look(container, life, deadline)
        while course is Course.WAITING:
            time.sleep(_POLL_S)
            course, seen = self._look(container, life, deadline)
        if course is not Course.ATTACHED:
            evidence = self._evidence(runtime, found.name, course, seen)
            raise problem(explain_failure(found.name, course, evidence, timeout_s=timeout_s))
        self.attached, self.attached_at = seen, time.monotonic()

    def _look(self, container: OurContainer, life: Life, deadline: float) -> tuple[Course, HostObservation]:
        # in this order: what lives now may have attached something by the time the kernel is asked
        is_alive = life.is_going_on
        seen = observation.observe(self.root)
        is_over = time.monotonic() >= deadline
        # the number of one that is gone may be a stranger's by now
        one = container if is_alive else container._replace(pid=0)
        if _is_kept(seen, one):
            self.proved = seen
        return judge_start(seen, one, is_alive=is_alive, is_over=is_over), seen

    def _evidence(self, runtime: Runtime, name: str, course: Course, seen: HostObservation) -> FailureFacts:
        ended = None
        # neither who removed it nor a runtime in trouble takes the kernel's words along
        with suppress(ContainerRuntimeError):
            ended = runtime.wait(name, timeout_s=_EXIT_TIMEOUT_S) if course is Course.ENDED else None
        # what was stopped for this one has left its end in the log, too
        log = unwanted_exits(kmsg.read(self.root, after_seq=self.log_seq))
        return FailureFacts(
            str(ended or ""), _kernel_words(log), written(runtime, name), attribute(seen.proof, [])
        )

    def _await_release(self, container: Known) -> None:
        def is_reached() -> bool:
            seen = observation.observe(self.root)
            return is_released(seen, ownership.gather(self.root).processes, container.ours)

        self._await(
            is_reached, f"{container.name} was stopped, but the kernel has not let go of its scheduler"
        )

    def _await_free(self, ignored: tuple[int, ...], unless: Known | None) -> None:
        def is_reached() -> bool:
            kernel = sysfs.read(self.root)
            if kernel.state is not KernelState.DISABLED:  # processes need not be looked at: that takes long
                # what is still being stopped is attached for a moment only
                return bool(unless and not self.stops and has_stayed(observation.observe(self.root), unless))
            return is_free(kernel, leftovers(kernel, ownership.gather(self.root)), ignored)

        self._await(is_reached, "the kernel is not free for another scheduler")

    def _await(self, is_reached: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + self.grace_s + _RELEASE_TIMEOUT_S
        while not is_reached():
            if all(each.done() for each in self.stops):
                self._await_stops()
            if time.monotonic() > deadline:
                raise Problem(otherwise, why=self._holders(), remedy=_CLEAR_UP)
            time.sleep(_SHORT_POLL_S)

    def _holders(self) -> str:
        kernel = sysfs.read(self.root)
        left = leftovers(kernel, ownership.gather(self.root)).processes
        named = "".join(f"; process {each.pid} ({each.command}) holds an old one" for each in left)
        return f"it says `{kernel.state}`{named}"

    def gap(self) -> Gap | None:
        """How long the kernel ran its own scheduler in between; None if it did not, as far as was seen."""
        if self.attached is None or self.stopped_at is None:
            return None
        logged = gap_us(kmsg.read(self.root, after_seq=self.log_seq), self.attached.kernel.ops or "")
        if logged is not None:
            return Gap(logged / 1e6, "kernel-log")
        return Gap(self.attached_at - self.stopped_at, "observation")


def _ours(found: Container) -> OurContainer:
    return OurContainer(found.id, found.name, found.pid or 0)


def decided(decision: Decision | Refused) -> Decision:
    """The decision; a refusal is told as a problem."""
    if isinstance(decision, Refused):
        raise problem(decision)
    return decision


def problem(refused: Refused) -> Problem:
    """A refusal, as users are told problems."""
    return Problem(refused.what, why=refused.why, remedy=refused.remedy)


def _is_kept(seen: HostObservation, container: OurContainer) -> bool:
    """Whether the kernel runs the container's scheduler, and would do so without its program."""
    return seen.proof.hold is Hold.MAP and attribute(seen.proof, [container]).kind is OwnerKind.MANAGED


def and_remains(first: Problem, second: Problem) -> Problem:
    """Both, and what to do about the second: it is what somebody finds now."""
    why = "; ".join(filter(None, (first.why, second.why)))
    return Problem(f"{first.what}; {second.what}", why=why, remedy=second.remedy)


def without_return(first: Problem, second: Problem | None, remains: Problem | None = None) -> Problem:
    """What to say when a switch failed, and the way back as well."""
    also = (
        ": ".join(filter(None, (second.what, second.why))) if second else "of something that nobody foresaw"
    )
    return Problem(
        f"{first.what}; and what ran before did not come back",
        why="; ".join(filter(None, (first.why, f"it did not come back because {also}"))),
        remedy=remains.remedy
        if remains
        else "`schedctl status` says what is there; `schedctl run NAME` starts a scheduler anew",
    )


def _kernel_words(log: LogReading) -> str:
    return last_words(log) or " / ".join(remark.text for remark in log.remarks)
