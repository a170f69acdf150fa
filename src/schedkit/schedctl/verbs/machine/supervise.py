"""`schedctl supervise`: stay with a scheduler until its end. What a service manager runs.

It never starts anything: what a human or the kernel ended stays ended.
"""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from schedkit.kernel import kmsg, observation, processes, sysfs, uevents
from schedkit.model.host.actions import Action, Discard, Eject, Known, Refused
from schedkit.model.host.attachment import Course, has_stayed
from schedkit.model.host.run_stop import choose
from schedkit.model.host.status import HostObservation
from schedkit.model.host.supervision import (
    Ending,
    explain_end,
    find_left,
    is_answered,
    is_idle,
    judge_stay,
    may_be_attached,
    may_be_of_silent,
    plan_end,
)
from schedkit.model.kernel.log import exits_since, last_words
from schedkit.model.kernel.sched_ext import KernelState
from schedkit.runtimes.errors import ContainerRuntimeError, NoSuchContainerError, NotAnsweringError
from schedkit.runtimes.port import Runtime
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.change import lock, snapshot
from schedkit.schedctl.change.executor import Stage, decided, problem
from schedkit.schedctl.change.why_detached import began_us, joined
from schedkit.schedctl.completions import complete_containers
from schedkit.schedctl.problems.problem import ExitCode, Problem, explain
from schedkit.schedctl.settings.flags import option
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.verbs.machine.ps import no_runtime

_PATIENCE_S = 10.0  # for a program that attaches again, as after CPU hotplug, or ends after an ejection
_RUNTIME_PATIENCE_S = 10.0  # for a runtime that is being restarted
_QUIET_S = 10.0  # between looks while the kernel announces nothing
_POLL_S = 0.5  # between looks while it is not attached, or where announcements cannot be heard
_LOCK_PATIENCE_S = 600.0  # a switch by hand may wait for a slow scheduler, and then bring ours back
_LAST_LINES = 20


class SupervisionEnded(Result, frozen=True, kw_only=True):
    """The container whose end was in order, and who ended it. Any other end is an error."""

    name: str
    id: str
    driver: str
    stopped_by_us: bool  # false: somebody else stopped it


@click.command()
@click.argument("container", metavar="[ID|NAME]", required=False, shell_complete=complete_containers)
@option("grace_s")
@click.pass_obj
@answering
def command(settings: Settings, container: str | None, grace_s: float) -> Answer:
    """Stay with a scheduler until its end, and say why it ended; for service managers.

    Exits 0 when somebody stopped it, 1 when the kernel ejected it or its program failed, and 75 when it may
    still be in the kernel. SIGTERM and Ctrl-C stop it. It is never started again. Without an argument it is
    the only one there is.
    """
    with admitting_failures():
        supervision = Supervision(settings, container, grace_s)
        tell(f"staying with {supervision.container.name}")
        try:
            with interrupted_by_sigterm():
                ending = supervision.await_end()
        except KeyboardInterrupt:
            supervision.stop()
            return supervision.answer(stopped_by_us=True)
    if ending.is_in_order:
        return supervision.answer(stopped_by_us=False)
    told = problem(explain_end(ending))
    told.exit_code = ExitCode.LEFT_BEHIND if ending.left else ExitCode.FAILED
    raise told


@contextmanager
def admitting_failures() -> Iterator[None]:
    """Exit with a code of its own whatever hindered us: nobody has seen the end of the scheduler then."""
    try:
        yield
    except NothingThere:
        raise
    except Exception as error:
        told = explain(error)
        if told is None:
            traceback.print_exc()
            raise SystemExit(ExitCode.LEFT_BEHIND) from error
        told.exit_code = ExitCode.LEFT_BEHIND
        raise told from error


class NothingThere(Problem):
    """There is nothing to stay with, and nothing in the kernel."""


class Supervision:
    """One container, from when it was found until it is gone."""

    def __init__(self, settings: Settings, word: str | None, grace_s: float) -> None:
        self._grace_s = grace_s
        log_seq = kmsg.read(wiring.ROOT).last_seq
        self._runtimes, look = _answered(settings)
        chosen = choose(look.host, word)
        if isinstance(chosen, Refused):
            kind = NothingThere if is_idle(look.host) else Problem
            raise kind(chosen.what, why=chosen.why, remedy=chosen.remedy)
        self.container = chosen
        self._life = processes.life(wiring.ROOT, chosen.pid)
        # the last look that proved it to be attached
        self._proved = look.observation if has_stayed(look.observation, chosen) else None
        is_attached = may_be_attached(look.observation, chosen.ours)
        self._ops = look.observation.kernel.ops if is_attached else None
        # one that was ejected before we looked has left its reason in the log already
        self._since_us = None if is_attached else _began_us(look, chosen)
        self._log_seq = log_seq if self._since_us is None else -1

    def await_end(self) -> Ending:
        """How it ended; by then it is removed. One that a failed switch has brought back goes on."""
        while True:
            ending = self._heard(self._watch())
            try:
                with lock.exclusive(wiring.LOCK, "supervise", patience_s=_LOCK_PATIENCE_S):
                    found = self._found()
                    if found and self._is_back(found):
                        continue
                    ending = self._told(ending.course, is_gone=found is None)
                    self._remove(found)
                    return ending._replace(left=_told(self._left()))
            except (Problem, ContainerRuntimeError) as error:  # the kernel's reason must not be lost with it
                return ending._replace(trouble=_words(error), left=_told(self._left()))

    def stop(self) -> None:
        """Stop and remove it, once the kernel has let go of it."""
        try:
            with lock.exclusive(wiring.LOCK, "stop"):
                self._end()
        except (Problem, ContainerRuntimeError) as error:
            why = "; ".join(filter(None, (_words(error), _told(self._left()))))
            remedy = "stop it by hand: `schedctl stop`, or `schedctl reset`"
            raise Problem(f"{self.container.name} was not stopped", why=why, remedy=remedy) from error
        if left := self._left():
            raise problem(left)

    def _end(self) -> None:
        """A machine that is shut down may have ended its program, and will not start its runtime any more."""
        try:
            self._remove(self._found())
        except NotAnsweringError as error:
            if not self._program_ends():
                raise
            tell(f"its container may still be there: {_words(error)}")
            self._remove(None)

    def answer(self, *, stopped_by_us: bool) -> Answer:
        """The end that was in order."""
        one = self.container
        ended = SupervisionEnded(name=one.name, id=one.id, driver=one.driver, stopped_by_us=stopped_by_us)
        return Answer(ended, [f"{one.name} was stopped" if stopped_by_us else f"somebody stopped {one.name}"])

    def _heard(self, course: Course) -> Ending:
        """What the kernel alone says about the end."""
        log = exits_since(kmsg.read(wiring.ROOT, after_seq=self._log_seq), self._since_us or 0)
        exits = [each for each in log.exits if self._ops in {None, each.ops}]
        kind = exits[-1].kind if exits else None
        return Ending(self.container.name, course, kind, last_words(log, self._ops))

    def _told(self, course: Course, *, is_gone: bool) -> Ending:
        """What the kernel, which has settled by now, and the runtime say about it."""
        ended, words = None, ""
        with suppress(ContainerRuntimeError):  # it may be gone, and whoever removed it wanted that
            if course is Course.ENDED:
                ended = self._runtime.wait(self.container.id, timeout_s=_PATIENCE_S)
            words = joined(self._runtime.logs(self.container.id, tail=_LAST_LINES))
        code, exit_words = (ended.code, str(ended)) if ended else (None, "")
        return self._heard(course)._replace(
            exit_code=code, last_words=words, exit_words=exit_words, is_gone=is_gone
        )

    def _remove(self, found: Known | None) -> None:
        """Also what is left of one whose container is gone."""
        one = found if found and found.is_running else self._gone
        plan = self._plan_end(one)
        self._play(plan if found else [each for each in plan if not isinstance(each, Discard)])
        # only now it shows that a link is pinned, and outlives its program
        self._play([each for each in self._plan_end(self._gone) if isinstance(each, Eject)])

    def _plan_end(self, container: Known) -> Sequence[Action]:
        return decided(plan_end(snapshot.settled(wiring.ROOT), container, self._proved))

    def _play(self, steps: Sequence[Action]) -> None:
        Stage(wiring.ROOT, self._runtimes, self.container.driver, tell, grace_s=self._grace_s).play(steps)

    def _left(self) -> Refused | None:
        return find_left(snapshot.settled(wiring.ROOT), self._gone, self._proved)

    def _found(self) -> Known | None:
        try:
            found = self._runtime.inspect(self.container.id)
        except NoSuchContainerError:
            return None
        return snapshot.Found(self.container.driver, found).known

    def _program_ends(self) -> bool:
        """Whether it is gone, or goes by itself within a few seconds."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._life.is_going_on:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _is_back(self, found: Known) -> bool:
        """Whether a failed switch has brought it back; then that is what is stayed with from now on."""
        # a runtime may be slow to notice that its program has ended, and a stranger have its number by now
        life = self._life if found.pid == self.container.pid else processes.life(wiring.ROOT, found.pid)
        seen = snapshot.settled(wiring.ROOT)
        course = self._judge(seen, found, is_alive=life.is_going_on, is_over=True)
        if not found.is_running or course is not Course.ATTACHED:
            return False
        self.container, self._life = found, life
        return True

    def _watch(self) -> Course:
        """Look whenever the kernel announces a change, until the program or its hold on the kernel ends.

        The runtime is not asked: it may be restarted meanwhile, and a service that nobody asks may go to
        sleep.
        """
        detached_at: float | None = None
        with announced() as wait:
            while True:
                is_alive = self._life.is_going_on
                if is_alive and self._is_unchanged():
                    wait(_QUIET_S)
                    continue
                seen = observation.observe(wiring.ROOT)
                is_over = detached_at is not None and time.monotonic() - detached_at >= _PATIENCE_S
                course = self._judge(seen, self.container, is_alive=is_alive, is_over=is_over)
                if course not in {Course.ATTACHED, Course.WAITING}:
                    return course
                is_attached = course is Course.ATTACHED
                detached_at = None if is_attached else detached_at or time.monotonic()
                # what is not proved is looked at again, but not all the time: that takes long
                wait(_QUIET_S if is_attached else _POLL_S)

    def _is_unchanged(self) -> bool:
        """Whether the attachment that was proved lasts; then processes need not be looked at."""
        return self._proved is not None and _attachment(sysfs.read(wiring.ROOT)) == _attachment(
            self._proved.kernel
        )

    def _judge(self, seen: HostObservation, container: Known, *, is_alive: bool, is_over: bool) -> Course:
        one = container if is_alive else container._replace(pid=0)
        if has_stayed(seen, one):
            self._proved, self._ops = seen, seen.kernel.ops
        return judge_stay(seen, one.ours, self._ops, is_alive=is_alive, is_over=is_over)

    @property
    def _gone(self) -> Known:
        """The container as it is known when its runtime does not run it any more."""
        # the number of one that is gone may be a stranger's by now
        pid = self.container.pid if self._life.is_going_on else 0
        return self.container._replace(is_running=False, pid=pid)

    @property
    def _runtime(self) -> Runtime:
        return self._runtimes[self.container.driver]


def _answered(settings: Settings) -> tuple[Mapping[str, Runtime], snapshot.Look]:
    """The runtimes, and a look for which the one answered that has, or may have, what is attached.

    One that is just being restarted is waited for, and as long as the kernel runs what may be ours: without
    us that would go on under a failed unit.
    """
    deadline, is_told = time.monotonic() + _RUNTIME_PATIENCE_S, False
    while True:
        runtimes = wiring.runtimes(settings)
        look = snapshot.look(wiring.ROOT, runtimes)
        is_over = time.monotonic() > deadline and not may_be_of_silent(look.host)
        if is_over and look.containers is None:
            raise no_runtime(look.problems)
        if is_over or is_answered(look.host, settings.driver):
            return runtimes, look
        if not is_told:
            why = "; ".join(look.problems) or look.host.owner.reason or "there is no socket of any yet"
            tell(f"waiting for a runtime to answer: {why}")
            is_told = True
        time.sleep(_POLL_S if time.monotonic() < deadline else _QUIET_S)


def _began_us(look: snapshot.Look, chosen: Known) -> int | None:
    """When it began, by the clock of the kernel's log: what that says about earlier ones is not about it."""
    found = (each.container for each in look.containers or () if each.known == chosen)
    return next((began_us(wiring.ROOT, each) for each in found), None)


def _told(left: Refused | None) -> str:
    return f"{left.what}: {left.why}" if left else ""


def _words(error: Exception) -> str:
    told = explain(error)
    return ": ".join(filter(None, (told.what, told.why))) if told else str(error)


def _attachment(kernel: KernelState) -> tuple[object, ...]:
    """What stays the same as long as one attachment lasts."""
    return kernel.state, kernel.ops, kernel.enable_seq


@contextmanager
def announced() -> Iterator[Callable[[float], None]]:
    """A way to wait for that many seconds, or less: until the kernel announces a change of schedulers."""
    try:
        listener = uevents.Listener()
    except OSError:  # no such socket for us: look more often instead
        yield lambda timeout_s: time.sleep(min(timeout_s, _POLL_S))
        return
    with listener:
        yield lambda timeout_s: _hear(listener, timeout_s)


def _hear(listener: uevents.Listener, timeout_s: float) -> None:
    next(listener.announcements(timeout_s=timeout_s), None)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt as Ctrl-C does, once: what is done about it is not interrupted again."""

    def interrupt(number: int, frame: object) -> NoReturn:  # noqa: ARG001 - as `signal` calls it
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)
