"""`kubectl sked get`: SchedExts, and the nodes that need attention."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from schedkit.kube.resources import Resource
from schedkit.model.api.schedext import GROUP, KIND, PLURAL, VERSION
from schedkit.model.report.overview import Entry, Listed, Overview, overview
from schedkit.sked.plugin.cluster import connect
from schedkit.sked.plugin.printing import common, show, table, told_plainly

_LISTED = Resource(GROUP, VERSION, PLURAL, KIND, Listed)
_HEAD = ("NAME", "READY", "ATTACHED", "REASON")


@click.command("get")
@click.option("-n", "--namespace", help="Namespace of the SchedExts. The context's if left out.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Those of every namespace.")
@common
def command(
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    *,
    all_namespaces: bool,
) -> None:
    """Show SchedExts with what their nodes' kernels run, and the nodes that need attention."""
    with told_plainly():
        cluster = connect(kubeconfig, context)
        place = None if all_namespaces else namespace or cluster.namespace
        found = overview(list(cluster.every(_LISTED, place)))
    show(found, output, _lines(found, place))


def _lines(found: Overview, place: str | None) -> Iterator[str]:
    if not found.items:
        where = f"in the namespace {place}: -A shows those of every namespace" if place else "in the cluster"
        yield f"there is no SchedExt {where}"
        return
    rows = [_HEAD, *(_row(each, place) for each in found.items)]
    heads = list(table(rows))
    yield heads[0]
    for each, line in zip(found.items, heads[1:], strict=True):
        yield line
        yield from _troubles(each)


def _row(entry: Entry, place: str | None) -> tuple[str, ...]:
    name = entry.name if place else f"{entry.namespace}/{entry.name}"
    return name, entry.ready, f"{entry.attached}/{entry.desired}", entry.reason


def _troubles(entry: Entry) -> Iterator[str]:
    if entry.ready != "True":
        yield f"  {entry.message}"
    for each in entry.troubled:
        yield f"  {each.name or 'no node yet'}: {each.reason}"
    if entry.more_troubled:
        yield f"  and {entry.more_troubled} more nodes in trouble"
