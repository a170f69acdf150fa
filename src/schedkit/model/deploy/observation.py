"""What is seen of the cluster before anything is decided: a few fields of its objects, and one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.pods import Event, Pod
from schedkit.model.api.schedext import SchedExt
from schedkit.model.deploy.verdicts import Trusted, Verdict
from schedkit.model.trust.rules import Rules


@dataclass(frozen=True, slots=True)
class Observation:
    """All evidence about one SchedExt at one moment."""

    schedext: SchedExt
    now: datetime
    daemon_set: DaemonSet | None = None  # of the SchedExt's name, whoever it belongs to; None: there is none
    pods: tuple[Pod, ...] = ()  # of that DaemonSet, with those that are to end and may take their time
    events: tuple[Event, ...] = ()
    rival: SchedExt | None = None  # the oldest that may want the same nodes; None: nobody does
    refusal: str | None = None  # what the API server said to the last write of the DaemonSet; None: accepted
    # None: they cannot be read, and there are none from before
    rules: Rules | None = field(default_factory=Rules)
    complaint: str = ""  # why the administrator's rules cannot be read; empty: they can
    verdict: Verdict | None = None  # about the image; None: there is none yet
    vouched: tuple[Trusted, ...] = ()  # good verdicts by this policy about what it named before, too
    has_agents: bool = False  # whether any node has an agent, or a report of one
    agent_refusal: str = ""  # what the API server says to the creation of agents; empty: nothing

    @property
    def is_ours(self) -> bool:
        """Whether the DaemonSet is controlled by this very SchedExt."""
        owner = self.daemon_set.metadata.controller if self.daemon_set else None
        return owner is not None and owner.uid == self.schedext.metadata.uid

    @property
    def own_pods(self) -> tuple[Pod, ...]:
        """The pods of our DaemonSet that nobody is deleting."""
        if self.daemon_set is None or not self.is_ours:
            return ()
        uid = self.daemon_set.metadata.uid
        return tuple(
            pod
            for pod in self.pods
            if pod.metadata.deletion_timestamp is None
            and (owner := pod.metadata.controller) is not None
            and owner.uid == uid
        )


# What a change of an object means


def asks_the_same(old: SchedExt, new: SchedExt) -> bool:
    """Whether at most its status changed: then the DaemonSet stays as it is."""
    was, now = old.metadata, new.metadata
    return (was.uid, was.generation, was.deletion_timestamp, was.annotations) == (
        now.uid,
        now.generation,
        now.deletion_timestamp,
        now.annotations,
    )


def is_written_the_same(old: DaemonSet, new: DaemonSet) -> bool:
    """Whether at most its status changed: then nobody has written what is ours."""
    was, now = old.metadata, new.metadata
    same_meta = (was.uid, was.deletion_timestamp, was.owner_references, was.labels, was.annotations) == (
        now.uid,
        now.deletion_timestamp,
        now.owner_references,
        now.labels,
        now.annotations,
    )
    return same_meta and old.spec == new.spec
