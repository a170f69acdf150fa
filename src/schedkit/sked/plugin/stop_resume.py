"""`kubectl sked stop` and `resume`: one annotation for each SchedExt, and the patience to see what it does.

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

from schedkit.kube.errors import ConflictError, ForbiddenError, KubeError
from schedkit.kube.resources import Resource
from schedkit.model.api.reports import ReportStatus
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, STOP_KEY, VERSION
from schedkit.model.api.schema import ApiType
from schedkit.model.deploy.stops import Stop, annotations_with, annotations_without
from schedkit.model.report.stopping import Remaining, remaining, unwitnessed
from schedkit.sked.kinds import DAEMON_SETS
from schedkit.sked.plugin.cluster import Cluster, connect
from schedkit.sked.plugin.printing import FAILED, LACKS_RIGHTS, common, show, tell, told_plainly

_MANAGER_ANSWERS_S = 5.0
_LOOK_S = 0.5
_LOOK_S_A_NODE = 0.002  # a look at thousands of nodes costs the API server something
_TELL_S = 5.0
_TRIES = 5  # somebody else writes the same object now and then


class _AnnotatedMeta(ApiType, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class _Annotated(ApiType, frozen=True):
    """A SchedExt, whatever its spec says: an older plugin stops what a newer operator runs."""

    metadata: _AnnotatedMeta = _AnnotatedMeta()


_ANNOTATED = Resource(GROUP, VERSION, PLURAL, KIND, _Annotated)


class Stopping(msgspec.Struct, frozen=True, rename="camel"):
    """What a stop came to."""

    stopped: tuple[str, ...]
    nodes: int  # that ran one of them
    remaining: tuple[Remaining, ...] = ()
    unwitnessed: tuple[str, ...] = ()  # nodes of which the pod's end is all that is known
    missing_rights: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # what else the API server said


class Resumed(msgspec.Struct, frozen=True, rename="camel"):
    """What runs again."""

    resumed: tuple[str, ...]
    missing_rights: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


_targets = (
    click.argument("names", nargs=-1, metavar="[NAME]..."),
    click.option(
        "--all",
        "is_all",
        is_flag=True,
        help="All SchedExts, or all of the namespace that -n names.",
    ),
    click.option("-n", "--namespace", help="Namespace of the SchedExts. The context's if left out."),
)


def _with_targets(command: click.decorators.FC) -> click.decorators.FC:
    for each in reversed(_targets):
        command = each(command)
    return command


@click.command("stop")
@_with_targets
@click.option("--reason", default="", help="Why, for whoever finds it stopped.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120,
    show_default=True,
    help="Seconds to wait for nodes.",
)
@common
def stop(
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
    _demand_targets(names, is_all=is_all)
    with told_plainly():
        cluster = connect(kubeconfig, context)
        chosen = _chosen(cluster, names, namespace, is_all=is_all)
        found = _stop(cluster, chosen, reason, timeout)
    show(found, output, _stopping_lines(found))
    sys.exit(LACKS_RIGHTS if found.missing_rights else FAILED if found.remaining or found.problems else 0)


@click.command("resume")
@_with_targets
@common
def resume(
    names: tuple[str, ...],
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    *,
    is_all: bool,
) -> None:
    """Start again what was stopped; with --all, everything that is stopped."""
    _demand_targets(names, is_all=is_all)
    with told_plainly():
        cluster = connect(kubeconfig, context)
        chosen = _chosen(cluster, names, namespace, is_all=is_all)
        found = _resume(cluster, [each for each in chosen if STOP_KEY in each.metadata.annotations])
    show(found, output, _resumed_lines(found))
    sys.exit(LACKS_RIGHTS if found.missing_rights else FAILED if found.problems else 0)


def _resume(cluster: Cluster, at_rest: list[_Annotated]) -> Resumed:
    gaps, resumed = _Gaps(), []
    for each in at_rest:
        with gaps:
            _annotate(cluster, each, None)
            resumed.append(_name(each))
    return Resumed(tuple(resumed), tuple(gaps.rights), tuple(gaps.problems))


def _resumed_lines(found: Resumed) -> Iterator[str]:
    yield from (f"{each} starts again" for each in found.resumed)
    yield from (f"not started, because a right is missing: {each}" for each in found.missing_rights)
    yield from (f"not started: {each}" for each in found.problems)
    if not (found.resumed or found.missing_rights or found.problems):
        yield "no SchedExt of these was stopped"


def _demand_targets(names: tuple[str, ...], *, is_all: bool) -> None:
    if is_all == bool(names):
        raise click.UsageError("Name SchedExts, or give --all.")


def _chosen(
    cluster: Cluster, names: tuple[str, ...], namespace: str | None, *, is_all: bool
) -> list[_Annotated]:
    if is_all:
        return list(cluster.every(_ANNOTATED, namespace))
    place = namespace or cluster.namespace
    found = {each: cluster.find(_ANNOTATED, each, place) for each in names}
    if absent := [name for name, each in found.items() if each is None]:
        raise click.UsageError(
            f"there is no SchedExt {', '.join(absent)} in the namespace {place}: "
            "`kubectl sked get` lists them; -n names another namespace"
        )
    return [each for each in found.values() if each is not None]


class _Gaps:
    """What could not be done or seen; the rest goes on."""

    def __init__(self) -> None:
        self.rights: dict[str, None] = {}
        self.problems: dict[str, None] = {}

    def __enter__(self) -> None:
        """Begin something that may fail."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        """Note a failure of the API server, and go on behind the block."""
        if isinstance(error, ForbiddenError):
            self.rights[str(error)] = None
        elif isinstance(error, KubeError):
            self.problems[str(error)] = None
        return isinstance(error, KubeError)


def _annotate(cluster: Cluster, schedext: _Annotated, why: Stop | None) -> None:
    """Write the stop, or take it away; everybody else's annotations stay."""
    meta = schedext.metadata
    for attempt in range(_TRIES):
        found = cluster.find(_ANNOTATED, meta.name, meta.namespace)
        if found is None:
            return  # deleted meanwhile: that is the end of it
        try:
            cluster.change(_ANNOTATED, _patch(found, why), meta.name, meta.namespace)
        except ConflictError:
            if attempt == _TRIES - 1:
                raise
        else:
            return


def _patch(found: _Annotated, why: Stop | None) -> list[dict[str, object]]:
    meta = found.metadata
    wanted = annotations_with(why, meta.annotations) if why else annotations_without(meta.annotations)
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": wanted},
    ]


# Stop


def _stop(cluster: Cluster, chosen: list[_Annotated], reason: str, timeout_s: float) -> Stopping:
    """Nothing that fails for one of them keeps the others from being stopped."""
    gaps = _Gaps()
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    why = Stop(reason=reason, by=cluster.caller(), time=now)
    stopped = [each for each in chosen if _is_stopped(cluster, each, why, gaps)]
    # pods live on for their grace period: they still say where they are
    ran, before = _pods(cluster, stopped, gaps) or {}, _reports(cluster, gaps)
    _see_daemon_sets_go(cluster, stopped)
    left = _see_nodes_end(cluster, stopped, ran, timeout_s)
    return Stopping(
        stopped=tuple(_name(each) for each in stopped),
        nodes=len(set(ran.values())),
        remaining=left,
        unwitnessed=unwitnessed(ran, before),
        missing_rights=tuple(gaps.rights),
        problems=tuple(gaps.problems),
    )


def _is_stopped(cluster: Cluster, schedext: _Annotated, why: Stop, gaps: _Gaps) -> bool:
    with gaps:
        _annotate(cluster, schedext, why)
        tell(f"{_name(schedext)}: stopped; waiting for its nodes")
        return True
    tell(f"{_name(schedext)}: not stopped")
    return False


def _pods(cluster: Cluster, stopped: Iterable[_Annotated], gaps: _Gaps) -> dict[str, str] | None:
    """The nodes of the pods that run them, by the pods' uids; None: not all pods can be seen now."""
    with gaps:
        return {
            pod.metadata.uid: pod.spec.node_name
            for each in stopped
            for pod in cluster.pods_of(each.metadata.name, each.metadata.namespace)
        }
    return None


def _reports(cluster: Cluster, gaps: _Gaps) -> Mapping[str, ReportStatus]:
    with gaps:
        return cluster.reports()
    return {}


def _see_daemon_sets_go(cluster: Cluster, stopped: Iterable[_Annotated]) -> None:
    """The manager deletes them; where none does, the caller. Nodes show what failed here."""
    waiting, gaps = list(stopped), _Gaps()
    until = time.monotonic() + _MANAGER_ANSWERS_S
    while waiting and time.monotonic() < until:
        time.sleep(_LOOK_S)
        waiting = [each for each in waiting if _may_have_daemon_set(cluster, each, gaps)]
    for each in waiting:
        with gaps:
            if uid := _daemon_set_uid(cluster, each):
                tell(f"{_name(each)}: no manager has answered; its DaemonSet is deleted from here")
                cluster.delete(DAEMON_SETS, each.metadata.name, each.metadata.namespace, uid=uid)
    for words in (*gaps.rights, *gaps.problems):
        tell(f"its DaemonSet may be left: {words}")


def _may_have_daemon_set(cluster: Cluster, schedext: _Annotated, gaps: _Gaps) -> bool:
    with gaps:
        return bool(_daemon_set_uid(cluster, schedext))
    return True


def _daemon_set_uid(cluster: Cluster, schedext: _Annotated) -> str:
    """Of its DaemonSet, if it has one that nobody deletes; empty: it has not."""
    meta = schedext.metadata
    found = cluster.find(DAEMON_SETS, meta.name, meta.namespace)
    if found is None or found.metadata.deletion_timestamp is not None:
        return ""
    owner = found.metadata.controller
    return found.metadata.uid if owner is not None and owner.uid == meta.uid else ""


def _see_nodes_end(
    cluster: Cluster, stopped: list[_Annotated], ran: dict[str, str], timeout_s: float
) -> tuple[Remaining, ...]:
    """Look until no node is left, or the time is over; `ran` gets what comes to light meanwhile."""
    until, told_at = time.monotonic() + timeout_s, 0.0
    while True:
        gaps = _Gaps()  # of this look: what could not be seen once may be seen the next time
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


def _name(schedext: _Annotated) -> str:
    return f"{schedext.metadata.namespace}/{schedext.metadata.name}"


def _stopping_lines(found: Stopping) -> Iterator[str]:
    if not found.stopped:
        yield "no SchedExt was stopped"
    for each in found.stopped:
        namespace, _, name = each.partition("/")
        yield f"{each} is stopped; `kubectl sked resume {name} -n {namespace}` starts it again"
    if found.stopped:
        done = found.nodes - len({each.node for each in found.remaining})
        yield f"{done} of {found.nodes} nodes have ended it"
    for left in found.remaining:
        yield f"  {left.node}: {left.reason}; `kubectl sked explain {left.node}` says more"
    if found.unwitnessed:
        yield f"  no report proved it before, so pods alone say that it ended: {', '.join(found.unwitnessed)}"
    yield from (f"  not done or not seen, for lack of a right: {each}" for each in found.missing_rights)
    yield from (f"  not done or not seen: {each}" for each in found.problems)
