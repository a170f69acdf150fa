"""`kubectl sked resume`: the annotation of a stop is taken away, and the manager does the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from schedkit.model.api.schedext import STOP_KEY
from schedkit.sked.plugin.cluster import Cluster, connect
from schedkit.sked.plugin.exit_codes import exit_code
from schedkit.sked.plugin.printing import common, show, told_plainly
from schedkit.sked.plugin.targets import Gaps, Target, annotate, chosen_targets, demand_targets, with_targets


class Resumed(msgspec.Struct, frozen=True, rename="camel"):
    """What runs again."""

    resumed: tuple[str, ...]
    deleted: tuple[str, ...] = ()  # before they could be started again
    missing_rights: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@click.command("resume")
@with_targets
@common
def command(
    names: tuple[str, ...],
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    *,
    is_all: bool,
) -> None:
    """Start again what was stopped; with --all, everything that is stopped."""
    demand_targets(names, is_all=is_all)
    with told_plainly():
        cluster = connect(kubeconfig, context)
        chosen = chosen_targets(cluster, names, namespace, is_all=is_all)
        found = _resume(cluster, [each for each in chosen if STOP_KEY in each.metadata.annotations])
    show(found, output, _lines(found))
    sys.exit(exit_code(lacks_rights=bool(found.missing_rights), has_failed=bool(found.problems)))


def _resume(cluster: Cluster, at_rest: list[Target]) -> Resumed:
    gaps = Gaps()
    resumed: list[str] = []
    deleted: list[str] = []
    for each in at_rest:
        with gaps:
            is_there = annotate(cluster, each, None)
            (resumed if is_there else deleted).append(each.full_name)
    return Resumed(tuple(resumed), tuple(deleted), tuple(gaps.rights), tuple(gaps.problems))


def _lines(found: Resumed) -> Iterator[str]:
    yield from (f"{each} starts again" for each in found.resumed)
    yield from (f"{each} was deleted meanwhile: nothing of it starts again" for each in found.deleted)
    yield from (f"not started, because a right is missing: {each}" for each in found.missing_rights)
    yield from (f"not started: {each}" for each in found.problems)
    if not (found.resumed or found.deleted or found.missing_rights or found.problems):
        yield "no SchedExt of these was stopped"
