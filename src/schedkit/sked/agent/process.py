"""Puts the agent together and runs it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from schedkit import __version__
from schedkit.kernel import files, machine
from schedkit.kernel.syslog import Syslog
from schedkit.kernel.uevents import Listener
from schedkit.kube.access import config
from schedkit.kube.direct import DirectClient
from schedkit.model.api.schedextnode import NodeAgent, NodeKernel, SchedExtNodeStatus
from schedkit.model.kernel.sched_ext import KernelState
from schedkit.model.node.eject_counts import EjectCounts
from schedkit.model.node.report import Identity, report
from schedkit.model.readiness.facts import Facts, KernelFacts
from schedkit.model.readiness.table import Finding, examine
from schedkit.sked.agent import journal, probes
from schedkit.sked.agent.identity import Place, place_of_token
from schedkit.sked.agent.reporter import Reporter
from schedkit.sked.agent.watcher import Watcher
from schedkit.sked.settings import Address

BACKSTOP_S = 5.0
_MOVING_S = 0.1  # while the kernel changes from one state to another
_STALE_S = 60.0  # a look that is older makes the agent not ready


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Every flag of `sked agent`."""

    kubeconfig: Path | None  # None: KUBECONFIG, the pod's own, or ~/.kube/config
    context: str | None  # None: the kubeconfig's current one
    health_probe_bind_address: Address | None  # None: no probes are served
    root: Path
    metrics_bind_address: Address | None = None  # None: no metrics are served


def run(settings: AgentSettings) -> None:
    """Report until SIGTERM or Ctrl-C."""
    asyncio.run(_run(settings))


def look_once(root: Path) -> bytes:
    """What would be reported now, as JSON; whose node this is, the API server alone knows."""
    facts = machine.observe(root)
    identity = _identity(root, facts, Place("", "", ""))
    said = report(identity, Watcher(root, Syslog()).look(), examine(Facts(facts)), None)
    return msgspec.json.format(msgspec.json.encode(said), indent=2)


def _identity(root: Path, facts: KernelFacts, place: Place) -> Identity:
    boot_id = files.text(root / "proc/sys/kernel/random/boot_id") or ""
    return Identity(
        place.node_uid,
        NodeKernel(release=facts.release, architecture=facts.architecture, boot_id=boot_id),
        NodeAgent(version=__version__, pod_uid=place.pod_uid),
    )


async def _run(settings: AgentSettings) -> None:
    connection = config.discover(settings.kubeconfig, context=settings.context)
    place = place_of_token(await connection.credentials.token())
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = DirectClient(connection, f"sked/{__version__} agent")
    await Agent(settings, place, Reporter(client, place)).run(stop)


class Agent:
    """One node's kernel on one side, one object of the API server on the other."""

    def __init__(
        self, settings: AgentSettings, place: Place, reporter: Reporter, watcher: Watcher | None = None
    ) -> None:
        self._settings, self._place, self._reporter = settings, place, reporter
        self._watcher = watcher or Watcher(settings.root, Syslog())
        self._looked_at = float("-inf")
        self._wake = asyncio.Event()
        self._seen: SchedExtNodeStatus | None = None
        self._ejects = EjectCounts()

    def troubles(self) -> tuple[str, ...]:
        """Why the agent is not ready; empty: it is."""
        return tuple(self._troubles())

    def _troubles(self) -> Iterator[str]:
        if time.monotonic() - self._looked_at > _STALE_S:
            yield f"the kernel was not looked at for {_STALE_S:.0f} s"
        if self._reporter.is_overdue:
            refusal = self._reporter.refusal
            yield "the API server has not taken the report" + (f": {refusal}" if refusal else "")

    async def run(self, stop: asyncio.Event) -> None:
        """Look and report, until told to stop."""
        async with AsyncExitStack() as stack:
            if (address := self._settings.health_probe_bind_address) is not None:
                await stack.enter_async_context(probes.serving(address, self.troubles))
            self._hear(stack)
            facts = await asyncio.to_thread(machine.observe, self._settings.root)
            findings = examine(Facts(facts))
            identity = _identity(self._settings.root, facts, self._place)
            works = self._watch(identity, findings), self._reporter.run(), self._serve_metrics(), stop.wait()
            tasks = [asyncio.ensure_future(each) for each in works]
            for each in tasks:
                stack.callback(each.cancel)
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()  # what ended by itself has failed

    async def _serve_metrics(self) -> None:
        if (address := self._settings.metrics_bind_address) is None:
            await asyncio.Event().wait()
            return
        from schedkit.sked.agent import node_metrics  # noqa: PLC0415 - what it needs is as big as all the rest

        def seen() -> node_metrics.Seen:
            return node_metrics.Seen(self._seen, self._ejects)

        await node_metrics.serve(self._settings.root, self._reporter.connection, address, seen)

    def _hear(self, stack: AsyncExitStack) -> None:
        """Be woken by the kernel's announcements; without them, the backstop looks every few seconds."""
        try:
            listener = stack.enter_context(Listener())
        except OSError as error:
            journal.say("warning", "announcements_not_heard", reason=error.strerror)
            return
        loop = asyncio.get_running_loop()
        os.set_blocking(listener.fileno(), False)
        loop.add_reader(listener.fileno(), self._announced, listener)
        stack.callback(loop.remove_reader, listener.fileno())

    def _announced(self, listener: Listener) -> None:
        if list(listener.waiting()):  # all are taken, or the socket would stay readable
            self._wake.set()

    async def _watch(self, identity: Identity, findings: tuple[Finding, ...]) -> None:
        before = await self._resume(identity)
        while True:
            look = await asyncio.to_thread(self._watcher.look)
            self._looked_at = time.monotonic()
            before = report(identity, look, findings, before)
            self._ejects = self._ejects.after(before.exits)
            self._seen = before
            self._reporter.want(before)
            await self._pause(look.snapshot.kernel)

    async def _resume(self, identity: Identity) -> SchedExtNodeStatus | None:
        """What an earlier agent of this boot has reported; None: nothing, or nobody can say."""
        earlier = await self._reporter.read_patiently()
        if earlier is None or earlier.kernel.boot_id != identity.kernel.boot_id:
            return None
        self._watcher.resume(earlier)
        return earlier

    async def _pause(self, kernel: KernelState) -> None:
        """Until the kernel announces something, or the time of the backstop is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_MOVING_S if kernel.is_moving else BACKSTOP_S):
                await self._wake.wait()
        self._wake.clear()
