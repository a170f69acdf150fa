"""`kubectl sked stop`: one annotation for each SchedExt, and the patience to see what it does.

A stop works without a manager too: then the DaemonSets are deleted from here, and a manager that comes back
reads the annotation and makes none again.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click
import msgspec

from schedkit.model.api.reports import ReportStatus
from schedkit.model.deploy.stops import Stop
from schedkit.model.report.stopping import Remaining, remaining, unwitnessed
from schedkit.sked.kinds import DAEMON_SETS
from schedkit.sked.plugin.cluster import Cluster, connect
from schedkit.sked.plugin.exit_codes import exit_code
from schedkit.sked.plugin.printing import common, show, tell, told_plainly
from schedkit.sked.plugin.targets import Gaps, Target, annotate, chosen_targets, demand_targets, with_targets

_MANAGER_ANSWERS_S = 5.0
_LOOK_S = 0.5
_LOOK_S_A_NODE = 0.002  # a look at thousands of nodes costs the API server something
_TELL_S = 5.0


class Stopping(msgspec.Struct, frozen=True, rename="camel"):
    """What a stop came to."""

    stopped: tuple[str, ...]
    nodes: int  # that ran one of them
    deleted: tuple[str, ...] = ()  # before they could be stopped
    remaining: tuple[Remaining, ...] = ()
    unwitnessed: tuple[str, ...] = ()  # nodes of which the pod's end is all that is known
    missing_rights: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what else the API server said


@click.command("stop")
@with_targets
@click.option("--reason", default="", help="Why, for whoever finds it stopped.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120,
    show_default=True,
    help="Seconds to wait for nodes.",
)
@common
def command(
    names: tuple[str, ...],
    namespace: str | None,
    reason: str,
    timeout: float,
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    *,
    is_all: bool,
) -> None:
    """Stop SchedExts: their schedulers end on every node, and stay away until `resume`.

    The command ends when the kernels say that the schedulers are gone, or names the nodes where they are not.
    """
    demand_targets(names, is_all=is_all)
    with told_plainly():
        cluster = connect(kubeconfig, context)
        chosen = chosen_targets(cluster, names, namespace, is_all=is_all)
        found = _stop(cluster, chosen, reason, timeout)
    show(found, output, _lines(found))
    has_failed = bool(found.remaining or found.problems)
    sys.exit(exit_code(lacks_rights=bool(found.missing_rights), has_failed=has_failed))


def _stop(cluster: Cluster, chosen: list[Target], reason: str, timeout_s: float) -> Stopping:
    """Nothing that fails for one of them keeps the others from being stopped."""
    gaps = Gaps()
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    why = Stop(reason=reason, by=cluster.caller(), time=now)
    found = [(each, _is_stopped(cluster, each, why, gaps)) for each in chosen]
    ending = [each for each, is_stopped in found if is_stopped is not None]
    # pods live on for their grace period: they still say where they are
    ran, before = _pods(cluster, ending, gaps) or {}, _reports(cluster, gaps)
    _see_daemon_sets_go(cluster, ending)
    left = _see_nodes_end(cluster, ending, ran, timeout_s)
    return Stopping(
        stopped=tuple(each.full_name for each, is_stopped in found if is_stopped),
        nodes=len(set(ran.values())),
        deleted=tuple(each.full_name for each, is_stopped in found if is_stopped is False),
        remaining=left,
        unwitnessed=unwitnessed(ran, before),
        missing_rights=tuple(gaps.rights),
        problems=tuple(gaps.problems),
    )


def _is_stopped(cluster: Cluster, schedext: Target, why: Stop, gaps: Gaps) -> bool | None:
    """False: it was deleted meanwhile, so that its nodes end it as well; None: neither."""
    with gaps:
        is_there = annotate(cluster, schedext, why)
        became = "stopped" if is_there else "deleted meanwhile"
        tell(f"{schedext.full_name}: {became}; waiting for its nodes")
        return is_there
    tell(f"{schedext.full_name}: not stopped")
    return None


def _pods(cluster: Cluster, stopped: Iterable[Target], gaps: Gaps) -> dict[str, str] | None:
    """The nodes of the pods that run them, by the pods' uids; None: not all pods can be seen now."""
    with gaps:
        return {
            pod.metadata.uid: pod.spec.node_name
            for each in stopped
            for pod in cluster.pods_of(each.metadata.name, each.metadata.namespace)
        }
    return None


def _reports(cluster: Cluster, gaps: Gaps) -> Mapping[str, ReportStatus]:
    with gaps:
        return cluster.reports()
    return {}


def _see_daemon_sets_go(cluster: Cluster, stopped: Iterable[Target]) -> None:
    """The manager deletes them; where none does, the caller. Nodes show what failed here."""
    waiting, gaps = list(stopped), Gaps()
    until = time.monotonic() + _MANAGER_ANSWERS_S
    while waiting and time.monotonic() < until:
        time.sleep(_LOOK_S)
        waiting = [each for each in waiting if _may_have_daemon_set(cluster, each, gaps)]
    for each in waiting:
        with gaps:
            if uid := _daemon_set_uid(cluster, each):
                tell(f"{each.full_name}: no manager has answered; its DaemonSet is deleted from here")
                cluster.delete(DAEMON_SETS, each.metadata.name, each.metadata.namespace, uid=uid)
    for words in (*gaps.rights, *gaps.problems):
        tell(f"its DaemonSet may be left: {words}")


def _may_have_daemon_set(cluster: Cluster, schedext: Target, gaps: Gaps) -> bool:
    with gaps:
        return bool(_daemon_set_uid(cluster, schedext))
    return True


def _daemon_set_uid(cluster: Cluster, schedext: Target) -> str:
    """Of its DaemonSet, if it has one that nobody deletes; empty: it has not."""
    meta = schedext.metadata
    found = cluster.find(DAEMON_SETS, meta.name, meta.namespace)
    if found is None or found.metadata.deletion_timestamp is not None:
        return ""
    owner = found.metadata.controller
    return found.metadata.uid if owner is not None and owner.uid == meta.uid else ""


def _see_nodes_end(
    cluster: Cluster, stopped: list[Target], ran: dict[str, str], timeout_s: float
) -> tuple[Remaining, ...]:
    """Look until no node is left, or the time is over; `ran` gets what comes to light meanwhile."""
    until, told_at = time.monotonic() + timeout_s, 0.0
    while True:
        gaps = Gaps()  # of this look: what could not be seen once may be seen the next time
        pods = _pods(cluster, stopped, gaps)
        ran |= pods or {}  # a manager whose cache is behind may have made one more
        left = remaining(ran, pods, _reports(cluster, gaps))
        if not left or time.monotonic() >= until:
            return left
        if time.monotonic() - told_at >= _TELL_S:
            told_at = time.monotonic()
            first = f"such as {left[0].node}: {left[0].reason}"
            tell(f"{len(left)} of {len(set(ran.values()))} nodes are left, {first}")
        time.sleep(max(_LOOK_S, len(ran) * _LOOK_S_A_NODE))


def _lines(found: Stopping) -> Iterator[str]:
    if not found.stopped:
        yield "no SchedExt was stopped"
    for each in found.deleted:
        yield f"{each} was deleted meanwhile: its nodes end it, and nothing starts it again"
    for each in found.stopped:
        namespace, _, name = each.partition("/")
        yield f"{each} is stopped; `kubectl sked resume {name} -n {namespace}` starts it again"
    if found.stopped or found.deleted:
        done = found.nodes - len({each.node for each in found.remaining})
        yield f"{done} of {found.nodes} nodes have ended it"
    for left in found.remaining:
        yield f"  {left.node}: {left.reason}; `kubectl sked explain {left.node}` says more"
    if found.unwitnessed:
        yield f"  no report proved it before, so pods alone say that it ended: {', '.join(found.unwitnessed)}"
    yield from (f"  not done or not seen, for lack of a right: {each}" for each in found.missing_rights)
    yield from (f"  not done or not seen: {each}" for each in found.problems)
