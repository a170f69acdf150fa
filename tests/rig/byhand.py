"""The rigs for a person at a terminal: a cluster until Ctrl-C, a command in a VM, a demonstration."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from rig import controlplane, kernels, kubernetes, names, node, processes, registry, schedulers, vm
from rig.controlplane import ControlPlane
from rig.progress import say
from rig.registry import Registry


def run_in_vm(command: str, *, kind: str, timeout_s: float) -> int:
    """Boot, run the command, print what it said; its exit code."""
    kernel = kernels.obtain(kind)
    say(f"booting {kernel.release}" + (f" ({kernel.note})" if kernel.note else ""))
    with _until_interrupted(), vm.Guest(kernel, vm.Settings(name="by-hand")) as guest:
        outcome = guest.run(command, timeout_s=timeout_s)
        sys.stdout.write(outcome.output)
        return outcome.exit_code
    return 130


def keep_cluster(nodes: int) -> int:
    """Keep a control plane, a registry and that many real nodes until Ctrl-C."""
    if nodes:
        names.learn()
    with _until_interrupted(), ExitStack() as stack:
        cluster = stack.enter_context(controlplane.running("by-hand", fake_nodes=not nodes))
        stack.callback(say, "stopping")
        print(_greeting(cluster), flush=True)
        if nodes:
            images = stack.enter_context(node.registry_for(cluster))
            print(_registry_hint(images), flush=True)
            stack.enter_context(node.running(*node.plan(cluster, images, ("7", "6")[:nodes])))
        say("ready; Ctrl-C ends it")
        signal.pause()
    return 0


def demonstrate() -> int:
    """What the kernel says before, while and after a scheduler is attached."""
    binary = schedulers.binary("fifo")
    look = "cd /sys/kernel/sched_ext; echo \"state=$(cat state) ops=$(cat root/ops 2>/dev/null || echo -)\""
    say("booting a virtual machine with a sched_ext kernel; it cannot write to this one")
    with _until_interrupted(), vm.Guest(kernels.obtain("7"), vm.Settings(name="demo")) as guest:
        print(f"kernel {guest.run('uname -r').output.strip()}")
        print(f"before:   {guest.run(look).output.strip()}")
        scheduler = guest.begin(f"exec '{binary}'")
        attached = guest.run("for i in $(seq 300); do grep -qx enabled /sys/kernel/sched_ext/state && exit; sleep 0.1; done; false")
        print(f"attached: {guest.run(look).output.strip()}")
        guest.run(f"pkill -TERM -x {binary.name[:15]}")
        ended = guest.await_end(scheduler, timeout_s=60)
        print(f"after:    {guest.run(look).output.strip()}")
        print(f"the scheduler's last words: {ended.output.strip().splitlines()[-1]}")
        return attached.exit_code or ended.exit_code
    return 130


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block early, and that is fine."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _greeting(cluster: ControlPlane) -> str:
    return f"""Kubernetes {kubernetes.version()} is ready at {cluster.server}. In another shell:

    export KUBECONFIG={cluster.kubeconfig}
    {cluster.programs / "kubectl"} get namespaces
    PYTHONPATH=tests .venv/bin/python -m rig.fakenodes $KUBECONFIG 100    # Ready nodes whose pods become Running

Logs and the audit log are in {cluster.folder}."""


def _registry_hint(images: Registry) -> str:
    return f"""
Nodes and pods know a registry as {images.named_host}; from this machine push to {images.url}
(authority: {images.ca_file}). Nodes are booting; `kubectl get nodes` shows them in about a minute."""
