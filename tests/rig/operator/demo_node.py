"""The demo with a real node: `Ready` by its kernel's word, and a scheduler that its kernel throws out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import NamedTuple

import yaml

from rig import byhand
from rig.base import host_names, processes
from rig.base.errors import RigError
from rig.base.progress import step
from rig.cluster import controlplane, kubernetes, node
from rig.cluster.controlplane import ControlPlane
from rig.cluster.node import Node
from rig.guest import kernels, vm
from rig.operator import agents, operatorimage, realnode
from rig.operator.manager import SchedExts
from rig.operator.telling import answers, follow, kubectl, look_around, stay_or_stop, tell
from rig.operator.trustrules import SignedImages
from rig.registries import registry
from rig.signatures import cosign

_NAME = "scx"
_KIND = "7"
_PATIENCE_S = 600.0  # a guest on a busy machine is slow, not dead


def prepare() -> None:
    """Obtain all parts; what this machine cannot have is `Unavailable`.

    Where the control plane must still be built, which takes minutes, a guest alone plays first.
    """
    processes.require_mounts("virtual machines", "virtiofsd and its mounts need root")
    vm.programs()
    kernels.obtain(_KIND)
    if not kubernetes.are_built():
        tell("The control plane must be built first, which takes minutes. Until then, a kernel alone:")
        if byhand.demonstrate():
            raise RigError("the guest's kernel did not attach and detach a scheduler")
    cosign.program(3)
    registry.programs()
    operatorimage.layout()
    kubernetes.binaries()


class _Scene(NamedTuple):
    cluster: ControlPlane
    node: Node
    signed: SignedImages
    schedexts: SchedExts


def play() -> None:
    """Tell the story, and end all of it."""
    with _set_up() as scene:
        _attach(scene)
        _eject(scene)
        stay_or_stop(_invitation(scene))


@contextmanager
def _set_up() -> Iterator[_Scene]:
    host_names.learn()
    with ExitStack() as stack:
        with step("a control plane and the operator: starting"):
            cluster = stack.enter_context(controlplane.running("demo"))
            images = stack.enter_context(node.registry_for(cluster))
            account = realnode.install(cluster, images)
            signed = realnode.signer(images, cluster.folder / "signer")
            rules = cluster.folder / "rules"
            stack.enter_context(realnode.managed(cluster, signed, account, rules))
        tell(
            f"Kubernetes {kubernetes.version()}, and what `make deploy` installs. One thing is not so: the",
            "manager is a process of this machine, from this checkout, with the account that its pod has.",
        )
        (only,) = node.plan(cluster, images, [_KIND], boot_timeout_s=_PATIENCE_S)
        with step(
            f"a node, with kernel {only.guest.kernel.release} in a virtual machine: booting and joining"
        ):
            stack.enter_context(node.running(only))
        with step("the node's agent: starting as a pod there"):
            realnode.await_report(cluster, only)
        yield _Scene(cluster, only, signed, SchedExts(cluster, "default"))


def _attach(scene: _Scene) -> None:
    tell("Kernel, kubelet and agent of the node are real. The agent says what the kernel runs:")
    kubectl(scene.cluster, "get", "nodes,schedextnodes")
    tell("Somebody wants a scheduler there. Its image has a cosign signature, which the rules demand:")
    kubectl(scene.cluster, "apply", "--filename", _manifest(scene))
    tell("A pod that runs proves nothing, so `Ready` waits for the kernel's word. It is:")
    follow(scene.schedexts, _NAME, "Ready", lambda found: found["status"] == "True", timeout_s=_PATIENCE_S)
    tell("Each question about it has an answer:")
    kubectl(scene.cluster, "get", "schedext,schedextnodes")
    print(answers(scene.schedexts, _NAME), flush=True)


def _manifest(scene: _Scene) -> str:
    spec = {"sched": realnode.push(scene.signed, "fifo")}
    written = {
        "apiVersion": "sked.schedkit.io/v1",
        "kind": "SchedExt",
        "metadata": {"name": _NAME},
        "spec": spec,
    }
    file = scene.cluster.folder / "schedext.yaml"
    file.write_text(yaml.safe_dump(written, sort_keys=False))
    return str(file)


def _eject(scene: _Scene) -> None:
    spec = {"sched": realnode.push(scene.signed, "staller"), "args": ["--stall-after", "10"]}
    tell("Now another image, of a scheduler that after ten seconds forgets a task:")
    patch = json.dumps({"spec": spec})
    kubectl(scene.cluster, "patch", "schedext", _NAME, "--type=merge", "--patch", patch)
    tell("The kernel's watchdog throws it out. `Ready` is:")
    follow(scene.schedexts, _NAME, "Ready", lambda found: found["reason"] == "Ejected", timeout_s=_PATIENCE_S)
    ago_s = _since_the_eject_s(scene)
    tell(f"That is {ago_s:.0f} s after the eject, by the node's clock. In short:")
    kubectl(scene.cluster, "get", "schedext,schedextnodes")


def _since_the_eject_s(scene: _Scene) -> float:
    """How long ago the kernel's last eject is, by the node's clock."""
    now = float(scene.node.guest.run("date +%s.%N").output)
    report = scene.cluster.client.get(f"{agents.REPORTS}/{scene.node.name}")
    return now - datetime.fromisoformat(report["status"]["exits"][-1]["time"]).timestamp()


def _invitation(scene: _Scene) -> str:
    commands = (
        "kubectl get schedext,schedextnodes,pods",
        f"kubectl describe schedext {_NAME}",
        f"kubectl describe schedextnode {scene.node.name}",
        f"kubectl describe node {scene.node.name}",
        f"kubectl delete schedext {_NAME}",
    )
    manager, machine = scene.cluster.folder / "sked-native.log", scene.node.guest.folder
    logs = f"The manager's log is {manager}. What kubelet and kernel say is in {machine}."
    return f"{look_around(scene.cluster, *commands)}\n{logs}"
