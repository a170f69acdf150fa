"""One agent on one machine, idle: memory, processor, and what it asks the API server."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster.processes import cpu_s, memory
from benchmarks.node.targets import Idle, Sizes
from rig.base import polling
from rig.base.processes import Process
from rig.base.progress import step
from rig.cluster.controlplane import ControlPlane
from rig.cluster.fakenodes import node_object
from rig.operator import agents

_HERE = Path(__file__).parent
_WRITING = ("create", "update", "patch", "delete")
_SETTLING_S = 15.0  # after the start: a certificate is made, and the first report is written


@dataclass(frozen=True)
class Bench:
    """Where agents are measured."""

    cluster: ControlPlane
    sizes: Sizes

    def idle(self, what: str, *, has_metrics: bool = False) -> Idle:
        """An agent that has nothing to report for a while."""
        pool = f"bench-{what.replace(' ', '-')}"
        name: str = self.cluster.client.create("/api/v1/nodes", node_object(pool, 1))["metadata"]["name"]
        kernel = self._kernel(name)
        with agents.running(self.cluster, name, has_metrics=has_metrics, kernel=kernel) as agent:
            time.sleep(_SETTLING_S)
            with step(f"{what}: {self.sizes.idle_s} idle seconds"):
                return self._watch(what, agent)

    def _watch(self, what: str, agent: agents.Agent) -> Idle:
        pid, since, began = agent.process.pid, self.cluster.audit_log.position(), time.monotonic()
        before = cpu_s(pid)
        time.sleep(self.sizes.idle_s)
        used, took = cpu_s(pid) - before, time.monotonic() - began
        asked = list(self.cluster.audit(since=since, resource="schedextnodes"))
        writes = sum(each.verb in _WRITING and each.name == agent.node for each in asked)
        held = memory(pid)
        return Idle(what, held.rss, held.pss, held.peak, 100 * used / took, writes, os.getloadavg()[0])

    def _kernel(self, name: str) -> Path:
        """A kernel that runs a scheduler of which nobody can be proved to be the owner: the dearest case."""
        root = self.cluster.folder / f"{name}-root"
        folder = root / "sys/kernel/sched_ext"
        (folder / "root").mkdir(parents=True)
        for file, text in (("state", "enabled"), ("root/ops", "mini"), ("enable_seq", "1")):
            (folder / file).write_text(f"{text}\n")
        (root / "sys/kernel/btf").symlink_to("/sys/kernel/btf")
        (root / "proc").symlink_to("/proc")
        return root


@contextmanager
def crowded(cluster: ControlPlane, sizes: Sizes) -> Iterator[None]:
    """A machine with that many processes and open files beside its own."""
    log = cluster.folder / "crowd.log"
    words: list[str | Path] = [sys.executable, _HERE / "crowd.py", str(sizes.processes), str(sizes.files)]
    crowd = Process(words, log=log)
    try:
        with step(f"{sizes.processes} processes and {sizes.files} open files"):
            polling.until(lambda: "ready" in log.read_text(), "the crowd is there", timeout_s=180)
        yield
    finally:
        crowd.stop()
