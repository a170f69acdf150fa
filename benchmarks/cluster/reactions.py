"""How long a single SchedExt waits for its DaemonSet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.cluster.api import Api
from benchmarks.cluster.contenders import Contender, running
from benchmarks.cluster.convergence import empty
from benchmarks.cluster.objects import Bodies, group_name, schedexts_path
from benchmarks.cluster.witness import Witness
from rig.cluster.controlplane import ControlPlane

_WARM_UP = 5  # the first ones pay for connections, and in Python for code that has not run yet
_PER_TURN = 50
_TIMEOUT_S = 60


async def measure(
    cluster: ControlPlane, api: Api, namespace: str, contenders: Sequence[Contender], samples: int
) -> Mapping[str, list[float]]:
    """For each contender the seconds from a SchedExt's request until its DaemonSet was seen by a watcher.

    They take turns, so that what else the machine does in the meantime meets all of them.
    """
    found: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for count in turns(samples):
        for contender in contenders:
            found[contender.name] += await _turn(cluster, api, namespace, contender, count)
    return found


def turns(samples: int) -> Iterator[int]:
    """How many samples each turn takes: about as many in the last as in the first."""
    number = -(-samples // _PER_TURN)
    return (samples * (turn + 1) // number - samples * turn // number for turn in range(number))


async def _turn(
    cluster: ControlPlane, api: Api, namespace: str, contender: Contender, count: int
) -> list[float]:
    with running(cluster, contender) as process:
        process.await_synced()
        async with Witness(api, namespace) as witness:
            seconds = [await _react(api, namespace, witness, index) for index in range(_WARM_UP + count)]
    await empty(api, namespace)
    return seconds[_WARM_UP:]


async def _react(api: Api, namespace: str, witness: Witness, index: int) -> float:
    """One at a time: the next is not written before the status of this one is right."""
    bodies = Bodies(namespace, f"reaction-{index:04d}", group_name(index))
    started = time.monotonic()
    await api.send("POST", schedexts_path(namespace), bodies.schedext)
    came = await witness.all_came([bodies.name], timeout_s=_TIMEOUT_S)
    await witness.all_reported([bodies.name], timeout_s=_TIMEOUT_S)
    return came - started
