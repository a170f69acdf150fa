"""`schedctl supervise`: stay with a scheduler until its end. What a service manager runs.

It never starts anything: what a human or the kernel ended stays ended. What each look means is decided by
`model.host.supervision`; here is the loop around it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import click

from schedkit.model.host.actions import Refused
from schedkit.model.host.confirmation import Course
from schedkit.model.host.containers import Container
from schedkit.model.host.run_stop_plans import choose
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.host.supervision import (
    PATIENCE_S,
    POLL_S,
    Ended,
    Ending,
    Glance,
    Look,
    Wait,
    Watched,
    await_runtimes,
    begin,
    explain_end,
    find_left,
    hear,
    is_idle,
    look_again,
    plan_removal,
    plan_rest,
    step,
    with_last_words,
)
from schedkit.model.kernel.log import LogReading
from schedkit.runtimes.errors import ContainerRuntimeError, NotAnsweringError
from schedkit.runtimes.port import Runtime
from schedkit.schedctl import wiring
from schedkit.schedctl.answers.answer import Answer, answering
from schedkit.schedctl.answers.progress import tell
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.change import lock, snapshot
from schedkit.schedctl.change.kernel_port import Kernel
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.change.player import play
from schedkit.schedctl.change.signals import interrupted_once
from schedkit.schedctl.change.why_detached import joined
from schedkit.schedctl.completions import complete_containers
from schedkit.schedctl.problems.elsewhere import no_runtime
from schedkit.schedctl.problems.problem import ExitCode, Problem, explain
from schedkit.schedctl.problems.refusals import decided, problem
from schedkit.schedctl.settings.flags import option
from schedkit.schedctl.settings.table import Settings

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
    """Watch a scheduler until it ends, and say why it ended; for service managers.

    Exits 0 when it was stopped on purpose, 1 when the kernel ejected it or its program failed, and 75 when it
    may still be in the kernel. SIGTERM and Ctrl-C stop the scheduler. It is never started again. Without an
    argument, the only scheduler is watched.
    """
    with admitting_failures():
        kernel = wiring.kernel()
        supervision = find(kernel, lambda: wiring.runtimes(settings), settings.driver, container, grace_s)
        ending = stay(supervision)
    return conclude(supervision.container, ending)


def stay(supervision: Supervision) -> Ending | None:
    """Stay with a scheduler until its end; None: we were interrupted, and have stopped it."""
    supervision.tell(f"watching {supervision.container.name}")
    with interrupted_once():
        try:
            return supervision.await_end()
        except KeyboardInterrupt:
            supervision.stop()
            return None


def conclude(one: Container, ending: Ending | None) -> Answer:
    """The end that was in order; any other is a problem."""
    if ending is not None and not ending.is_in_order:
        told = problem(explain_end(ending))
        told.exit_code = ExitCode.LEFT_BEHIND if ending.left else ExitCode.FAILED
        raise told
    by_us = ending is None
    ended = SupervisionEnded(name=one.name, id=one.id, driver=one.driver, stopped_by_us=by_us)
    by_others = "" if by_us else " by another user or program"
    return Answer(ended, [f"{one.name} was stopped{by_others}"])


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


def find(
    kernel: Kernel,
    runtimes: Callable[[], Mapping[str, Runtime]],
    driver: str,
    word: str | None,
    grace_s: float,
    tell: Callable[[str], None] = tell,
) -> Supervision:
    """The container that is meant by the word, or the only one; `runtimes` are those that are there then."""
    log_seq = kernel.log().last_seq
    answering, look = _answered(kernel, runtimes, driver, tell)
    chosen = choose(look, word)
    if isinstance(chosen, Refused):
        kind = NothingThere if is_idle(look) else Problem
        raise kind(chosen.what, why=chosen.why, remedy=chosen.remedy)
    watched = begin(look, chosen, log_seq=log_seq, began_us=kernel.began_us(chosen))
    return Supervision(Machine(kernel, answering, tell, grace_s), watched)


def _answered(
    kernel: Kernel,
    runtimes: Callable[[], Mapping[str, Runtime]],
    driver: str,
    tell: Callable[[str], None],
) -> tuple[Mapping[str, Runtime], Snapshot]:
    """The runtimes, and a look for which the one answered that has, or may have, what is attached."""
    began, is_told = kernel.now(), False
    while True:
        answering = runtimes()
        look = snapshot.look(kernel, answering)
        wait = await_runtimes(look, driver, waited_s=kernel.now() - began)
        if wait is None and look.containers is None:
            raise no_runtime(wiring.ROOT, look.problems)
        if wait is None:
            return answering, look
        if not is_told:
            why = "; ".join(look.problems) or look.owner.reason or "no runtime has a socket yet"
            tell(f"waiting for a runtime to answer: {why}")
            is_told = True
        kernel.sleep(wait.seconds)


class Supervision:
    """One container, from when it was found until it is gone: the loop around `step`."""

    def __init__(self, machine: Machine, watched: Watched) -> None:
        self._machine, self._kernel, self._watched = machine, machine.kernel, watched
        self.tell = machine.tell
        self._life = machine.kernel.life(watched.container.pid)

    @property
    def container(self) -> Container:
        """The container that is stayed with."""
        return self._watched.container

    def await_end(self) -> Ending:
        """How it ended; by then it is removed. One that a failed switch has brought back goes on.

        Its runtime is not asked before: it may be restarted meanwhile, and a service that nobody asks may go
        to sleep.
        """
        with self._kernel.hearing(poll_s=POLL_S) as wait:
            glance = self._glance()
            while True:
                self._watched, move = step(self._watched, glance, self._kernel.now())
                match move:
                    case Look():
                        glance = glance._replace(snapshot=self._kernel.observe())
                    case Wait(seconds):
                        wait(seconds)
                        glance = self._glance()
                    case Ended(course):
                        if ending := self._end(course):
                            return ending
                        glance = self._glance()

    def _glance(self) -> Glance:
        # in this order: what lives now may have attached something by the time the kernel is asked
        is_alive = self._life.is_going_on
        return Glance(is_alive, self._kernel.state())

    def _end(self, course: Course) -> Ending | None:
        """Remove it, and say how it ended; None: it is back."""
        ending = hear(self._watched, course, self._log())
        try:
            with lock.exclusive(wiring.LOCK, "supervise", patience_s=_LOCK_PATIENCE_S):
                found = self._found()
                if found and self._is_back(found):
                    return None
                ending = self._told(course, is_gone=found is None)
                self._remove(found)
                return ending._replace(left=_told(self._left()))
        except (Problem, ContainerRuntimeError) as error:  # the kernel's reason must not be lost with it
            return ending._replace(trouble=_words(error), left=_told(self._left()))

    def _is_back(self, found: Container) -> bool:
        # a runtime may be slow to notice that its program has ended, and a stranger have its number by now
        life = self._life if found.pid == self.container.pid else self._kernel.life(found.pid)
        seen = snapshot.settled(self._kernel)
        self._watched, is_back = look_again(self._watched, found, seen, is_alive=life.is_going_on)
        self._life = life if is_back else self._life
        return is_back

    def stop(self) -> None:
        """Stop and remove it, once the kernel has let go of it."""
        try:
            with lock.exclusive(wiring.LOCK, "stop"):
                self._stop()
        except (Problem, ContainerRuntimeError) as error:
            why = "; ".join(filter(None, (_words(error), _told(self._left()))))
            remedy = "stop it by hand: `schedctl stop`, or `schedctl reset`"
            raise Problem(f"{self.container.name} was not stopped", why=why, remedy=remedy) from error
        if left := self._left():
            raise problem(left)

    def _stop(self) -> None:
        """A machine that is shut down may have ended its program, and will not start its runtime any more."""
        try:
            self._remove(self._found())
        except NotAnsweringError as error:
            if not self._program_ends():
                raise
            self.tell(f"its container may still be there: {_words(error)}")
            self._remove(None)

    def _told(self, course: Course, *, is_gone: bool) -> Ending:
        """What the kernel, which has settled by now, and the runtime say about it."""
        runtime, ended, words = self._machine.of(self.container), None, ""
        # whoever removed it wanted that, and another container may have its name by now
        with suppress(ContainerRuntimeError):
            if course is Course.ENDED and not is_gone:
                ended = runtime.wait(self.container.id, timeout_s=PATIENCE_S)
            words = "" if is_gone else joined(runtime.logs(self.container.id, tail=_LAST_LINES))
        return with_last_words(hear(self._watched, course, self._log()), ended, words, is_gone=is_gone)

    def _log(self) -> LogReading:
        return self._kernel.log(after_seq=self._watched.log_seq)

    def _remove(self, found: Container | None) -> None:
        """Also what is left of one whose container is gone."""
        seen = snapshot.settled(self._kernel)
        removal = plan_removal(self._watched, seen, found, is_alive=self._life.is_going_on)
        play(decided(removal), self._machine)
        seen = snapshot.settled(self._kernel)
        rest = plan_rest(self._watched, seen, is_alive=self._life.is_going_on)
        play(decided(rest), self._machine)

    def _left(self) -> Refused | None:
        gone = self._watched.gone(is_alive=self._life.is_going_on)
        return find_left(snapshot.settled(self._kernel), gone, self._watched.proved)

    def _found(self) -> Container | None:
        return self._machine.find(self.container)

    def _program_ends(self) -> bool:
        """Whether it is gone, or goes by itself within a few seconds."""
        deadline = self._kernel.now() + PATIENCE_S
        while self._life.is_going_on:
            if self._kernel.now() > deadline:
                return False
            self._kernel.sleep(POLL_S)
        return True


def _told(left: Refused | None) -> str:
    return f"{left.what}: {left.why}" if left else ""


def _words(error: Exception) -> str:
    told = explain(error)
    return ": ".join(filter(None, (told.what, told.why))) if told else str(error)
