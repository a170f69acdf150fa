"""Starting and stopping a machine's scheduler: what to do, as values, and how to read what follows.

Nothing here acts. `plan_run` and `plan_stop` say what to do or why not; `judge_start`, `is_released` and
`is_free` say, from one look at the machine, whether to look again. `transitions` plans what takes more steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from schedkit.model.host.ownership import Leftovers, SchedulerMap
from schedkit.model.host.processes import Hold, Process, is_in_container
from schedkit.model.host.status import (
    EJECT,
    HostObservation,
    OurContainer,
    Owner,
    OwnerKind,
    attribute,
    way_to_end,
)
from schedkit.model.kernel.sched_ext import SchedExt, State

SHORTEST_ID = 4  # of a container, as people abbreviate it


class Known(NamedTuple):
    """A container of ours, or of the Go schedctl, that a runtime has."""

    driver: str
    id: str
    name: str
    is_running: bool
    pid: int = 0  # of its first process; 0: it does not run
    digest: str = ""  # what was asked for when it was made; empty: another program made it
    options: str = ""  # likewise

    def __str__(self) -> str:
        return f"container {self.name or self.id[:12]}"

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
    def removable(self) -> tuple[Known, ...]:
        """Those that have ended, and are not needed to prove whose the attached scheduler is."""
        owner = self.owner
        if owner.kind is OwnerKind.UNKNOWN:
            return ()
        ended = (each for each in self.containers or () if not each.is_running)
        return tuple(each for each in ended if each.id != owner.container_id)

    @property
    def kept(self) -> tuple[Known, ...]:
        """All others: a change may end them, and removes them last."""
        return tuple(each for each in self.containers or () if each not in self.removable)

    @property
    def ops(self) -> str:
        """What the kernel runs, by its own name if it is known."""
        return self.observation.kernel.ops or "a scheduler"

    @property
    def owner(self) -> Owner:
        """Whose the attached scheduler is."""
        # also what is left of one that ended: its other processes may hold the scheduler
        ours = None if self.containers is None else [each.ours for each in self.containers]
        return attribute(self.observation.proof, ours, silent=self.silent)

    @property
    def stray(self) -> Process | None:
        """The process of a container of ours that has ended, if the attached scheduler is its."""
        owner = self.owner
        is_stopped_with = owner.container_id in {each.id for each in self.running}
        is_stray = owner.kind is OwnerKind.MANAGED and not is_stopped_with
        return self.observation.proof.process if is_stray else None


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
    is_awaited: bool = True  # False: go on while its runtime waits for the end, and tidies up


class AwaitRelease(NamedTuple):
    """Look until nothing of the container is left in the kernel."""

    container: Known


class EndProcess(NamedTuple):
    """End a process that no runtime would end for us, and that holds a scheduler, attached or ejected."""

    process: Process


class Eject(NamedTuple):
    """Take out of the kernel what no process would take along."""

    is_blind: bool = False  # also what some process holds


class Unregister(NamedTuple):
    """Remove the registration that an ejected scheduler without a link has left, while none is attached."""

    scheduler: SchedulerMap


class AwaitFree(NamedTuple):
    """Look until the kernel runs its own scheduler, and no process holds an ejected one."""

    ignored: tuple[int, ...] = ()  # processes that may
    unless: Known | None = None  # nothing to wait for, if this one could not be stopped and is attached still


class Restart(NamedTuple):
    """Begin the program of a container again that was stopped; nothing, if it runs."""

    container: Known


class AwaitReturn(NamedTuple):
    """Look until the kernel runs the scheduler of a container that was started again."""

    container: Known


Action: TypeAlias = (
    Discard
    | Create
    | Listen
    | Start
    | AwaitAttachment
    | Stop
    | AwaitRelease
    | EndProcess
    | Eject
    | Unregister
    | AwaitFree
    | Restart
    | AwaitReturn
)


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
    return (*discard_leftovers(host), *unregister_leftovers(host), *_STEPS[after])


def unregister_leftovers(host: Host) -> tuple[Action, ...]:
    """Remove what ejected schedulers have left in the kernel: beside it, no owner of their name is proved."""
    return tuple(map(Unregister, host.lingering.registered))


def discard_leftovers(host: Host) -> tuple[Action, ...]:
    """Remove what ended or interrupted changes have left behind."""
    return tuple(map(Discard, host.removable))


def _obstacle(host: Host, *, is_forced: bool) -> Refused | None:
    if unable := without_sched_ext(host):
        return unable
    if host.running:
        why = "a kernel runs one scheduler at a time"
        remedy = "replace it with `schedctl switch`, or stop it first: `schedctl stop`"
        return Refused(f"{named(host.running)} runs already", why, remedy)
    if is_forced:
        return None
    if host.observation.kernel.state is State.DISABLED:
        return lingering(host.lingering)
    return unsettled(host) or taken(host)


def without_sched_ext(host: Host) -> Refused | None:
    """Why this kernel will never run a scheduler of anybody's."""
    if host.observation.kernel.state is not State.ABSENT:
        return None
    what = "this kernel has no sched_ext"
    return Refused(what, "it runs its own scheduler and no other", "`schedctl doctor` says what it lacks")


def unsettled(host: Host) -> Refused | None:
    """Why nothing can be decided now: the kernel is between two states, or cannot be read."""
    kernel = host.observation.kernel
    if kernel.state.is_settled:
        return None
    why = kernel.problem or f"it says `{kernel.state}`"
    if kernel.is_moving:
        return Refused("the kernel is still between schedulers", why, "try again in a moment")
    return Refused("the kernel's state is not known", why, "run schedctl as root, on the host")


def lingering(left: Leftovers) -> Refused | None:
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
    return Refused(what, "its end would take the next scheduler along", "end it first: `schedctl reset`")


def taken(host: Host) -> Refused:
    """Why there is no room for another scheduler: the kernel runs one."""
    refused = _taken(host.ops, host.owner)
    return refused._replace(remedy="end what is left of it: `schedctl reset`") if host.stray else refused


def _taken(ops: str, owner: Owner) -> Refused:
    what = f"the kernel runs {ops} already"
    if owner.kind is OwnerKind.ORPHAN:
        return Refused(what, f"it belongs to no process: {owner.reason}", EJECT)
    if owner.kind is OwnerKind.UNKNOWN:
        return Refused(what, f"it is not known whose it is: {owner.reason}", "`schedctl status` says more")
    return Refused(what, f"it belongs to {owner}", f"end that one first: {way_to_end(owner)}")


def plan_stop(host: Host, container: Known, *, is_forced: bool = False) -> tuple[Action, ...] | Refused:
    """What ends a container, and with it its hold on the kernel."""
    owner = host.owner
    if owner.pod_uid and not is_forced:
        return of_kubernetes(owner, "to stop ours all the same, add --force")
    is_kept = owner.container_id == container.id and not owner.ends_with_process
    ejection = (Eject(),) if is_kept else ()
    stray = host.stray if owner.container_id == container.id else None
    strays = (EndProcess(stray),) if stray else ()
    return (Stop(container), *strays, AwaitRelease(container), *ejection, Discard(container))


def of_kubernetes(owner: Owner, remedy: str) -> Refused:
    """Why nothing is changed on a node without being forced."""
    why = "Kubernetes decides here which scheduler runs"
    return Refused(f"the scheduler belongs to {owner}", why, remedy)


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
        return Refused(f"{word!r} is the beginning of several ids", named(found), "write more of it")
    why = f"there is {named(known)}" if known else "there is no container of schedkit's"
    return Refused(f"no container is called {word!r}", why, "`schedctl ps` lists those there are")


def _only(candidates: Sequence[Known], host: Host) -> Known | Refused:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        remedy = "say which: `schedctl stop ID`; `schedctl ps` lists them"
        return Refused("several containers are meant", f"there are {named(candidates)}", remedy)
    return _nothing(host.ops, host.owner)


def _nothing(ops: str, owner: Owner) -> Refused:
    what = "no container of schedkit's is there"
    if owner.kind is OwnerKind.NONE:
        return Refused(what, "the kernel runs its own scheduler", "`schedctl run NAME` starts another")
    return _taken(ops, owner)._replace(what=f"{what}, but the kernel runs {ops}")


def named(containers: Iterable[Known]) -> str:
    """All of them, as users know them."""
    return ", ".join(map(str, containers))


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


def has_stayed(observation: HostObservation, container: Known) -> bool:
    """Whether a container that was told to stop is attached all the same."""
    return attribute(observation.proof, [container.ours]).kind is OwnerKind.MANAGED


def is_free(kernel: SchedExt, left: Leftovers, ignored: Collection[int] = ()) -> bool:
    """Whether another scheduler may start: the kernel runs its own, and no process holds an old one."""
    holders = {process.pid for process in left.processes}.difference(ignored)
    return kernel.state is State.DISABLED and not holders


def left_in_kernel(observation: HostObservation) -> Refused | None:
    """What to say after a stop when the kernel still runs a scheduler that no process holds."""
    if observation.proof.hold is not Hold.NOBODY:
        return None
    what = f"the container is gone, but the kernel still runs {observation.kernel.ops}"
    why = f"it belongs to no process: {observation.proof.reason}"
    return Refused(what, why, EJECT)


def outlives(observation: HostObservation, earlier: HostObservation) -> bool:
    """Whether no process holds any more what an earlier look proved the owner of."""
    if observation.proof.hold is not Hold.NOBODY:
        return False
    one, other = observation.kernel.enable_seq, earlier.kernel.enable_seq
    if one is not None and other is not None:
        return one == other
    return observation.proof.map_id is not None and observation.proof.map_id == earlier.proof.map_id


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
