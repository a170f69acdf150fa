"""The objects of the benchmark: SchedExts that never want the same node, and what should become of them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

import msgspec

from rig.builders.plans import plan
from rig.cluster import fakenodes
from rig.cluster.kubeclient import JsonObject
from schedkit.model.api import schedextnode
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import (
    GROUP,
    KIND,
    PLURAL,
    VERSION,
    SchedExt,
    SchedExtMeta,
    SchedExtSpec,
    SchedExtStatus,
)
from schedkit.model.api.schedextnode import (
    Eligibility,
    NodeAgent,
    NodeExit,
    NodeFinding,
    NodeKernel,
    NodeOwner,
    NodeOwnerKind,
    SchedExtNodeStatus,
)
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import render
from schedkit.model.report.plan import WriteStatus

GROUP_LABEL = "bench.schedkit.io/group"
ROUND_LABEL = "bench.schedkit.io/round"
IMAGE = "ghcr.io/schedkit/scheds/scx_rusty:latest"
ANYWHERE = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
_TOLERATED = [
    {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": effect}
    for effect, troubles in (
        ("NoExecute", ("not-ready", "unreachable")),
        ("NoSchedule", ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")),
    )
    for trouble in troubles
]
AGENTS_PATH = "/api/v1/namespaces/sked-node/pods"
REPORTS_PATH = f"/apis/{GROUP}/{VERSION}/{schedextnode.PLURAL}"
_REPORTED = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_CHECKED = ("kernel.version", "kernel.sched_ext", "kernel.btf", "kernel.config")
_EJECT = NodeExit(
    ops="rusty_1.0.9_g5a5c8b5a",
    kind=1026,
    reason="runnable task stall",
    message="stress-ng-cpu[41273] failed to run for 30.112s",
    task="stress-ng-cpu[41273]",
    first_time=_REPORTED,
    time=_REPORTED,
    log_time=1,
)
_UID = "00000000-0000-0000-0000-000000000000"  # stands for the one that the server will choose


def schedexts_path(namespace: str) -> str:
    """Where the API serves SchedExts of that namespace."""
    return f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"


def daemon_sets_path(namespace: str) -> str:
    """Where the API serves DaemonSets of that namespace."""
    return f"/apis/apps/v1/namespaces/{namespace}/daemonsets"


class Bodies:
    """What is written about one SchedExt, encoded ahead of the measurement."""

    def __init__(self, namespace: str, name: str, group: str) -> None:
        self.name = name
        spec = SchedExtSpec(sched=IMAGE, node_selector={GROUP_LABEL: group})
        meta = SchedExtMeta(name=name, namespace=namespace, uid=_UID, generation=1)
        schedext = SchedExt(metadata=meta, spec=spec)
        self.schedext = _encoded({"metadata": {"name": name}, "spec": spec})
        self._daemon_set = msgspec.json.encode(render(schedext))
        self._status = first_status(schedext)

    def daemon_set(self, uid: str) -> bytes:
        """The DaemonSet that belongs to the SchedExt with that uid."""
        return self._daemon_set.replace(_UID.encode(), uid.encode())

    def status(self, version: str) -> bytes:
        """The SchedExt of that version with the status it gets when its DaemonSet has just been made."""
        return _encoded({"metadata": {"name": self.name, "resourceVersion": version}, "status": self._status})


def _encoded(body: JsonObject) -> bytes:
    return msgspec.json.encode({"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **body})


def first_status(schedext: SchedExt) -> SchedExtStatus:
    """What its status is as long as its DaemonSet's controller has not looked at the DaemonSet."""
    made = render(schedext)
    meta = msgspec.structs.replace(made.metadata, generation=1)
    unseen = msgspec.structs.replace(made, metadata=meta)
    actions = plan(Observation(schedext=schedext, now=dt.datetime.now(dt.UTC), daemon_set=unseen))
    return next(action.status for action in actions if isinstance(action, WriteStatus))


def is_right(schedext: SchedExt, daemon_set: DaemonSet) -> bool:
    """Whether sked would change nothing: neither the DaemonSet nor the status, whoever wrote them."""
    now = dt.datetime.now(dt.UTC)
    return plan(Observation(schedext=schedext, now=now, daemon_set=daemon_set)) == ()


def bench_node(index: int, groups: int) -> JsonObject:
    """A realistic node that exactly one SchedExt wants: there are as many pods as nodes."""
    node = fakenodes.node_object("bench", index)
    node["metadata"]["labels"][GROUP_LABEL] = group_name(index % groups)
    if index % 3 == 0:
        # one that keeps no DaemonSet away
        spare = {"key": "bench.schedkit.io/spare", "value": f"v{index % 7}", "effect": "PreferNoSchedule"}
        node["spec"]["taints"] = [spare]
    return node


def group_name(index: int) -> str:
    """The label value that one SchedExt selects its nodes by."""
    return f"group-{index:05d}"


def bench_pod(daemon_set: JsonObject, node: str) -> JsonObject:
    """The pod of that DaemonSet on that node, as the DaemonSet controller makes it."""
    meta, template = daemon_set["metadata"], daemon_set["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = template["metadata"]["labels"] | {
        "controller-revision-hash": "6f8d9c7b54",
        "pod-template-generation": "1",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{node.rpartition('-')[2]}",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": template["spec"] | {"nodeName": node, "affinity": _pinned(node), "tolerations": _TOLERATED},
    }


def bench_agent(node: str) -> JsonObject:
    """The pod of that node's agent; what decides something is where it runs and whether it is ready."""
    meta = {"name": f"agent-{node}", "labels": {"app.kubernetes.io/component": "node-agent"}}
    container = {"name": "agent", "image": "registry.example.com/sked:v1"}
    spec = {"nodeName": node, "containers": [container], "affinity": _pinned(node)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def bench_report(node: JsonObject, pod: JsonObject) -> JsonObject:
    """The report of that node: its kernel runs the scheduler of that pod, after one that was ejected."""
    status = SchedExtNodeStatus(
        node_uid=node["metadata"]["uid"],
        kernel=_kernel(node["status"]["nodeInfo"]),
        state="enabled",
        ops="rusty_1.0.9_g5a5c8b5a",
        enable_seq=2,
        owner=_owner(pod["metadata"]["uid"]),
        eligible=Eligibility.YES,
        findings=tuple(NodeFinding(id=each, status="pass") for each in _CHECKED),
        exits=(_EJECT,),
        agent=NodeAgent(version="1.0.0", pod_uid=_UID),
        reported_at=_REPORTED,
    )
    name = node["metadata"]["name"]
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": schedextnode.KIND,
        "metadata": {"name": name},
        "status": json.loads(msgspec.json.encode(status)),
    }


def _kernel(info: JsonObject) -> NodeKernel:
    return NodeKernel(release=info["kernelVersion"], architecture="x86_64", boot_id=info["bootID"])


def _owner(pod_uid: str) -> NodeOwner:
    kind = NodeOwnerKind.POD
    return NodeOwner(
        kind=kind, name=pod_uid, pod_uid=pod_uid, container_id=hashlib.sha256(pod_uid.encode()).hexdigest()
    )


def _pinned(node: str) -> JsonObject:
    place = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [place]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def complete_status(pods: int) -> JsonObject:
    """What the DaemonSet controller says when all pods run."""
    counts = ("currentNumberScheduled", "desiredNumberScheduled", "numberReady")
    more = ("numberAvailable", "updatedNumberScheduled")
    return dict.fromkeys((*counts, *more), pods) | {"numberMisscheduled": 0, "observedGeneration": 1}
