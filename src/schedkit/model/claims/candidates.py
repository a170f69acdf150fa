"""Who may own nodes: SchedExts, and each of their pools."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum

import msgspec

from schedkit.model.api.pod_fields import Affinity, Toleration
from schedkit.model.deploy.render import claim_value

_MAX_LABEL_VALUE = 63
_CLAIM_DIGITS = 12


class Template(StrEnum):
    """Which nodes the pod template of a candidate's DaemonSet admits."""

    ABSENT = "absent"  # there is no DaemonSet
    OPEN = "open"  # nodes without a claim, or with its own
    CLOSED = "closed"  # nodes with its own claim alone
    DEAF = "deaf"  # all that it selects: from the time before claims, it reads no label


STARTING = frozenset({Template.OPEN, Template.DEAF})  # without a label


class StopNote(msgspec.Struct, frozen=True):
    """A stop of the whole SchedExt, as its annotation says it."""

    revision: str = ""  # of the spec that an eject storm stopped; empty: a human stopped it


class Candidate(msgspec.Struct, frozen=True):
    """A SchedExt, or one of its pools, that wants nodes."""

    claim: str  # the label value that stands for it: see `claim_of`
    namespace: str
    name: str
    pool: str = ""  # empty: the SchedExt itself, on what its pools leave
    place: int = 0  # among the pools of its SchedExt; of the SchedExt itself, behind them all
    created: datetime | None = None
    priority: int = 0  # as it was asked for: a ceiling may be lower
    selector: dict[str, str] = {}  # for a pool: with its SchedExt's own
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    architectures: frozenset[str] | None = None  # that its image has; None: not known
    revision: str = "-"  # changes with image and arguments
    max_unavailable: int | str = 1  # a number of nodes, or a percentage
    template: Template = Template.ABSENT
    asks_for_another_template: bool = False  # its pods are to change anyway
    may_run: bool = True  # whether rules and signatures let it
    stop: StopNote | None = None  # None: nobody stopped it
    is_suspended: bool = False  # by its spec: it wants no nodes
    is_leaving: bool = False  # taken out of its SchedExt's spec, or deleted with it

    @property
    def resource(self) -> str:
        """The SchedExt that it is of."""
        return f"{self.namespace}/{self.name}"

    @property
    def wants_nodes(self) -> bool:
        """Whether it competes; one that a human stopped does, so that nobody moves in meanwhile."""
        return not (self.is_suspended or self.is_leaving)

    @property
    def may_start(self) -> bool:
        """Whether a node that it gets would run something."""
        return self.wants_nodes and self.may_run and self.stop is None


def claim_of(namespace: str, name: str, pool: str = "") -> str:
    """The label value of a candidate; a SchedExt's own stands in pod templates that are in use.

    `/` is in no name: pool `b` of `a` is another one than a SchedExt `a-b`.
    """
    if not pool:
        return claim_value(namespace, name)
    digest = hashlib.sha256(f"{namespace}/{name}/{pool}".encode()).hexdigest()[:_CLAIM_DIGITS]
    readable = f"{name}-{pool}"[: _MAX_LABEL_VALUE - _CLAIM_DIGITS - 1].rstrip("-.")
    return f"{readable}-{digest}"


class Binding(msgspec.Struct, frozen=True):
    """What the administrator's rules leave to one namespace."""

    selector: dict[str, str] = {}  # of the nodes that it may have
    ceiling: int | None = None  # None: the cluster's


class Limits(msgspec.Struct, frozen=True):
    """What the administrator's rules say about claims."""

    ceiling: int = 0  # of priorities; without one in the rules, nobody goes before others
    namespaces: dict[str, Binding] = {}

    def priority_of(self, candidate: Candidate) -> int:
        """What counts of the priority that it asks for."""
        bound = self.namespaces.get(candidate.namespace)
        ceiling = self.ceiling if bound is None or bound.ceiling is None else bound.ceiling
        return min(candidate.priority, ceiling)

    def is_bound(self, candidate: Candidate) -> bool:
        """Whether its namespace may not have every node."""
        return candidate.namespace in self.namespaces
