"""`python -m benchmarks.cluster`: measure, and print targets with what was reached.

A missed target is printed as such and is no failure: the figures depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from dataclasses import fields

from benchmarks.cluster import reactions, report
from benchmarks.cluster.api import Api
from benchmarks.cluster.contenders import LIMITED_PEER, OURS, PEER, ROOT
from benchmarks.cluster.convergence import WRITER, Convergence, Course
from benchmarks.cluster.fleets import Fleet, FleetCost
from benchmarks.cluster.objects import ANYWHERE, REPORTS_PATH
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.targets import Results
from rig.base import polling, processes
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step
from rig.cluster import controlplane
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import ApiError

_CRDS = ROOT / "config/crd/bases"
_AGENTS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sked-node"}}


def main(arguments: list[str] | None = None) -> int:
    """Run it all; the exit code."""
    options = _parser().parse_args(arguments)
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    if sizes.nodes < sizes.schedexts:
        print("bench: each SchedExt needs a node of its own: give at least as many nodes", file=sys.stderr)
        return 64
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C does
    try:
        processes.sweep()
        results = asyncio.run(measure(sizes))
    except KeyboardInterrupt:
        return 130
    except (RigError, Unavailable) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print((report.render_json if options.output == "json" else report.render_text)(sizes, results))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-cluster", description=__doc__)
    for field in fields(Sizes):
        kind = float if field.name.endswith("_s") else int
        name = f"--{field.name.replace('_', '-')}"
        parser.add_argument(name, type=kind, default=field.default, help="default %(default)s")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


async def measure(sizes: Sizes) -> Results:
    """Everything, on one control plane, with the contenders in turns.

    The controller manager and the scheduler are stopped: what they do about a thousand DaemonSets would be
    most of what is measured, and it is the same whoever wrote them.
    """
    with controlplane.running("bench", fake_nodes=True) as cluster:
        _install_crds(cluster)
        namespace = cluster.create_namespace("bench")
        for name in ("kube-controller-manager", "kube-scheduler"):
            cluster.component(name).stop()
        async with Api(cluster.user(WRITER, group="system:masters")) as api:
            await Course(cluster, api, namespace, min(50, sizes.schedexts)).run_ceiling()  # to warm up
            convergences = await _converge(Course(cluster, api, namespace, sizes.schedexts), sizes)
            with step(f"{sizes.samples} reactions of each"):
                latencies = await reactions.measure(cluster, api, namespace, (OURS, PEER), sizes.samples)
            fleets = await _fleets(cluster, api, namespace, sizes)
    return Results(convergences, latencies, fleets)


def _install_crds(cluster: ControlPlane) -> None:
    cluster.apply(*(each.read_text() for each in sorted(_CRDS.glob("*.yaml"))), _AGENTS)

    def are_served() -> bool:
        try:
            return all("items" in cluster.client.get(path) for path in (ANYWHERE, REPORTS_PATH))
        except ApiError:  # not yet, or their storage is being made
            return False

    polling.until(are_served, "SchedExts and reports are served")


async def _converge(course: Course, sizes: Sizes) -> list[Convergence]:
    found: list[Convergence] = []
    for number in range(sizes.rounds):
        say(f"{sizes.schedexts} SchedExts at once, round {number + 1} of {sizes.rounds}")
        found.append(await course.run_ceiling())
        found += [await course.run(contender) for contender in (OURS, PEER)]
    with step(f"{sizes.schedexts} SchedExts at once, with the peer's rate limits"):
        found.append(await course.run(LIMITED_PEER))
    return found


async def _fleets(cluster: ControlPlane, api: Api, namespace: str, sizes: Sizes) -> list[FleetCost]:
    fleet = Fleet(cluster, api, namespace, sizes)
    await fleet.build()
    found: list[FleetCost] = []
    for number in range(sizes.rounds):
        say(f"the fleet, round {number + 1} of {sizes.rounds}")
        found += [await fleet.measure(contender) for contender in (OURS, PEER)]
    return found


if __name__ == "__main__":
    sys.exit(main())
