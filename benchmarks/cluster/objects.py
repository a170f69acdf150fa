"""The objects of the benchmark: SchedExts that never want the same node, and what should become of them."""

from __future__ import annotations

import datetime as dt

import msgspec

from rig import fakenodes
from rig.kubeclient import JsonObject
from schedkit.model.daemonsets import DaemonSet, DaemonSetStatus
from schedkit.model.objects import render
from schedkit.model.observed import Observation
from schedkit.model.plans import WriteStatus, plan
from schedkit.model.schedext import GROUP, KIND, PLURAL, VERSION, ObjectMeta, SchedExt, SchedExtSpec

GROUP_LABEL = "bench.schedkit.io/group"
ROUND_LABEL = "bench.schedkit.io/round"
IMAGE = "ghcr.io/schedkit/scheds/scx_rusty:latest"
ANYWHERE = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
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
        meta = ObjectMeta(name=name, namespace=namespace, uid=_UID, generation=1)
        schedext = SchedExt(metadata=meta, spec=spec)
        self.schedext = _encoded({"metadata": {"name": name}, "spec": spec})
        self._daemon_set = msgspec.json.encode(render(schedext))
        self._status = final_status(schedext)

    def daemon_set(self, uid: str) -> bytes:
        """The DaemonSet that belongs to the SchedExt with that uid."""
        return self._daemon_set.replace(_UID.encode(), uid.encode())

    def status(self, version: str) -> bytes:
        """The SchedExt of that version with its status, for the case that no node matches."""
        return _encoded({"metadata": {"name": self.name, "resourceVersion": version}, "status": self._status})


def _encoded(body: JsonObject) -> bytes:
    return msgspec.json.encode({"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, **body})


def final_status(schedext: SchedExt) -> object:
    """What its status is when its DaemonSet's controller has found that no node matches."""
    made = render(schedext)
    seen = msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(made.metadata, generation=1),
        status=DaemonSetStatus(observed_generation=1),
    )
    actions = plan(Observation(schedext=schedext, now=dt.datetime.now(dt.UTC), daemon_set=seen))
    return next(action.status for action in actions if isinstance(action, WriteStatus))


def is_right(schedext: SchedExt, daemon_set: DaemonSet) -> bool:
    """Whether sked would change nothing: neither the DaemonSet nor the status, whoever wrote them."""
    now = dt.datetime.now(dt.UTC)
    return plan(Observation(schedext=schedext, now=now, daemon_set=daemon_set)) == ()


def bench_node(index: int, groups: int) -> JsonObject:
    """A realistic node that exactly one SchedExt wants.

    The controller manager makes a pod for each DaemonSet and each node that matches it. A node has one group
    and a group one SchedExt, so that there are exactly as many pods as nodes.
    """
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
