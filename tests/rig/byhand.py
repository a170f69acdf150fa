"""The rigs for a person at a terminal: a cluster until Ctrl-C, a command in a VM, a demonstration."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import yaml

from rig.base import host_names
from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step
from rig.builders import kubernetes_objects
from rig.cluster import controlplane, kubernetes, minors, node
from rig.cluster.controlplane import ControlPlane
from rig.cluster.node import Node
from rig.guest import kernels, schedulers, vm
from rig.guest.kernels import Kernel
from rig.registries.registry import Registry
from rig.runtimes import images

_LOOK = "cd /sys/kernel/sched_ext; echo state=$(cat state) ops=$(cat root/ops 2>/dev/null || echo -)"
_WATCH = f'while now=$({_LOOK}); do [ "$now" = "${{last-}}" ] || echo "$now"; last=$now; sleep 1; done'
_AWAIT_ENABLED = "for i in $(seq 300); do grep -qx enabled state && exit 0; sleep 0.1; done; exit 1"
_KERNELS_OF_NODES = ("7", "6")
_POLL_S = 0.1
_CHUNK = 65_536
# whoever waits at a terminal can end it, and a guest on a busy machine is slow, not dead
_PATIENCE_S = 600.0


def build_control_plane() -> int:
    """Obtain the programs of another Kubernetes, and say where they are."""
    if not minors.asked():
        raise RigError("no version of Kubernetes is named: set for example VERSION=1.30")
    say(f"the control plane is Kubernetes {kubernetes.version()}, in {kubernetes.binaries()}")
    return 0


def run_in_vm(command: str, *, kind: str, timeout_s: float) -> int:
    """Boot, run the command, pass on what it says; its exit code."""
    with booted(kernels.obtain(kind), "by-hand") as guest:
        return attend(guest, command, Streams(sys.stdout.buffer, sys.stderr.buffer), timeout_s=timeout_s)


@contextmanager
def booted(kernel: Kernel, name: str) -> Iterator[vm.Guest]:
    """A guest for somebody who waits for it, and who is told that it is on its way."""
    what = f"kernel {kernel.release}" + (f" ({kernel.note})" if kernel.note else "")
    with ExitStack() as stack:
        with step(f"{what}: booting in a virtual machine, which cannot write to this machine's disk"):
            settings = vm.Settings(name=name, boot_timeout_s=_PATIENCE_S)
            guest = stack.enter_context(vm.Guest(kernel, settings))
        yield guest


class Streams(NamedTuple):
    """Where to pass on what a command says."""

    output: BinaryIO
    errors: BinaryIO


def attend(guest: vm.Guest, command: str, streams: Streams, *, timeout_s: float) -> int:
    """Run a command and pass on what it says as it says it, whatever becomes of it; its exit code."""
    name = guest.begin(command, apart=True)
    files = (guest.output_file(name), guest.errors_file(name))
    passages = [Passage(file, stream) for file, stream in zip(files, streams, strict=True)]
    deadline = time.monotonic() + timeout_s
    try:
        while not guest.has_ended(name):
            if time.monotonic() > deadline:
                raise RigError(f"{guest.overrun(timeout_s)}\nto wait longer, set TIMEOUT to more seconds")
            for passage in passages:
                passage.pass_on()
            time.sleep(_POLL_S)
    finally:
        for passage in passages:
            passage.pass_on()
    return guest.await_end(name, timeout_s=1).exit_code


class Passage:
    """Passes on what is added to a file that need not be there yet."""

    def __init__(self, source: Path, target: BinaryIO) -> None:
        self._source = source
        self._target = target
        self._position = 0

    def pass_on(self) -> None:
        """Copy what came since the last time; Ctrl-C in the middle may repeat a bit, but loses nothing."""
        if not self._source.exists():
            return
        with self._source.open("rb") as source:
            end = source.seek(0, os.SEEK_END)  # no further: who writes faster than we read would keep us here
            if end < self._position:
                self._position = 0  # emptied by its writer: `echo … > /dev/stderr` does that
            source.seek(self._position)
            while chunk := source.read(min(_CHUNK, end - self._position)):
                self._target.write(chunk)
                self._position += len(chunk)
        self._target.flush()


def keep_cluster(nodes: int, *, timeout_s: float = _PATIENCE_S) -> None:
    """Keep a control plane, and for real nodes a registry and the nodes, until Ctrl-C.

    A node that does not come up within that time, or dies, leaves the rest as it is.
    """
    if nodes:
        host_names.learn()
    with ExitStack() as stack:
        with step("a control plane: starting"):
            cluster = stack.enter_context(controlplane.running("by-hand", fake_nodes=not nodes))
        print(_greeting(cluster), flush=True)
        try:
            started = stack.enter_context(_real_nodes(cluster, nodes, timeout_s)) if nodes else []
        except (RigError, Unavailable) as error:
            say(f"{error}\n{_without_nodes(timeout_s)}; {_how_to_end()}")
            started = []
        else:
            say(f"{_ready(started)}; {_how_to_end()}")
        _tell_changes(started)


def _without_nodes(timeout_s: float) -> str:
    longer = f"make cluster NODES=1 TIMEOUT={2 * timeout_s:g}"
    return f"the control plane stays, without nodes. To try again and wait longer: `{longer}`"


def demonstrate() -> int:
    """What the kernel says before, while and after a scheduler is attached."""
    binary = shlex.quote(str(schedulers.binary("fifo")))
    with booted(kernels.obtain("7"), "demo") as guest:
        print(f"kernel:   {guest.run('uname -r').output.strip()}", flush=True)
        print(f"before:   {guest.run(_LOOK).output.strip()}", flush=True)
        scheduler = guest.begin(f"exec {binary}")
        attached = guest.run(f"cd /sys/kernel/sched_ext; {_AWAIT_ENABLED}")
        print(f"attached: {guest.run(_LOOK).output.strip()}", flush=True)
        guest.run(f"pkill -TERM -f {binary}")
        ended = guest.await_end(scheduler, timeout_s=60)
        print(f"after:    {guest.run(_LOOK).output.strip()}", flush=True)
        print(f"the scheduler's last words: {ended.output.strip().splitlines()[-1]}", flush=True)
        return attached.exit_code or ended.exit_code


@contextmanager
def _real_nodes(cluster: ControlPlane, count: int, timeout_s: float) -> Iterator[Sequence[Node]]:
    """Nodes in VMs and a registry with schedulers for them; says what is ready when."""
    with node.registry_for(cluster) as registry:
        samples = _offer_schedulers(cluster, registry)
        kinds = _KERNELS_OF_NODES[:count]
        nodes = node.plan(cluster, registry, kinds, boot_timeout_s=timeout_s)
        booting = " and ".join(f"{each.name} ({each.guest.kernel.release})" for each in nodes)
        with ExitStack() as stack:
            with step(f"{booting}: booting and joining, until then pods stay Pending"):
                stack.enter_context(node.running(*nodes))
            print(_invitation(registry, samples), flush=True)
            yield nodes


def _offer_schedulers(cluster: ControlPlane, registry: Registry) -> Path:
    """Push our schedulers, and write a manifest for each; the folder of the manifests."""
    folder = cluster.folder / "schedulers"
    folder.mkdir()
    for name, scheduler in schedulers.catalog().items():
        digest = registry.client.push(images.scheduler(name), f"rig/{name}", scheduler.version)
        reference = f"{registry.named_host}/rig/{name}@{digest}"
        manifest = kubernetes_objects.scheduler_daemon_set(name.replace("_", "-"), reference)
        text = yaml.safe_dump(json.loads(json.dumps(manifest)), sort_keys=False)  # shared parts written out
        (folder / f"{name}.yaml").write_text(f"# {scheduler.file_name} {scheduler.does}\n{text}")
    return folder


def _tell_changes(nodes: Sequence[Node]) -> None:
    """Say whenever a node's kernel says something new, or that a node has died, for ever."""
    watches = {each: each.guest.begin(_WATCH) for each in nodes}
    told = dict.fromkeys(nodes, 0)
    while True:
        for each, watch in list(watches.items()):
            try:
                each.guest.has_ended(watch)  # or raises
            except vm.GuestError as error:
                say(f"{each.name} is lost, the rest stays; {_how_to_end()}: {error}")
                del watches[each]
            lines = each.guest.output(watch).splitlines()
            for line in lines[told[each] :]:
                say(f"the kernel of {each.name} says {line}")
            told[each] = len(lines)
        time.sleep(_POLL_S)


def _ready(nodes: Sequence[Node]) -> str:
    if not nodes:
        return "the control plane is ready; it has no nodes, so pods stay Pending (NODES=1 would add one)"
    return " and ".join(each.name for each in nodes) + (" is Ready" if len(nodes) == 1 else " are Ready")


def _how_to_end() -> str:
    """A shell starts background jobs with SIGINT ignored, and then Python leaves it so."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return f"`kill {os.getpid()}` ends it" if is_ignored else "Ctrl-C ends it"


def _greeting(cluster: ControlPlane) -> str:
    version, server = kubernetes.version(), cluster.server
    return f"""The control plane of Kubernetes {version} is ready at {server}. In another shell:

    export KUBECONFIG={cluster.kubeconfig} PATH=$PATH:{cluster.programs}
    kubectl get nodes

Logs and the audit log are in {cluster.folder}.
"""


def _invitation(registry: Registry, samples: Path) -> str:
    return f"""
Attach a scheduler to every node, see its pods, and detach it; its neighbours in that folder misbehave:

    kubectl apply -f {samples}/fifo.yaml
    kubectl get pods --output wide
    kubectl delete -f {samples}/fifo.yaml

Nodes and pods know the registry as {registry.named_host}; from this machine push to {registry.url}
(authority: {registry.ca_file}).
"""
