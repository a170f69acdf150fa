"""Puts the operator together and runs it; nothing else constructs a client, an informer or a server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from contextlib import AsyncExitStack

import structlog

from schedkit import __version__
from schedkit.kube import config
from schedkit.kube.client import Client
from schedkit.kube.controller import serve
from schedkit.kube.events import Recorder
from schedkit.kube.lease import Elector
from schedkit.sked.observing import Cluster
from schedkit.sked.reconcile import Reconciler
from schedkit.sked.settings import Settings

LEASE = "b4c95cb3.schedkit.io"
CONTROLLER = "sked.schedkit.io/manager"

_log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Run the operator until SIGTERM or Ctrl-C; raise `LeaseLostError` if another took over."""
    connection = config.discover(settings.kubeconfig, context=settings.context)
    asyncio.run(_operate(settings, connection))


async def _operate(settings: Settings, connection: config.Connection) -> None:
    stop = _stop_on_signals()
    identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection, user_agent=f"sked/{__version__} manager"))
        elector = _elector(settings, client, identity)
        acting = client.fenced(elector.fence) if elector else client
        recorder = Recorder(acting, controller=CONTROLLER, instance=identity)
        cluster = Cluster(client)
        reconciler = Reconciler(cluster, acting, recorder)
        events = asyncio.create_task(recorder.run())
        stack.callback(events.cancel)
        _log.info("manager_started", version=__version__, server=connection.server, process=os.getpid())
        await serve(
            cluster.informers,
            (reconciler.deploying, reconciler.reporting),
            stop,
            lead=elector.lead if elector else None,
        )
    _log.info("manager_stopped")


def _elector(settings: Settings, client: Client, identity: str) -> Elector | None:
    if not settings.leader_elect:
        return None
    namespace = settings.namespace or client.namespace
    return Elector(client, name=LEASE, namespace=namespace, identity=identity)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
