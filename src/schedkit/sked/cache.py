"""Everything that is known of the cluster, and the evidence about one SchedExt taken from it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from schedkit.kube.client import Client, Selection
from schedkit.kube.informer import Informer
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.pods import Event, Pod
from schedkit.model.api.schedext import SchedExt
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import MANAGED_BY, MANAGER
from schedkit.model.deploy.rivals import Rivals
from schedkit.sked.kinds import DAEMON_SETS, EVENTS, NODES, PODS, SCHEDEXTS

_OURS = Selection(labels=f"{MANAGED_BY}={MANAGER}")
_REFUSED_PODS = Selection(fields="involvedObject.kind=DaemonSet,reason=FailedCreate")


@dataclass(frozen=True, slots=True)
class _Sighting:
    daemon_set: DaemonSet
    at: float


class Cluster:
    """The stores of all kinds, kept current by their informers."""

    def __init__(self, client: Client) -> None:
        self.schedexts = Informer(client, SCHEDEXTS)
        self.daemon_sets = Informer(client, DAEMON_SETS, _OURS)
        self.pods = Informer(client, PODS, _OURS, indexes={"owner": _owner})
        self.nodes = Informer(client, NODES)
        self.refused_pods = Informer(client, EVENTS, _REFUSED_PODS, indexes={"subject": _subject})
        self.rivals: Rivals[Key] = Rivals()
        # what answers to requests showed before the watch does, or what it never shows: others' DaemonSets
        self._sightings: dict[Key, _Sighting] = {}
        self.daemon_sets.listen(self._outdate_sighting)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All of them, in the order in which they are worth waiting for."""
        return (self.schedexts, self.daemon_sets, self.pods, self.refused_pods, self.nodes)

    def observe(self, key: Key, now: dt.datetime, refusal: str | None) -> Observation | None:
        """All evidence about that SchedExt; None if there is none such."""
        schedext = self.schedexts.store.get(key)
        if schedext is None:
            return None
        daemon_set = self.daemon_set(key)
        uid = daemon_set.metadata.uid if daemon_set else ""
        return Observation(
            schedext=schedext,
            now=now,
            daemon_set=daemon_set,
            pods=tuple(self.pods.store.by("owner", uid)) if uid else (),
            events=tuple(self.refused_pods.store.by("subject", uid)) if uid else (),
            rival=self._rival(key),
            refusal=refusal,
        )

    def _rival(self, key: Key) -> SchedExt | None:
        rival = self.rivals.first(key)
        return self.schedexts.store.get(rival) if rival else None

    # DaemonSets, as the watch or a later answer showed them

    def daemon_set(self, key: Key) -> DaemonSet | None:
        """The one of that name, whoever it belongs to."""
        stored, seen = self.daemon_sets.store.get(key), self._sightings.get(key)
        return seen.daemon_set if seen else stored

    def sighted_s_ago(self, key: Key) -> float | None:
        """How long ago an answer showed what the watch has not shown yet; None: the watch is ahead."""
        seen = self._sightings.get(key)
        return time.monotonic() - seen.at if seen else None

    def sight(self, key: Key, found: DaemonSet | None) -> None:
        """Take in what an answer showed; None: that there is none of that name."""
        stored = self.daemon_sets.store.get(key)
        if found is None or (stored is not None and not _is_older(stored, found)):
            self._sightings.pop(key, None)
        else:
            self._sightings[key] = _Sighting(found, time.monotonic())

    def _outdate_sighting(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        changed = new or old
        if changed is None:
            return
        key = key_of(changed)
        seen = self._sightings.get(key)
        if seen is None:
            return
        is_gone = new is None and seen.daemon_set.metadata.uid == changed.metadata.uid
        if is_gone or (new is not None and not _is_older(new, seen.daemon_set)):
            del self._sightings[key]


def _is_older(one: DaemonSet, other: DaemonSet) -> bool:
    """Whether the server wrote the first before the second; its versions are numbers that only grow."""
    first, second = one.metadata.resource_version, other.metadata.resource_version
    return first.isdecimal() and second.isdecimal() and int(first) < int(second)


def _owner(pod: Pod) -> Iterable[str]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner else ()


def _subject(event: Event) -> Iterable[str]:
    return (event.involved_object.uid,)
