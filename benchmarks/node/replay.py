"""Many agents in one process, each on a kernel in a folder that does what it is told: run as a program.

It takes a file that lists nodes, then lines `eject NODE` and `attach NODE`. The kernel's announcement is
replayed as well: it wakes the agent, as a uevent would.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from schedkit.kernel import held_objects, observation
from schedkit.kernel.syslog import Syslog
from schedkit.kube.access import config
from schedkit.kube.direct import DirectClient
from schedkit.model.host.holders import MapsReading, SchedulerMap
from schedkit.sked.agent.identity import place_of_token
from schedkit.sked.agent.process import Agent, AgentSettings
from schedkit.sked.agent.reporter import Reporter
from schedkit.sked.agent.watcher import Watcher

_OPS, _HOLDER, _MAP, _LINK = "mini", 77, 13, 5
_INFO = f"pos:\t0\nlink_type:\tstruct_ops\nlink_id:\t{_LINK}\nmap_id:\t{_MAP}\n"
_KNOWN = MapsReading((SchedulerMap(_MAP, _OPS),), frozenset({_LINK}))
_STAT = f"{_HOLDER} ({_OPS}) " + " ".join(["1"] * 30)


class Replayed(msgspec.Struct, frozen=True):
    """A node, as its kernel and its API server know it."""

    name: str
    boot_id: str
    pod_uid: str  # whose scheduler it runs
    kubeconfig: str
    folder: str


class Kernel:
    """sysfs, procfs and the log."""

    def __init__(self, node: Replayed) -> None:
        self.root, self._seq = Path(node.folder), 0
        self._log = ["<5>[    0.000000] Linux version 7.2.0"]
        self._sysfs = self.root / "sys/kernel/sched_ext"
        (self._sysfs / "root").mkdir(parents=True)
        (self.root / "sys/kernel/btf").symlink_to("/sys/kernel/btf")
        for folder in ("self/ns", "sys/kernel/random", "1/fd", f"{_HOLDER}/fd", f"{_HOLDER}/fdinfo"):
            (self.root / "proc" / folder).mkdir(parents=True)
        (self.root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
        (self.root / "proc/sys/kernel/random/boot_id").write_text(node.boot_id)
        self._hold(self.root / f"proc/{_HOLDER}", node.pod_uid)
        self.attach()

    def _hold(self, process: Path, pod_uid: str) -> None:
        (process / "status").write_text(f"Name:\t{_OPS}\nPid:\t{_HOLDER}\nPPid:\t1\n")
        (process / "stat").write_text(_STAT)
        (process / "cgroup").write_text(f"0::/kubepods/pod{pod_uid}/{'a' * 64}\n")
        (process / "fd/4").symlink_to("anon_inode:bpf_link")
        (process / "fdinfo/4").write_text(_INFO)

    def attach(self) -> None:
        """The pod's scheduler, anew."""
        self._seq += 1
        self._say("enabled", _OPS)

    def eject(self) -> None:
        """As the watchdog does."""
        at = time.monotonic()
        self._log += [
            f'<3>[{at:12.6f}] sched_ext: BPF scheduler "{_OPS}" disabled (runnable task stall)',
            f"<3>[{at + 0.000010:12.6f}] sched_ext: {_OPS}: victim[458] failed to run for 2.044s",
        ]
        self._say("disabled", "")

    def _say(self, state: str, ops: str) -> None:
        for file, text in (("root/ops", ops), ("enable_seq", str(self._seq)), ("state", state)):
            (self._sysfs / file).write_text(f"{text}\n")

    def log(self, _: int | None) -> bytes:
        """For `Syslog`."""
        return "".join(f"{line}\n" for line in self._log).encode()


async def _agent(node: Replayed, kernel: Kernel) -> Agent:
    connection = config.discover(Path(node.kubeconfig), context=None)
    place = place_of_token(await connection.credentials.token())
    reporter = Reporter(DirectClient(connection, "sked/bench agent"), place)
    gather = partial(held_objects.gather, maps=lambda _: _KNOWN)
    observe = partial(observation.observe, gather=gather)
    watcher = Watcher(kernel.root, Syslog(kernel.log), observe=observe)
    return Agent(AgentSettings(None, None, None, kernel.root), place, reporter, watcher)


async def main(nodes: list[Replayed]) -> None:
    """Until nobody tells anything more."""
    kernels = {node.name: Kernel(node) for node in nodes}
    agents = {node.name: await _agent(node, kernels[node.name]) for node in nodes}
    stop = asyncio.Event()
    work = asyncio.gather(*(each.run(stop) for each in agents.values()))
    while line := await asyncio.to_thread(sys.stdin.readline):
        word, name = line.split()
        (kernels[name].eject if word == "eject" else kernels[name].attach)()
        agents[name]._wake.set()  # noqa: SLF001 - as an announcement does
    stop.set()
    await work


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=list[Replayed])))
