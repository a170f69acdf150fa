"""Staying with a scheduler until its end: what each look at it means, and what to say about the end.

`step` is all of it: what was seen so far and one more glance give what is known now, and what to do next.
Whoever runs the loop around it looks, waits, and decides nothing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from schedkit.model.host.actions import Action, Discard, Eject, Plan, Refused
from schedkit.model.host.confirmation import Course, judge_start
from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.model.host.owners import OwnerKind, attribute
from schedkit.model.host.release import has_stayed, left_in_kernel, outlives
from schedkit.model.host.run_stop_plans import plan_stop
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.log import ExitKind, LogReading, exits_since, last_words
from schedkit.model.kernel.sched_ext import KernelState, State

PATIENCE_S = 10.0  # for a program that attaches again, as after CPU hotplug, or ends after an ejection
RUNTIME_PATIENCE_S = 10.0  # for a runtime that is being restarted
QUIET_S = 10.0  # between looks while the kernel announces nothing
POLL_S = 0.5  # between looks while it is not attached, or where announcements cannot be heard

# a program that has no handler for SIGTERM ends with 128 and its number, in order all the same
_CODES_OF_ORDER = frozenset({0, 128 + 15})
_PERHAPS_OURS = frozenset({OwnerKind.MANAGED, OwnerKind.UNKNOWN})


class Watched(NamedTuple):
    """A container that is stayed with, and what was seen of it so far."""

    container: Container
    ops: str | None = None  # what the kernel calls its scheduler; None: it was not seen attached yet
    proved: Snapshot | None = None  # the last look that proved it to be attached
    detached_at: float | None = None  # since when it is not attached; None: it is
    since_us: int | None = None  # what the kernel's log says before that is not about it
    log_seq: int = -1  # of the last record of the log that is not about it

    def gone(self, *, is_alive: bool) -> Container:
        """The container as it is known when its runtime does not run it any more."""
        # the number of a program that has ended may be a stranger's by now
        pid = self.container.pid if is_alive else None
        return self.container._replace(state=ContainerState.EXITED, pid=pid)


class Glance(NamedTuple):
    """One more look at it: a cheap one, and if that was asked for, one into all processes."""

    is_alive: bool  # its program
    kernel: KernelState
    snapshot: Snapshot | None = None  # None: the kernel alone was asked


class Look(NamedTuple):
    """The kernel's word is not enough: look into the processes, too."""


class Wait(NamedTuple):
    """Nothing is to be done for so long, or until the kernel announces a change."""

    seconds: float


class Ended(NamedTuple):
    """Its program has ended, or its hold on the kernel."""

    course: Course


Move: TypeAlias = Look | Wait | Ended


def begin(look: Snapshot, chosen: Container, *, log_seq: int, began_us: int | None) -> Watched:
    """What is known at first; `log_seq` was read before the look, `began_us` is when its program began."""
    is_attached = may_be_attached(look, chosen)
    # one that was ejected before we looked has left its reason in the log already
    since_us = None if is_attached else began_us
    return Watched(
        chosen,
        ops=look.kernel.ops if is_attached else None,
        proved=look if has_stayed(look, chosen) else None,
        since_us=since_us,
        log_seq=log_seq if since_us is None else -1,
    )


def step(watched: Watched, glance: Glance, now: float) -> tuple[Watched, Move]:
    """What is known after one more glance, and what to do next."""
    if glance.snapshot is None:
        is_lasting = glance.is_alive and _is_unchanged(watched, glance.kernel)
        return (watched._replace(detached_at=None), Wait(QUIET_S)) if is_lasting else (watched, Look())
    is_over = watched.detached_at is not None and now - watched.detached_at >= PATIENCE_S
    watched, course = _judge(watched, glance.snapshot, is_alive=glance.is_alive, is_over=is_over)
    if course is Course.ATTACHED:
        # what is not proved is looked at again, but not all the time: that takes long
        return watched._replace(detached_at=None), Wait(QUIET_S)
    if course is Course.WAITING:
        since = now if watched.detached_at is None else watched.detached_at
        return watched._replace(detached_at=since), Wait(POLL_S)
    return watched, Ended(course)


def look_again(
    watched: Watched, found: Container, snapshot: Snapshot, *, is_alive: bool
) -> tuple[Watched, bool]:
    """Whether a failed switch has brought it back, by a look while nobody changes anything.

    Then what was found is what is stayed with from now on.
    """
    again, course = _judge(watched._replace(container=found), snapshot, is_alive=is_alive, is_over=True)
    if found.is_running and course is Course.ATTACHED:
        return again._replace(detached_at=None), True
    return again._replace(container=watched.container), False


def _judge(watched: Watched, snapshot: Snapshot, *, is_alive: bool, is_over: bool) -> tuple[Watched, Course]:
    one = watched.container if is_alive else watched.container._replace(pid=None)
    if has_stayed(snapshot, one):
        watched = watched._replace(proved=snapshot, ops=snapshot.kernel.ops)
    return watched, judge_stay(snapshot, one, watched.ops, is_alive=is_alive, is_over=is_over)


def _is_unchanged(watched: Watched, kernel: KernelState) -> bool:
    """Whether the attachment that was proved lasts; then processes need not be looked at."""
    return watched.proved is not None and _attachment(kernel) == _attachment(watched.proved.kernel)


def _attachment(kernel: KernelState) -> tuple[object, ...]:
    """What stays the same as long as one attachment lasts."""
    return kernel.state, kernel.ops, kernel.enable_seq


def await_runtimes(look: Snapshot, driver: str, *, waited_s: float) -> Wait | None:
    """How long to wait for a runtime that has, or may have, what is attached; None: all have said enough.

    One that is just being restarted is waited for, and as long as the kernel runs what may be ours: without
    us that would go on under a failed unit. `driver` is of the runtime in use.
    """
    is_patient = waited_s <= RUNTIME_PATIENCE_S
    if is_answered(look, driver) or not (is_patient or may_be_of_silent(look)):
        return None
    return Wait(POLL_S if is_patient else QUIET_S)


class Ending(NamedTuple):
    """What is known about the end."""

    name: str  # of the container
    course: Course  # `ENDED`, or else it lives on without the kernel
    kind: ExitKind | None = None  # the kernel's word; None: its log has none
    kernel_words: str = ""
    exit_code: int | None = None  # None: it did not end, or nobody could say how
    last_words: str = ""  # of the program itself
    exit_words: str = ""  # its exit code, or who killed it
    is_gone: bool = False  # somebody removed its container
    trouble: str = ""  # what hindered us from asking its runtime, or from removing it
    left: str = ""  # what the kernel runs on all the same, and may be its

    @property
    def is_ejection(self) -> bool:
        """Whether the kernel let go of the scheduler before its program let go of the kernel."""
        return self.course is not Course.ENDED or self.kind not in {None, ExitKind.UNREG}

    @property
    def is_in_order(self) -> bool:
        """Whether somebody stopped it; the kernel is asked first, since ejected programs may exit 0 too."""
        # a runtime that does not say how it ended may keep silent about a crash
        is_wanted = self.is_gone if self.exit_code is None else self.exit_code in _CODES_OF_ORDER
        return is_wanted and not self.is_ejection and not self.trouble and not self.left


def hear(watched: Watched, course: Course, log: LogReading) -> Ending:
    """What the kernel alone says about the end."""
    told = exits_since(log, watched.since_us or 0)
    exits = [each for each in told.exits if watched.ops in {None, each.ops}]
    kind = exits[-1].kind if exits else None
    return Ending(watched.container.name, course, kind, last_words(told, watched.ops))


def with_last_words(ending: Ending, ended: Exit | None, written: str, *, is_gone: bool) -> Ending:
    """The same with what its runtime says: how its program ended, and what it wrote."""
    return ending._replace(
        exit_code=ended.code if ended else None,
        exit_words=str(ended) if ended else "",
        last_words=written,
        is_gone=is_gone,
    )


def may_be_of_silent(host: Snapshot) -> bool:
    """Whether what is attached is in a container of a runtime that does not say whether that is ours."""
    return host.owner.kind is OwnerKind.UNKNOWN and bool(host.owner.pid)


def is_idle(host: Snapshot) -> bool:
    """Whether the kernel runs its own scheduler, and no container that is known could change that."""
    return host.owner.kind is OwnerKind.NONE and host.containers is not None and not host.running


def is_answered(host: Snapshot, driver: str) -> bool:
    """Whether the runtimes said enough to know which container is ours; `driver` is of the one in use."""
    if host.containers is None or may_be_of_silent(host):
        return False
    return bool(host.containers) or driver not in host.silent


def may_be_attached(snapshot: Snapshot, container: Container, ops: str | None = None) -> bool:
    """Whether nothing speaks against a scheduler that was attached being so still.

    A look that proves nothing, as into a process that nobody may look into, is no reason to stop one that is
    well; that the kernel runs one of another name than `ops` is. None: its name is not known.
    """
    owner = attribute(snapshot.proof, [container])
    if snapshot.kernel.state is not State.ENABLED or owner.kind not in _PERHAPS_OURS:
        return False
    return owner.kind is OwnerKind.MANAGED or ops in {None, snapshot.kernel.ops}


def judge_stay(
    snapshot: Snapshot,
    container: Container,
    ops: str | None = None,
    *,
    is_alive: bool,
    is_over: bool,
) -> Course:
    """What one look says about a container that was attached; `is_over`: it has not been for too long."""
    if is_alive and may_be_attached(snapshot, container, ops):
        return Course.ATTACHED
    return judge_start(snapshot, container, is_alive=is_alive, is_over=is_over)


def plan_end(
    snapshot: Snapshot, container: Container, proved: Snapshot | None = None
) -> tuple[Action, ...] | Refused:
    """What removes a container, and from the kernel what would outlive its program, or has.

    `proved` is the last look that proved its scheduler to be attached. Whoever runs a service has decided
    that it may be stopped, on a node of Kubernetes as well.
    """
    is_left = proved is not None and outlives(snapshot, proved)
    ejection = (Eject(),) if is_left else ()
    if not container.is_running and not has_stayed(snapshot, container):
        return (*ejection, Discard(container))
    plan = plan_stop(snapshot._replace(containers=(container,)), container, is_forced=True)
    return plan if isinstance(plan, Refused) else (*plan.steps[:-1], *ejection, *plan.steps[-1:])


def plan_removal(
    watched: Watched, snapshot: Snapshot, found: Container | None, *, is_alive: bool
) -> Plan | Refused:
    """What removes it; `found` is what its runtime has of it, None where that has nothing, or is silent."""
    one = found if found and found.is_running else watched.gone(is_alive=is_alive)
    steps = plan_end(snapshot, one, watched.proved)
    if isinstance(steps, Refused):
        return steps
    return Plan(tuple(each for each in steps if found or not isinstance(each, Discard)))


def plan_rest(watched: Watched, snapshot: Snapshot, *, is_alive: bool) -> Plan | Refused:
    """What ends that which outlives it all the same: only after its end it shows that a link is pinned."""
    steps = plan_end(snapshot, watched.gone(is_alive=is_alive), watched.proved)
    if isinstance(steps, Refused):
        return steps
    return Plan(tuple(each for each in steps if isinstance(each, Eject)))


def find_left(snapshot: Snapshot, container: Container, proved: Snapshot | None = None) -> Refused | None:
    """What to say when the kernel runs on what is the container's, or may be; `proved` as in `plan_end`."""
    if has_stayed(snapshot, container):
        what = f"the kernel still runs {snapshot.kernel.ops} from {container}"
        return Refused(what, "one of its processes still runs", "end its leftover process: `schedctl reset`")
    if proved is not None and _is_anothers(snapshot, proved):
        return None
    return left_in_kernel(snapshot)


def _is_anothers(snapshot: Snapshot, proved: Snapshot) -> bool:
    """Whether it is not ours for sure; programs attach again by themselves, under the same name."""
    return not outlives(snapshot, proved) and snapshot.kernel.ops != proved.kernel.ops


def explain_end(ending: Ending) -> Refused:
    """What to tell about an end that was not in order."""
    whys = (
        ("the kernel says: ", ending.kernel_words),
        ("the end of the scheduler's output: ", ending.last_words),
        ("its container may still be there: ", ending.trouble),
        ("", ending.left),
    )
    why = "; ".join(f"{says}{words}" for says, words in whys if words)
    remedy = "it is not started again automatically; `schedctl status` says what the kernel runs now"
    clearing_up = ", and `schedctl reset` clears up" if ending.trouble or ending.left else ""
    return Refused(_what(ending), why, remedy + clearing_up)


def _what(ending: Ending) -> str:
    if ending.kind is ExitKind.SYSRQ:
        return f"{ending.name} was ejected by hand, with SysRq-S"
    if ending.is_ejection:
        return f"{ending.name} was ejected by the kernel"
    return f"{ending.name} has ended: {ending.exit_words or 'its runtime does not say how'}"
