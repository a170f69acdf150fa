"""`kubectl sked explain NODE`: what its kernel runs, for whom, and how the last schedulers ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import click

from schedkit.kube.errors import ForbiddenError, UnauthorizedError
from schedkit.model.api.pods import Pod
from schedkit.model.deploy.render import MANAGED_BY, MANAGER
from schedkit.model.report.explanation import Evidence, Explanation, explain
from schedkit.sked.kinds import NODES, PODS, SCHEDEXT_NODES
from schedkit.sked.plugin.cluster import Cluster, connect
from schedkit.sked.plugin.exit_codes import exit_code
from schedkit.sked.plugin.printing import common, show, told_plainly

T = TypeVar("T")


@click.command("explain")
@click.argument("node")
@common
def command(node: str, kubeconfig: Path | None, context: str | None, output: str) -> None:
    """Say what the kernel of NODE runs, for whom, and how the last schedulers ended there."""
    with told_plainly():
        found, is_known = _look(connect(kubeconfig, context), node)
    show(found, output, _lines(found))
    sys.exit(exit_code(lacks_rights=bool(found.missing_rights), has_failed=not is_known))


def _look(cluster: Cluster, name: str) -> tuple[Explanation, bool]:
    """What can be seen; what the caller may not read is named."""
    lacking: dict[str, str] = {}

    def seen(what: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except UnauthorizedError:
            raise  # a login that is not valid lacks no single right
        except ForbiddenError as error:
            lacking[what] = str(error)
            return otherwise

    node = seen("node", lambda: cluster.find(NODES, name), None)
    report = seen("report", lambda: cluster.find(SCHEDEXT_NODES, name), None)
    selection = {"fieldSelector": f"spec.nodeName={name}", "labelSelector": f"{MANAGED_BY}={MANAGER}"}
    nothing: tuple[Pod, ...] = ()
    pods = seen("pods", lambda: tuple(cluster.every(PODS, **selection)), nothing)
    evidence = Evidence(node, report.status if report else None, pods, frozenset(lacking))
    return explain(name, evidence, tuple(lacking.values())), node is not None or report is not None


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{found.node}: {found.kernel}"
    if found.owner:
        yield f"  owner: {found.owner}"
    yield f"  eligible: {found.eligible}"
    for each in found.occupants:
        state = "owns the kernel's scheduler" if each.owns_kernel else "has a pod here, and does not own it"
        yield f"  SchedExt {each.schedext} {state}"
    for ended in found.exits:
        yield f"  {ended}"
    for remark in found.remarks:
        yield f"  {remark}"
    for right in found.missing_rights:
        yield f"  not seen, for lack of a right: {right}"
