"""What can be done to a machine, as values; plans made of it; and a refusal to do anything.

Nothing here acts, or decides: `run_stop_plans` and `switch_reset_plans` are made of it; `schedctl` performs
them. "The new container" is the one that is asked for: it does not exist yet when a plan is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from schedkit.model.host.containers import Container
from schedkit.model.host.holders import SchedulerMap
from schedkit.model.host.processes import Process
from schedkit.model.host.snapshot import Snapshot


class Refused(NamedTuple):
    """Why nothing is done, and what to do instead."""

    what: str
    why: str
    remedy: str


class Discard(NamedTuple):
    """Delete a container."""

    container: Container


class Create(NamedTuple):
    """Prepare the new container."""


class Listen(NamedTuple):
    """Be there for all that the new container's program will write."""


class Start(NamedTuple):
    """Begin the new container's program."""


class AwaitAttachment(NamedTuple):
    """Look until the kernel runs the new container's scheduler, or it is clear that it will not."""


class ProveKept(NamedTuple):
    """See whether the kernel would keep the new container's scheduler without its program."""


class StopNew(NamedTuple):
    """End the new container's program; if that fails, the container's removal ends it as well."""


class DiscardNew(NamedTuple):
    """Delete the new container."""


class EjectNew(NamedTuple):
    """Take out of the kernel what the new container is proved to have left there, and nothing else."""


class Stop(NamedTuple):
    """End a container's program."""

    container: Container
    is_awaited: bool = True  # False: go on while its runtime waits for the end, and tidies up


class AwaitRelease(NamedTuple):
    """Look until nothing of the container is left in the kernel."""

    container: Container


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
    unless: Container | None = None  # stop waiting if it could not be stopped, and is still attached
    # the look at what was told to end: what the kernel keeps of it without a process is ejected
    ended: Snapshot | None = None


class Restart(NamedTuple):
    """Begin the program of a container again that was stopped; nothing, if it runs."""

    container: Container


class AwaitReturn(NamedTuple):
    """Look until the kernel runs the scheduler of a container that was started again."""

    container: Container


Action: TypeAlias = (
    Discard
    | Create
    | Listen
    | Start
    | AwaitAttachment
    | ProveKept
    | StopNew
    | DiscardNew
    | EjectNew
    | Stop
    | AwaitRelease
    | EndProcess
    | Eject
    | Unregister
    | AwaitFree
    | Restart
    | AwaitReturn
)

# what leaves nothing of the new container; in this order: only what no process holds can be ejected
CLEAR: tuple[Action, ...] = (ProveKept(), StopNew(), DiscardNew(), EjectNew())


class Plan(NamedTuple):
    """All that a change may do."""

    steps: tuple[Action, ...]  # one after the other; the first failure ends them
    on_failure: tuple[Action, ...] = ()  # then each of these, if the new container was created by then
    way_back: tuple[Action, ...] = ()  # then these, if something was told to end by then
    afterwards: tuple[Action, ...] = ()  # the change is done, whether or not these succeed
    replaced: Container | None = None  # None: nothing of ours ran before

    def way_back_from(self, begun: Sequence[Action]) -> tuple[Action, ...]:
        """What leads back to what ran before, when the last of the begun steps has failed."""
        return self.way_back if any(isinstance(each, Stop | EndProcess) for each in begun) else ()
