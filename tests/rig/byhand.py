"""The rigs for a person at a terminal: a cluster until Ctrl-C, a command in a VM, a demonstration."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack

from rig import controlplane, kernels, kubernetes, names, node, schedulers, vm
from rig.controlplane import ControlPlane
from rig.progress import say
from rig.registry import Registry

_LOOK = "cd /sys/kernel/sched_ext; echo state=$(cat state) ops=$(cat root/ops 2>/dev/null || echo -)"
_AWAIT_ENABLED = "for i in $(seq 300); do grep -qx enabled state && exit 0; sleep 0.1; done; exit 1"


def run_in_vm(command: str, *, kind: str, timeout_s: float) -> int:
    """Boot, run the command, print what it said; its exit code."""
    kernel = kernels.obtain(kind)
    say(f"booting {kernel.release}" + (f" ({kernel.note})" if kernel.note else ""))
    with vm.Guest(kernel, vm.Settings(name="by-hand")) as guest:
        outcome = guest.run(command, timeout_s=timeout_s)
        sys.stdout.write(outcome.output)
        return outcome.exit_code


def keep_cluster(nodes: int) -> None:
    """Keep a control plane, and for real nodes a registry and the nodes, until Ctrl-C."""
    if nodes:
        names.learn()
    with ExitStack() as stack:
        stack.callback(say, "everything is stopped")
        cluster = stack.enter_context(controlplane.running("by-hand", fake_nodes=not nodes))
        stack.callback(say, "stopping")
        print(_greeting(cluster), flush=True)
        if nodes:
            images = stack.enter_context(node.registry_for(cluster))
            print(_registry_hint(images), flush=True)
            stack.enter_context(node.running(*node.plan(cluster, images, ("7", "6")[:nodes])))
        say("ready; Ctrl-C ends it")
        signal.pause()


def demonstrate() -> int:
    """What the kernel says before, while and after a scheduler is attached."""
    binary = schedulers.binary("fifo")
    say("booting a virtual machine with a sched_ext kernel; it cannot write to this machine's disk")
    with vm.Guest(kernels.obtain("7"), vm.Settings(name="demo")) as guest:
        print(f"kernel:   {guest.run('uname -r').output.strip()}", flush=True)
        print(f"before:   {guest.run(_LOOK).output.strip()}", flush=True)
        scheduler = guest.begin(f"exec '{binary}'")
        attached = guest.run(f"cd /sys/kernel/sched_ext; {_AWAIT_ENABLED}")
        print(f"attached: {guest.run(_LOOK).output.strip()}", flush=True)
        guest.run(f"pkill -TERM -f '{binary}'")
        ended = guest.await_end(scheduler, timeout_s=60)
        print(f"after:    {guest.run(_LOOK).output.strip()}", flush=True)
        print(f"the scheduler's last words: {ended.output.strip().splitlines()[-1]}", flush=True)
        return attached.exit_code or ended.exit_code


def _greeting(cluster: ControlPlane) -> str:
    return f"""Kubernetes {kubernetes.version()} is ready at {cluster.server}. In another shell:

    export KUBECONFIG={cluster.kubeconfig}
    {cluster.programs / "kubectl"} get namespaces

Logs and the audit log are in {cluster.folder}."""


def _registry_hint(images: Registry) -> str:
    return f"""
Nodes and pods know a registry as {images.named_host}; from this machine push to {images.url}
(authority: {images.ca_file}). Nodes are booting; they are Ready in about a minute."""
