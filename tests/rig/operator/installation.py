"""The operator as people install it: by make, kubectl and Helm, from this checkout."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import yaml

from rig.base import processes
from rig.cluster import kubernetes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject, write_kubeconfig
from rig.operator import helm

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/sked"
# as they were when they had the administrator's rules in them
OLD_CHART = ROOT / "tests/golden/before-rules/chart"
OLD_OBJECTS = (OLD_CHART / "files/crd.yaml", ROOT / "tests/golden/before-rules/installation.yaml")
NAMESPACE = "sked-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:sked-controller-manager"
IMAGE = "registry.example/sked:v1"
CHARTS_IMAGE = ("--set", "image.repository=registry.example/sked")
_MAKE_TIMEOUT_S = 180


def make(cluster: ControlPlane, *words: str, check: bool = True) -> processes.Completed:
    """One of the Makefile's targets, with this cluster as the current one and the rig's kubectl on PATH."""
    environment = _environment(cluster)
    return processes.run(["make", *words], cwd=ROOT, env=environment, timeout_s=_MAKE_TIMEOUT_S, check=check)


def shell(cluster: ControlPlane, words: str) -> processes.Completed:
    """What somebody types who has this cluster as the current one."""
    return processes.run(["sh", "-c", words], cwd=ROOT, env=_environment(cluster))


def _environment(cluster: ControlPlane) -> dict[str, str]:
    own = ("MAKE", "MFLAGS", "KUBE", "IMG", "CONTAINER_TOOL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return kept | {
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{cluster.programs}:{os.environ['PATH']}",
    }


def kustomized(folder: str) -> list[JsonObject]:
    """The objects of a folder below `config`, as kubectl renders them."""
    program = kubernetes.binaries() / "kubectl"
    return _objects(processes.run([program, "kustomize", ROOT / "config" / folder]).stdout)


def charted(home: Path, *settings: str) -> list[JsonObject]:
    """The objects of the chart, as Helm renders them."""
    words = ("template", "sked", str(CHART), "--namespace", NAMESPACE)
    return _objects(helm.run(*words, *CHARTS_IMAGE, *settings, home=home).stdout)


def _objects(text: str) -> list[JsonObject]:
    return [each for each in yaml.safe_load_all(text) if each]


def by_name(objects: Iterable[JsonObject]) -> dict[tuple[str, str], JsonObject]:
    """Each object under its kind and name; no two share them."""
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def account_kubeconfig(cluster: ControlPlane) -> Path:
    """A kubeconfig with a token of the manager's own service account and nothing else."""
    token = cluster.token(NAMESPACE, "sked-controller-manager")
    file = cluster.folder / "sked-controller-manager.kubeconfig"
    authority = cluster.layout.authority.ca_file
    return write_kubeconfig(file, server=cluster.server, ca_file=authority, user={"token": token})
