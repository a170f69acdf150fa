"""Starting and stopping a machine's scheduler: what to do, as values, and how to read what follows.

Nothing here acts. `plan_run` and `plan_stop` say what to do or why not; `judge_start` and `is_released` say,
from one look at the machine, whether to look again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from schedkit.model.evidence import Leftovers
from schedkit.model.host import EJECT, HostObservation, OurContainer, Owner, OwnerKind, attribute, way_to_end
from schedkit.model.kernel import State
from schedkit.model.owners import Hold, Process, is_in_container

SHORTEST_ID = 4  # of a container, as people abbreviate it


class Known(NamedTuple):
    """A container of ours, or of the Go schedctl, that a runtime has."""

    driver: str
    id: str
    name: str
    is_running: bool
    pid: int = 0  # of its first process; 0: it does not run

    @property
    def ours(self) -> OurContainer:
        """The same for proofs of ownership."""
        return OurContainer(self.id, self.name, self.pid)


class Host(NamedTuple):
    """The machine at one moment."""

    observation: HostObservation
    containers: tuple[Known, ...] | None  # None: no runtime answered
    lingering: Leftovers = Leftovers()  # of schedulers that the kernel has ejected
    silent: tuple[str, ...] = ()  # drivers of runtimes that did not answer

    @property
    def running(self) -> tuple[Known, ...]:
        """Those that may hold the kernel's scheduler."""
        return tuple(each for each in self.containers or () if each.is_running)

    @property
    def owner(self) -> Owner:
        """Whose the attached scheduler is."""
        ours = None if self.containers is None else [each.ours for each in self.running]
        return attribute(self.observation.proof, ours, silent=self.silent)


class Refused(NamedTuple):
    """Why nothing is done, and what to do instead."""

    what: str
    why: str
    remedy: str


class Discard(NamedTuple):
    """Delete a container."""

    container: Known


class Create(NamedTuple):
    """Prepare the container that was asked for."""


class Listen(NamedTuple):
    """Be there for all that its program will write."""


class Start(NamedTuple):
    """Begin its program."""


class AwaitAttachment(NamedTuple):
    """Look until the kernel runs its scheduler, or it is clear that it will not."""


class Stop(NamedTuple):
    """End a container's program."""

    container: Known


class AwaitRelease(NamedTuple):
    """Look until nothing of the container is left in the kernel."""

    container: Known


Action: TypeAlias = Discard | Create | Listen | Start | AwaitAttachment | Stop | AwaitRelease


class After(StrEnum):
    """What a run does once its program has begun."""

    WAIT = "wait"  # until the kernel confirms it
    LEAVE = "leave"
    FOLLOW = "follow"  # pass on what it writes, until its end


_STEPS: Mapping[After, tuple[Action, ...]] = {
    After.WAIT: (Create(), Start(), AwaitAttachment()),
    After.LEAVE: (Create(), Start()),
    After.FOLLOW: (Create(), Listen(), Start()),
}


def plan_run(
    host: Host, *, after: After = After.WAIT, is_forced: bool = False
) -> tuple[Action, ...] | Refused:
    """What brings another scheduler into the kernel; what is left of earlier ones goes first."""
    if refused := _obstacle(host, is_forced=is_forced):
        return refused
    leftovers = (Discard(each) for each in host.containers or () if not each.is_running)
    return (*leftovers, *_STEPS[after])


def _obstacle(host: Host, *, is_forced: bool) -> Refused | None:
    kernel = host.observation.kernel
    if kernel.state is State.ABSENT:
        what = "this kernel has no sched_ext"
        return Refused(what, "it runs its own scheduler and no other", "`schedctl doctor` says what it lacks")
    if host.running:
        named = _named(host.running)
        why = "a kernel runs one scheduler at a time"
        return Refused(f"{named} runs already", why, "stop it first: `schedctl stop`")
    if is_forced:
        return None
    if kernel.state is State.DISABLED:
        return _lingering(host.lingering)
    if not kernel.state.is_settled:
        why = kernel.problem or f"it says `{kernel.state}`"
        what = (
            "the kernel is still between schedulers"
            if kernel.is_moving
            else "the kernel's state is not known"
        )
        remedy = "try again in a moment" if kernel.is_moving else "run schedctl as root, on the host"
        return Refused(what, why, remedy)
    return _taken(kernel.ops or "a scheduler", host.owner)


def _lingering(left: Leftovers) -> Refused | None:
    """On some kernels the late end of an old link takes the next scheduler along."""
    if left.processes:
        return _held_by(left.processes[0])
    if left.pinned:
        what = f"a link of {left.pinned[0].ops}, which the kernel has ejected, is pinned in a BPF filesystem"
        return Refused(what, "its end would take the next scheduler along", "remove its file first")
    if left.gaps:
        what = "it is not known whether somebody still holds an ejected scheduler"
        return Refused(what, "; ".join(left.gaps), "run schedctl as root, on the host, or add --force")
    return None


def _held_by(process: Process) -> Refused:
    what = f"process {process.pid} ({process.command}) still holds a scheduler that the kernel has ejected"
    return Refused(what, "its end would take the next scheduler along", f"end it first: `kill {process.pid}`")


def _taken(ops: str, owner: Owner) -> Refused:
    what = f"the kernel runs {ops} already"
    if owner.kind is OwnerKind.ORPHAN:
        return Refused(what, f"it belongs to no process: {owner.reason}", EJECT)
    if owner.kind is OwnerKind.UNKNOWN:
        return Refused(what, f"it is not known whose it is: {owner.reason}", "`schedctl status` says more")
    return Refused(what, f"it belongs to {owner}", f"end that one first: {way_to_end(owner)}")


def plan_stop(host: Host, container: Known, *, is_forced: bool = False) -> tuple[Action, ...] | Refused:
    """What ends a container, and with it its hold on the kernel."""
    if host.owner.pod_uid and not is_forced:
        why = "Kubernetes decides here which scheduler runs"
        return Refused(
            f"the scheduler belongs to {host.owner}", why, "to stop ours all the same, add --force"
        )
    return (Stop(container), AwaitRelease(container), Discard(container))


def choose(host: Host, word: str | None) -> Known | Refused:
    """The container of that name or id, or the beginning of one.

    Without a word it is the only one that runs, else the only one there is.
    """
    known = host.containers or ()
    if not word:
        return _only(host.running or known, host)
    found = [each for each in known if each.name == word] or [
        each for each in known if len(word) >= SHORTEST_ID and each.id.startswith(word)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        return Refused(f"{word!r} is the beginning of several ids", _named(found), "write more of it")
    why = f"there is {_named(known)}" if known else "there is no container of schedkit's"
    return Refused(f"no container is called {word!r}", why, "`schedctl ps` lists those there are")


def _only(candidates: Sequence[Known], host: Host) -> Known | Refused:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        remedy = "say which: `schedctl stop ID`; `schedctl ps` lists them"
        return Refused("several containers are meant", f"there are {_named(candidates)}", remedy)
    return _nothing(host.observation.kernel.ops or "a scheduler", host.owner)


def _nothing(ops: str, owner: Owner) -> Refused:
    what = "no container of schedkit's is there"
    if owner.kind is OwnerKind.NONE:
        return Refused(what, "the kernel runs its own scheduler", "`schedctl run NAME` starts another")
    return _taken(ops, owner)._replace(what=f"{what}, but the kernel runs {ops}")


def _named(containers: Iterable[Known]) -> str:
    return ", ".join(f"container {each.name or each.id[:12]}" for each in containers)


class Course(StrEnum):
    """How a start goes on."""

    WAITING = "waiting"
    ATTACHED = "attached"  # the kernel confirms it, and the owner is our container
    ENDED = "ended"  # its program is gone
    TAKEN = "taken"  # somebody else's scheduler is attached
    LATE = "late"  # the time is over


def judge_start(
    observation: HostObservation, container: OurContainer, *, is_alive: bool, is_over: bool
) -> Course:
    """What one look says about a container that was started; `is_over`: the time it was given has passed."""
    owner = attribute(observation.proof, [container])
    if owner.kind is OwnerKind.MANAGED:
        return Course.ATTACHED
    if not is_alive:
        return Course.ENDED
    if owner.kind is OwnerKind.FOREIGN and is_over:
        return Course.TAKEN
    return Course.LATE if is_over else Course.WAITING


def is_released(observation: HostObservation, holders: Iterable[Process], container: OurContainer) -> bool:
    """Whether the kernel has let go of a container that was stopped, and no process of it holds a link.

    A link that is closed late takes the next scheduler along on some kernels: its holder must be gone.
    """
    owner = attribute(observation.proof, [container])
    if not observation.kernel.state.is_settled or owner.kind is OwnerKind.MANAGED:
        return False
    return not any(is_in_container(each, container.id, container.pid) for each in holders)


def left_in_kernel(observation: HostObservation) -> Refused | None:
    """What to say after a stop when the kernel still runs a scheduler that no process holds."""
    if observation.proof.hold is not Hold.NOBODY:
        return None
    what = f"the container is gone, but the kernel still runs {observation.kernel.ops}"
    why = f"it belongs to no process: {observation.proof.reason}"
    return Refused(what, why, EJECT)


class Evidence(NamedTuple):
    """What is known about a scheduler that was not attached. Empty: nobody said anything."""

    ending: str = ""  # how its program ended
    kernel_words: str = ""
    last_words: str = ""  # of the program itself
    owner: Owner = Owner(OwnerKind.NONE)  # whose scheduler is attached instead


def explain_failure(name: str, course: Course, evidence: Evidence, *, timeout_s: float) -> Refused:
    """What went wrong, by the kernel and by the scheduler itself, and what to do next."""
    whats = {
        Course.ENDED: f"{name} was not attached: its program ended ({evidence.ending or 'nobody knows how'})",
        Course.TAKEN: f"{name} was not attached: the kernel runs the scheduler of {evidence.owner}",
    }
    late = f"the kernel did not confirm {name} within {timeout_s:g} s"
    reasons = (
        ("the kernel says: ", evidence.kernel_words),
        ("its last words: ", evidence.last_words),
        ("", evidence.owner.reason),
    )
    why = "; ".join(f"{says}{words}" for says, words in reasons if words)
    return Refused(whats.get(course, late), why, _remedy(course, evidence.owner))


def _remedy(course: Course, owner: Owner) -> str:
    if owner.kind is OwnerKind.FOREIGN:
        return f"end that one first: {way_to_end(owner)}"
    if course is Course.LATE:
        return "give it more time with --timeout, or try another version: `schedctl versions NAME`"
    return (
        "`schedctl doctor` checks this machine; if it is well, try another version: `schedctl versions NAME`"
    )
