"""The operator beside a real node: all that an installation has, but the manager is a process of the host.

An emulated node would take minutes to start the manager. Its account, its rights and its rules are those of
an installation, and images are signed by somebody whose key the rules trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.base import polling
from rig.cluster.controlplane import ControlPlane
from rig.cluster.node import Node
from rig.operator import agents, installation, manager, operatorimage
from rig.operator.installation import NAMESPACE
from rig.operator.manager import Manager
from rig.operator.trustrules import MountedRules, SignedImages
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.signatures.cosign import Cosign

# what only a pod of the manager's own would need
_OF_ITS_POD = {"Deployment", "Service"}
_CRDS = ("crd/schedexts.sked.schedkit.io", "crd/schedextnodes.sked.schedkit.io")
_AGENT_STARTS_S = 600  # an emulated node unpacks 84 MB and starts Python


def install(cluster: ControlPlane, registry: Registry) -> Path:
    """What `make deploy` installs, but for the manager's own pod; a kubeconfig of its account."""
    objects = [each for each in installation.kustomized("default") if each["kind"] not in _OF_ITS_POD]
    (agent,) = (each for each in objects if each["kind"] == "DaemonSet")
    agent["spec"]["template"]["spec"]["containers"][0]["image"] = operatorimage.reference(registry)
    of_agents = [each for each in objects if each["metadata"].get("namespace") == agents.NAMESPACE]
    cluster.apply(*(each for each in objects if each not in of_agents), namespace=NAMESPACE)
    cluster.apply(*of_agents, namespace=agents.NAMESPACE)
    cluster.kubectl("wait", "--for=condition=Established", *_CRDS)
    return installation.account_kubeconfig(cluster)


def uninstall(cluster: ControlPlane) -> None:
    """All of it, and every SchedExt."""
    namespaces = (f"namespace/{NAMESPACE}", f"namespace/{agents.NAMESPACE}")
    cluster.kubectl("delete", *_CRDS, *namespaces, timeout_s=180)


def await_report(cluster: ControlPlane, node: Node) -> None:
    """Until the node's agent has said something."""
    path = f"{agents.REPORTS}/{node.name}"
    polling.until(lambda: cluster.client.find(path), "the agent reports", timeout_s=_AGENT_STARTS_S)


def signer(registry: Registry, folder: Path) -> SignedImages:
    """Somebody with a key, who signs images of the node's registry."""
    cosign = Cosign(3, folder / "cosign", ca_file=registry.ca_file)
    return SignedImages(registry, cosign, cosign.new_key(), folder)


def push(signed: SignedImages, scheduler: str, *, sign: bool = True) -> str:
    """The image of a scheduler by tag, under the name that host, node and pods share."""
    place = f"signed/{scheduler}" if sign else f"unsigned/{scheduler}"
    digest = signed.registry.client.push(images.scheduler(scheduler), place, "v1")
    if sign:
        signed.cosign.sign(f"{signed.registry.host}/{place}@{digest}", signed.key)
    return f"{signed.registry.named_host}/{place}:v1"


@contextmanager
def managed(
    cluster: ControlPlane, signed: SignedImages, kubeconfig: Path, rules_folder: Path
) -> Iterator[Manager]:
    """The manager with the rights of its account, under rules that trust one key."""
    rules = MountedRules(rules_folder)
    rules.write(signed.rules("enforce"))
    leading = ("--leader-elect", f"--namespace={NAMESPACE}")
    authority = f"--registry-ca={signed.registry.ca_file}"
    trusting = (f"--trust-config={rules.folder}", authority, "--trust-interval=2")
    with manager.running(cluster, "sked-native", *leading, *trusting, kubeconfig=kubeconfig) as running:
        yield running
