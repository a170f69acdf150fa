"""`make demo`: the operator on a control plane with fake nodes, from an empty cluster to `Deployed`.

At a terminal the cluster then stays to play with, until Ctrl-C; elsewhere it ends by itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from rig.base import polling
from rig.base.progress import say, step
from rig.cluster import controlplane, fakenodes, kubernetes
from rig.cluster.controlplane import ControlPlane
from rig.operator import manager
from rig.operator.manager import ROOT, SchedExts

NODES = 3
_SAMPLE = "config/samples/sked_v1_schedext.yaml"
_NAME = "scx-rusty"


def show() -> int:
    """Tell the whole story; with somebody at a terminal, leave the cluster running until Ctrl-C."""
    with _cluster() as cluster:
        _tell(f"Kubernetes {kubernetes.version()} with {NODES} nodes, the CRD, and `sked manager` from here.")
        print("# Control plane and operator are real. The nodes are not: their pods run nothing.", flush=True)
        _kubectl(cluster, "get", "nodes", "--output=custom-columns=NODE:.metadata.name")
        _tell("Somebody wants a scheduler on every node:")
        _kubectl(cluster, "apply", "--filename", _SAMPLE)
        schedexts = SchedExts(cluster, "default")
        _follow(schedexts)
        print(flush=True)
        _kubectl(cluster, "get", "schedext,daemonset")
        _tell("Each question about it has an answer:")
        print(_answers(schedexts), flush=True)
        _tell("Ready stays Unknown: pods run, but no node reports yet what its kernel does.")
        if _somebody_watches():
            _stay(cluster)
        else:
            say("stopping")
    say("everything is stopped")
    return 0


@contextmanager
def _cluster() -> Iterator[ControlPlane]:
    with ExitStack() as stack:
        with step("a control plane, fake nodes and the operator: starting"):
            cluster = stack.enter_context(controlplane.running("demo", fake_nodes=True))
            stack.enter_context(fakenodes.running(cluster, NODES, pool="worker"))
            manager.install_crd(cluster)
            sked = stack.enter_context(manager.running(cluster))
            sked.await_word("manager_started")
        yield cluster


def _tell(words: str) -> None:
    print(f"\n# {words}", flush=True)


def _kubectl(cluster: ControlPlane, *arguments: str) -> None:
    """As a person would see it."""
    print(f"$ kubectl {' '.join(arguments)}", flush=True)
    print(cluster.kubectl(*arguments, cwd=ROOT).stdout.rstrip(), flush=True)


def _follow(schedexts: SchedExts) -> None:
    """Print what `Deployed` says whenever that changes, until it is True."""
    _tell("The operator makes a DaemonSet and says how it is going. `Deployed` is:")
    said = ""

    def is_deployed() -> bool:
        nonlocal said
        found = schedexts.condition("Deployed", _NAME)
        words = "{status:8} {reason}: {message}".format(**found) if found else said
        if words != said:
            print(words, flush=True)
            said = words
        return found.get("status") == "True"

    polling.until(is_deployed, f"{_NAME} is deployed", timeout_s=180)


def _answers(schedexts: SchedExts) -> str:
    """The conditions as a table."""
    conditions = schedexts.status(_NAME)["conditions"]
    return "\n".join("{type:12} {status:8} {reason:16} {message}".format(**each) for each in conditions)


def _somebody_watches() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _stay(cluster: ControlPlane) -> None:
    print(
        f"""
It is yours until Ctrl-C. In another shell:

    export KUBECONFIG={cluster.kubeconfig}
    alias kubectl={cluster.programs / "kubectl"}
    kubectl patch schedext {_NAME} --type=merge --patch '{{"spec": {{"suspend": true}}}}'
    kubectl get schedext,daemonset,pods

The operator's log is {cluster.folder / "sked.log"}.""",
        flush=True,
    )
    with suppress(KeyboardInterrupt):
        signal.pause()
