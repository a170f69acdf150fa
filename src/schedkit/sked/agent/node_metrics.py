"""What a node's kernel runs, in the text form that Prometheus reads; imported only if somebody wants it."""

from __future__ import annotations

import asyncio
import re
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import prometheus_client as prometheus
import structlog
from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from schedkit import __version__
from schedkit.kernel import sysfs
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.model.api.schedextnode import SchedExtNodeStatus
from schedkit.model.kernel.sched_ext import State
from schedkit.model.node.eject_counts import EjectCounts
from schedkit.sked import logs
from schedkit.sked.http import certificates
from schedkit.sked.http.authorization import Gatekeeper
from schedkit.sked.http.serving import listening
from schedkit.sked.settings import Address

_log = structlog.get_logger()
_CONTENT = {"Content-Type": prometheus.CONTENT_TYPE_LATEST}
# every node is asked by the same few readers: two reviews a reader, node and ten minutes
_GRANTED_S = 600.0
_EVENT = re.compile(r"[A-Za-z0-9_]{1,64}")
_MAX_EVENTS = 64  # a kernel has a dozen
_NAME = "sked-node-agent"
_TLS_BUFFER = 64 * 1024  # asyncio gives each connection a quarter of a megabyte


class Seen(NamedTuple):
    """What an agent knows."""

    status: SchedExtNodeStatus | None  # None: it has not looked yet
    ejects: EjectCounts


async def serve(root: Path, connection: Connection, address: Address, seen: Callable[[], Seen]) -> None:
    """Answer those who may read it, until cancelled."""
    logs.set_up("json", "info")
    SSLProtocol.max_size = _TLS_BUFFER
    page = Page(root, seen)
    async with Client(connection, user_agent=f"sked/{__version__} agent") as client:
        guarded = Gatekeeper(client, "/metrics", granted_s=_GRANTED_S).guard(page.show)
        tls = await certificates.self_signed(_NAME)
        async with listening(address, {"/metrics": guarded}, tls, flag="metrics-bind-address"):
            _log.info("metrics_served", address=str(address))
            await asyncio.Event().wait()


class Page(Collector):
    """Numbers that are looked up when somebody asks for them."""

    def __init__(self, root: Path, seen: Callable[[], Seen]) -> None:
        self._root, self._seen = root, seen
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    async def show(self, _: web.BaseRequest) -> web.Response:
        """All of it."""
        return web.Response(body=self.text(), headers=_CONTENT)

    def text(self) -> bytes:
        """All of it, as it is now."""
        return prometheus.generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing before it is asked for."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The kernel's own numbers are of this moment, whose it is of the last look."""
        kernel, seen = sysfs.read(self._root), self._seen()
        state = GaugeMetricFamily("sked_node_state", "1: the kernel's state of sched_ext.", labels=["state"])
        for each in State:
            state.add_metric([each.value], float(each is kernel.state))
        yield state
        yield _counter("sked_node_enables", "Schedulers that were attached since boot.", kernel.enable_seq)
        events = [(name, value) for name, value in kernel.events.items() if _EVENT.fullmatch(name)]
        yield _counters(
            "sked_node_events",
            "The kernel's counters of events, of the scheduler that is attached.",
            "event",
            dict(events[:_MAX_EVENTS]),
        )
        yield from _of_looks(seen)


def _of_looks(seen: Seen) -> Iterator[Metric]:
    if seen.status is None:
        return
    attached = GaugeMetricFamily(
        "sked_node_attached", "1: a scheduler is attached, of an owner of that kind.", labels=["owner"]
    )
    attached.add_metric([seen.status.owner.kind.value], float(seen.status.state == State.ENABLED.value))
    yield attached
    kinds = {str(kind): count for kind, count in seen.ejects.by_kind.items()}
    yield _counters("sked_node_ejects", "Schedulers that the kernel ejected, by its kind.", "kind", kinds)
    last = seen.status.exits[-1].time if seen.status.exits else None
    if last is not None:
        yield GaugeMetricFamily(
            "sked_node_last_exit_timestamp_seconds",
            "When the last scheduler ended, by the node's clock.",
            value=last.timestamp(),
        )


def _counter(name: str, text: str, value: int | None) -> Metric:
    return CounterMetricFamily(name, text, value=value or 0)


def _counters(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
