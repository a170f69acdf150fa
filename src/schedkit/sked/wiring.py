"""Puts the operator together and runs it; nothing else constructs a client, an informer or a server."""

from __future__ import annotations

import asyncio
import ctypes
import datetime as dt
import gc
import os
import signal
import socket
import ssl
import uuid
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

import structlog

from schedkit import __version__
from schedkit.kube.access import config
from schedkit.kube.client import Client
from schedkit.kube.controller import Activity, serve
from schedkit.kube.events import Recorder
from schedkit.kube.lease import Elector
from schedkit.model.trust.rules import Rules, TrustMode
from schedkit.oci.policy import dated_root
from schedkit.sked.cache import Cluster
from schedkit.sked.http import certificates
from schedkit.sked.http.authorization import Gatekeeper
from schedkit.sked.http.metrics import Metrics
from schedkit.sked.http.probes import Health
from schedkit.sked.http.serving import listening
from schedkit.sked.permissions import LEASE_NAME
from schedkit.sked.reconcile import Reconciler
from schedkit.sked.settings import Address, Settings
from schedkit.sked.trust.messages import NEWER_ROOT
from schedkit.sked.trust.rules_folder import RuleFolder
from schedkit.sked.trust.verifications import Access, Verifications

CONTROLLER = "sked.schedkit.io/manager"
# the work at hand, then events about it, then the lease: all before the kubelet's patience ends
GRACE_S, EVENTS_S, RELEASE_S = 4.0, 2.0, 3.0
# asyncio gives every TLS connection a quarter of a megabyte to read into; dozens of them are a tenth of all
# that an operator of a big fleet needs. Nothing is lost with less: a TLS record has 16 KiB.
_TLS_BUFFER = 64 * 1024

_log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or Ctrl-C; raise `LeaseLostError` if another took over."""
    if settings.metrics_bind_address and settings.metrics_secure and settings.metrics_cert_path:
        certificates.Mounted(settings.metrics_cert_path)  # or raises, before a cluster is looked for
    connection = config.discover(settings.kubeconfig, context=settings.context)
    SSLProtocol.max_size = _TLS_BUFFER
    asyncio.run(_operate(settings, connection))


async def _operate(settings: Settings, connection: config.Connection) -> None:
    stop = _stop_on_signals()
    async with AsyncExitStack() as stack:
        manager = Manager(settings, connection, stack)
        await manager.run(stop)
    _log.info("manager_stopped")


class Manager:
    """All parts of the operator; they end with the stack."""

    def __init__(self, settings: Settings, connection: config.Connection, stack: AsyncExitStack) -> None:
        self._settings, self._stack, self._server = settings, stack, connection.address
        self._identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self._metrics = Metrics()
        self._client = Client(
            connection, user_agent=f"sked/{__version__} manager", observe=self._metrics.count_request
        )
        stack.push_async_callback(self._client.close)
        self._elector = self._make_elector()
        # what is written needs the lease; what is read, and asked about readers of metrics, does not
        acting = self._client.fenced(self._elector.fence) if self._elector else self._client
        self._recorder = Recorder(acting, controller=CONTROLLER, instance=self._identity)
        self._cluster = Cluster(self._client)
        # for the reader of rules and for the verifier: there is memory for one of them beside the manager
        turn = asyncio.Lock()
        self._rules = rules = RuleFolder(
            settings.trust_config,
            TrustMode(settings.trust_mode),
            default=TrustMode(settings.default_trust_mode),
            turn=turn,
        )
        self._reconciler = Reconciler(
            self._cluster,
            acting,
            self._recorder,
            self._make_verifications(rules, turn),
            observe=self._metrics.count_reconcile,
        )
        rules.listen(self._reconciler.decide_anew)
        self._background: list[Activity] = [self._recorder.run, rules.run]
        self._metrics.watch(self._cluster, self._reconciler.controllers, rules)

    def _make_verifications(self, rules: RuleFolder, turn: asyncio.Lock) -> Verifications:
        settings, counted = self._settings, self._metrics
        return Verifications(
            rules,
            Access(settings.registry_auth, settings.registry_ca, settings.insecure_registry),
            interval_s=settings.trust_interval,
            observe=counted.count_reconcile,
            count=counted.count_verification,
            turn=turn,
        )

    def _make_elector(self) -> Elector | None:
        if not self._settings.leader_elect:
            return None
        namespace = self._settings.namespace or self._client.namespace
        return Elector(
            self._client,
            name=LEASE_NAME,
            namespace=namespace,
            identity=self._identity,
            release_s=RELEASE_S,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve probes and metrics at once, and SchedExts as soon as it may."""
        _log.info("manager_started", version=__version__, server=self._server, process=os.getpid())
        if self._settings.enable_http2:
            _log.warning("http2_not_spoken", reason="servers speak HTTP/1.1 only: remove --enable-http2")
        await self._serve_probes()
        await self._rules.look()
        self._warn_of_old_root()
        self._rules.listen(self._warn_of_old_root)
        if (address := self._settings.metrics_bind_address) is not None:
            self._background.append(partial(self._serve_metrics, address))
        await serve(
            self._cluster.informers,
            self._reconciler.controllers,
            stop,
            lead=self._lead,
            beside=self._background,
            grace_s=GRACE_S,
        )

    def _warn_of_old_root(self) -> None:
        """Whoever runs an operator for long should hear of it before signatures are refused for that."""
        warning = old_root_warning(self._rules.rules, dt.datetime.now(dt.UTC).date())
        if warning is not None:
            _log.warning("trusted_root_old", reason=warning)

    async def _serve_probes(self) -> None:
        address = self._settings.health_probe_bind_address
        if address is None:
            return
        health = Health(self._cluster.informers)
        self._background.append(health.run)
        probes = listening(address, health.routes, flag="health-probe-bind-address")
        await self._stack.enter_async_context(probes)
        _log.info("probes_served", address=str(address))

    async def _serve_metrics(self, address: Address) -> None:
        """Beside the work, which does not wait for a certificate; until cancelled."""
        is_secure = self._settings.metrics_secure
        page = (
            Gatekeeper(self._client, "/metrics").guard(self._metrics.page)
            if is_secure
            else self._metrics.page
        )
        tls, keep = await self._metrics_tls() if is_secure else (None, asyncio.Event().wait)
        async with listening(address, {"/metrics": page}, tls, flag="metrics-bind-address"):
            _log.info("metrics_served", address=str(address), secure=is_secure)
            await keep()

    async def _metrics_tls(self) -> tuple[ssl.SSLContext, Callable[[], Awaitable[object]]]:
        """And what must go on for it to stay good."""
        folder = self._settings.metrics_cert_path
        if folder is None:
            return await certificates.self_signed(), asyncio.Event().wait
        mounted = certificates.Mounted(folder)
        return mounted.tls, mounted.run

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begin when the caches are full, and this process may."""
        _give_memory_back()
        await (self._elector.lead(partial(self._shift, work)) if self._elector else self._shift(work))

    async def _shift(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work, and tell what came of it before another may."""
        await work()
        await self._recorder.flush(within_s=EVENTS_S)


def _give_memory_back() -> None:
    """What the first lists needed is free by now, and what they left stays for long."""
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # only glibc knows how
        ctypes.CDLL(None).malloc_trim(0)


def old_root_warning(rules: Rules | None, today: dt.date) -> str | None:
    """What is to be said about the age of the operator's own root; None: nothing, or nobody asks it."""
    if rules is None or rules.mode is TrustMode.OFF or not rules.policy.asks_usual_root:
        return None
    return dated_root.embedded().warning(today, remedy=NEWER_ROOT)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
