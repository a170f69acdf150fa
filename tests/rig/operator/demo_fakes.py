"""The demo with fake nodes: control plane and operator are real, and a SchedExt is shown until `Deployed`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from rig.base.progress import step
from rig.cluster import controlplane, fakenodes, kubernetes
from rig.cluster.controlplane import ControlPlane
from rig.operator import manager
from rig.operator.manager import SchedExts
from rig.operator.telling import answers, follow, kubectl, look_around, stay_or_stop, tell

NODES = 3
_SAMPLE = "config/samples/sked_v1_schedext.yaml"
_NAME = "scx-rusty"
_SUSPEND = 'kubectl patch schedext {} --type=merge --patch \'{{"spec": {{"suspend": true}}}}\''


def play() -> None:
    """Tell the story, and end all of it."""
    with _cluster() as cluster:
        tell(
            f"Kubernetes {kubernetes.version()} with {NODES} nodes, the CRD, and `sked manager` from here.",
            "Control plane and operator are real. The nodes are not: their pods run nothing.",
        )
        kubectl(cluster, "get", "nodes", "--output=custom-columns=NODE:.metadata.name")
        tell("Somebody wants a scheduler on every node:")
        kubectl(cluster, "apply", "--filename", _SAMPLE)
        schedexts = SchedExts(cluster, "default")
        tell("The operator makes a DaemonSet and says how it is going. `Deployed` is:")
        follow(schedexts, _NAME, "Deployed", lambda found: found["status"] == "True", timeout_s=180)
        tell("Each question about it has an answer:")
        kubectl(cluster, "get", "schedext,daemonset")
        print(answers(schedexts, _NAME), flush=True)
        tell("Ready stays Unknown: pods run, but these nodes have no kernel, and no agent that reports it.")
        commands = (_SUSPEND.format(_NAME), "kubectl get schedext,daemonset,pods")
        log = f"\nThe operator's log is {cluster.folder / 'sked.log'}."
        stay_or_stop(look_around(cluster, *commands) + log)


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
