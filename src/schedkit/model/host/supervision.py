"""The end of a scheduler that was attached: whether somebody wanted it, and what to say about it."""

from __future__ import annotations

from typing import NamedTuple

from schedkit.model.host.actions import Action, Discard, Eject, Host, Known, Refused
from schedkit.model.host.attachment import Course, has_stayed, judge_start, left_in_kernel, outlives
from schedkit.model.host.owners import OurContainer, OwnerKind, attribute
from schedkit.model.host.run_stop import plan_stop
from schedkit.model.host.status import HostObservation
from schedkit.model.kernel.log import ExitKind
from schedkit.model.kernel.sched_ext import State

# a program that has no handler for SIGTERM ends with 128 and its number, in order all the same
_CODES_OF_ORDER = frozenset({0, 128 + 15})
_PERHAPS_OURS = frozenset({OwnerKind.MANAGED, OwnerKind.UNKNOWN})


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


def may_be_of_silent(host: Host) -> bool:
    """Whether what is attached is in a container of a runtime that does not say whether that is ours."""
    return host.owner.kind is OwnerKind.UNKNOWN and bool(host.owner.pid)


def is_idle(host: Host) -> bool:
    """Whether the kernel runs its own scheduler, and no container that is known could change that."""
    return host.owner.kind is OwnerKind.NONE and host.containers is not None and not host.running


def is_answered(host: Host, driver: str) -> bool:
    """Whether the runtimes said enough to know which container is ours; `driver` is of the one in use."""
    if host.containers is None or may_be_of_silent(host):
        return False
    return bool(host.containers) or driver not in host.silent


def may_be_attached(observation: HostObservation, container: OurContainer, ops: str | None = None) -> bool:
    """Whether nothing speaks against a scheduler that was attached being so still.

    A look that proves nothing, as into a process that nobody may look into, is no reason to stop one that is
    well; that the kernel runs one of another name than `ops` is. None: its name is not known.
    """
    owner = attribute(observation.proof, [container])
    if observation.kernel.state is not State.ENABLED or owner.kind not in _PERHAPS_OURS:
        return False
    return owner.kind is OwnerKind.MANAGED or ops in {None, observation.kernel.ops}


def judge_stay(
    observation: HostObservation,
    container: OurContainer,
    ops: str | None = None,
    *,
    is_alive: bool,
    is_over: bool,
) -> Course:
    """What one look says about a container that was attached; `is_over`: it has not been for too long."""
    if is_alive and may_be_attached(observation, container, ops):
        return Course.ATTACHED
    return judge_start(observation, container, is_alive=is_alive, is_over=is_over)


def plan_end(
    observation: HostObservation, container: Known, proved: HostObservation | None = None
) -> tuple[Action, ...] | Refused:
    """What removes a container, and from the kernel what would outlive its program, or has.

    `proved` is the last look that proved its scheduler to be attached. Whoever runs a service has decided
    that it may be stopped, on a node of Kubernetes as well.
    """
    is_left = proved is not None and outlives(observation, proved)
    ejection = (Eject(),) if is_left else ()
    if not container.is_running and not has_stayed(observation, container):
        return (*ejection, Discard(container))
    plan = plan_stop(Host(observation, (container,)), container, is_forced=True)
    return plan if isinstance(plan, Refused) else (*plan[:-1], *ejection, *plan[-1:])


def find_left(
    observation: HostObservation, container: Known, proved: HostObservation | None = None
) -> Refused | None:
    """What to say when the kernel runs on what is the container's, or may be; `proved` as in `plan_end`."""
    if has_stayed(observation, container):
        what = f"the kernel still runs {observation.kernel.ops}, of {container}"
        return Refused(what, "a process of it goes on", "end what is left of it: `schedctl reset`")
    if proved is not None and _is_anothers(observation, proved):
        return None
    return left_in_kernel(observation)


def _is_anothers(observation: HostObservation, proved: HostObservation) -> bool:
    """Whether it is not ours for sure; programs attach again by themselves, under the same name."""
    return not outlives(observation, proved) and observation.kernel.ops != proved.kernel.ops


def explain_end(ending: Ending) -> Refused:
    """What to tell about an end that was not in order."""
    whys = (
        ("the kernel says: ", ending.kernel_words),
        ("its last words: ", ending.last_words),
        ("its container may still be there: ", ending.trouble),
        ("", ending.left),
    )
    why = "; ".join(f"{says}{words}" for says, words in whys if words)
    remedy = "nothing starts it again by itself; `schedctl status` says what the kernel runs now"
    clearing_up = ", and `schedctl reset` clears up" if ending.trouble or ending.left else ""
    return Refused(_what(ending), why, remedy + clearing_up)


def _what(ending: Ending) -> str:
    if ending.kind is ExitKind.SYSRQ:
        return f"{ending.name} was ejected by a human, with SysRq-S"
    if ending.is_ejection:
        return f"{ending.name} was ejected by the kernel"
    return f"{ending.name} has ended: {ending.exit_words or 'its runtime does not say how'}"
