"""The administrator's rules of an installation: in ConfigMaps, and as its manager reads them."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from rig.base.errors import RigError
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator.installation import NAMESPACE
from rig.operator.trustrules import MountedRules
from schedkit.model.trust.rules import TrustMode
from schedkit.sked.manager import command
from schedkit.sked.settings import Settings
from schedkit.sked.trust.rules_folder import RuleFolder

MANAGER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/sked-controller-manager"
OLD, NEW = "sked-trust", "sked-rules"
_KEY = "MCowBQYDK2VwAyEA" + "A" * 43 + "="
# what administrators write; the old version accepted each
LISTS: Mapping[str, str] = {
    "trust.yaml": (
        "# ours\nmode: enforce\npolicy: {keys: [{path: team.pub}]}\n"
        "allowedImages: [registry.example/scheds]\nallowedNamespaces: [a, b]\npriorityCeiling: 10\n"
    ),
    "team.pub": f"-----BEGIN PUBLIC KEY-----\n{_KEY}\n-----END PUBLIC KEY-----\n",
}
OFF: Mapping[str, str] = {"trust.yaml": "mode: off\n"}


class Said(NamedTuple):
    """What rules say, as far as tests compare it."""

    mode: TrustMode
    images: tuple[str, ...] | None = None
    namespaces: tuple[str, ...] | None = None
    ceiling: int | None = None


CASES = (
    pytest.param(
        LISTS, Said(TrustMode.ENFORCE, ("registry.example/scheds",), ("a", "b"), 10), id="enforce with lists"
    ),
    pytest.param(OFF, Said(TrustMode.OFF), id="off"),
)


def config_map(cluster: ControlPlane, name: str) -> JsonObject | None:
    """As it is in the cluster; None: there is none."""
    return cluster.client.find(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")


def data(cluster: ControlPlane) -> dict[str, JsonObject]:
    """All that is written, by the name of its ConfigMap."""
    found = {name: config_map(cluster, name) for name in (OLD, NEW)}
    return {name: each.get("data", {}) for name, each in found.items() if each is not None}


def edit(cluster: ControlPlane, files: Mapping[str, str]) -> None:
    """As somebody with kubectl edit would."""
    patch = json.dumps({"data": dict(files)})
    cluster.kubectl("patch", "configmap", OLD, "--namespace", NAMESPACE, "--type=merge", "--patch", patch)


def remove(cluster: ControlPlane) -> None:
    """Whatever was written."""
    cluster.kubectl("delete", "configmap", OLD, NEW, "--namespace", NAMESPACE, "--ignore-not-found")


def read(cluster: ControlPlane) -> Said:
    """What the installed manager, with its flags, makes of what its pod has mounted."""
    pod = cluster.client.get(MANAGER)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    settings = Settings(**command.make_context("manager", container["args"]).params)
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == str(settings.trust_config)]
    [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    mounted = MountedRules(Path(tempfile.mkdtemp(dir=cluster.folder)) / "rules")
    mounted.write(_projected(cluster, volume))
    folder = RuleFolder(
        mounted.folder, TrustMode(settings.trust_mode), default=TrustMode(settings.default_trust_mode)
    )
    asyncio.run(folder.look())
    rules = folder.rules
    if rules is None or folder.complaint:
        raise RigError(f"the manager cannot read its rules: {folder.complaint}")
    return Said(rules.mode, rules.allowed_images, rules.allowed_namespaces, rules.priority_ceiling)


def _projected(cluster: ControlPlane, volume: JsonObject) -> dict[str, bytes]:
    """As a kubelet does it: of two files of one name the later source's is seen, and none need be there."""
    files: dict[str, bytes] = {}
    for source in volume["projected"]["sources"]:
        assert source["configMap"]["optional"]
        found = config_map(cluster, source["configMap"]["name"]) or {}
        files |= {name: text.encode() for name, text in found.get("data", {}).items()}
        files |= {name: base64.b64decode(text) for name, text in found.get("binaryData", {}).items()}
    return files
