"""A stand-in for the kubelets of fake nodes: their pods run at once, and end as soon as they are asked to.

It touches pods on nodes that carry its pool's label and nothing else. What it writes follows from the
pods alone, so that it can be killed and started again at any moment.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rig.cluster.fakenodes import POOL_LABEL
from rig.cluster.kubeclient import STRATEGIC_PATCH, ApiError, Client, JsonObject

_WORKERS = 4
_TRY_AGAIN_AFTER_S = 0.5
# Gone, or another pod of the same name by now: there is nothing left to do.
_OUTDATED = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT)
_DONE = ("Succeeded", "Failed")


class FakeKubelets:
    """All kubelets of one pool of fake nodes."""

    def __init__(self, client: Client, pool: str, *, behind_s: float = 0) -> None:
        self._client = client
        self._pool = pool
        self._behind_s = behind_s
        self._own: set[str] = set()
        self._addresses = Addresses()
        self._todo: queue.Queue[JsonObject] = queue.Queue()

    def run(self) -> None:
        """Look after the pods until the process is ended."""
        for _ in range(_WORKERS):
            threading.Thread(target=self._work, daemon=True).start()
        while True:
            try:
                for pod in self._bound_pods():
                    self._addresses.learn(pod)
                    if self._is_own(pod["spec"]["nodeName"]):
                        self._todo.put(pod)
            except (ApiError, OSError, http.client.HTTPException) as error:
                print(f"the API server is away, trying again: {error}")
                time.sleep(_TRY_AGAIN_AFTER_S)

    def _bound_pods(self) -> Iterator[JsonObject]:
        """Each pod that has a node, and again whenever it changes, until the server ends the watch."""
        self._learn_own_nodes()
        bound = {"fieldSelector": "spec.nodeName!="}
        listing = self._client.get("/api/v1/pods", **bound)
        print(f"process {os.getpid()} is watching pods of pool {self._pool}")
        yield from listing["items"]
        version = listing["metadata"]["resourceVersion"]
        for event in self._client.watch("/api/v1/pods", version, **bound):
            if event["type"] == "ERROR":
                print(f"the watch ended, listing again: {event['object'].get('message')}")
                return
            if event["type"] in ("ADDED", "MODIFIED"):
                yield event["object"]

    def _learn_own_nodes(self) -> None:
        nodes = self._client.metadata("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={self._pool}")
        self._own = {node["metadata"]["name"] for node in nodes}

    def _is_own(self, node: str) -> bool:
        if node not in self._own and self._has_label(node):
            self._own.add(node)
        return node in self._own

    def _has_label(self, node: str) -> bool:
        selector = {"fieldSelector": f"metadata.name={node}", "labelSelector": f"{POOL_LABEL}={self._pool}"}
        return bool(self._client.metadata("/api/v1/nodes", **selector))

    def _work(self) -> None:
        while True:
            pod = self._todo.get()
            try:
                self._look_after(pod)
            except (ApiError, OSError, http.client.HTTPException) as error:
                if isinstance(error, ApiError) and error.status in _OUTDATED:
                    continue
                print(f"{pod['metadata']['name']}: trying again: {error}")
                time.sleep(_TRY_AGAIN_AFTER_S)
                self._todo.put(pod)

    def _look_after(self, pod: JsonObject) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            self._client.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})
        elif status := next_status(pod, _now(self._behind_s), self._addresses.of(pod)):
            patch = {"metadata": {"uid": meta["uid"]}, "status": status}
            self._client.patch(f"{path}/status", patch, kind=STRATEGIC_PATCH)


class Addresses:
    """Hands out pod addresses, from the networks that fake nodes claim to have; no two pods share one."""

    def __init__(self) -> None:
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def learn(self, pod: JsonObject) -> None:
        """Take note of an address that was given to the pod by an earlier process, or by another pool's."""
        if address := pod.get("status", {}).get("podIP"):
            with self._lock:
                self._give(pod, address)

    def of(self, pod: JsonObject) -> str:
        """The pod's address: the one it has, or the first free one from where its uid leads."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            if uid not in self._by_uid:
                start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:3])
                self._give(pod, next(free for free in _addresses_from(start) if free not in self._taken))
            return self._by_uid[uid]

    def _give(self, pod: JsonObject, address: str) -> None:
        self._by_uid[pod["metadata"]["uid"]] = address
        self._taken.add(address)


def _addresses_from(start: int) -> Iterator[str]:
    """All addresses of 10.128.0.0/10, beginning somewhere."""
    first, count = int(ipaddress.IPv4Address("10.128.0.0")), 2**22
    return (str(ipaddress.IPv4Address(first + (start + step) % count)) for step in range(count))


def next_status(pod: JsonObject, now: str, address: str) -> JsonObject | None:
    """What a kubelet would write next; None when the pod's status already says it."""
    status = pod.get("status", {})
    if status.get("phase") in _DONE:
        return None
    wanted = _wanted_conditions(pod)
    seen = _seen_conditions(pod)
    changed = {kind: value for kind, value in wanted.items() if seen.get(kind) != value}
    conditions = [
        {"type": kind, "status": value, "lastTransitionTime": now} for kind, value in changed.items()
    ]
    if status.get("phase") == "Running":
        return {"conditions": conditions} if conditions else None
    return {"conditions": conditions, **_started(pod, now, address)}


def _wanted_conditions(pod: JsonObject) -> dict[str, str]:
    """A pod with readiness gates is Ready only when somebody else has opened all of them."""
    seen = _seen_conditions(pod)
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", [])]
    ready = all(seen.get(gate) == "True" for gate in gates)
    common = ("PodReadyToStartContainers", "Initialized", "ContainersReady")
    return dict.fromkeys(common, "True") | {"Ready": "True" if ready else "False"}


def _seen_conditions(pod: JsonObject) -> dict[str, str]:
    conditions = pod.get("status", {}).get("conditions", [])
    return {condition["type"]: condition["status"] for condition in conditions}


def _started(pod: JsonObject, now: str, address: str) -> JsonObject:
    statuses = [_container_status(pod, container, now) for container in pod["spec"]["containers"]]
    return {
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": statuses,
    }


def _container_status(pod: JsonObject, container: JsonObject, now: str) -> JsonObject:
    image = container["image"]
    pinned = image if "@" in image else f"{image}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    own = hashlib.sha256(f"{pod['metadata']['uid']}/{container['name']}".encode()).hexdigest()
    return {
        "name": container["name"],
        "image": image,
        "imageID": pinned,
        "containerID": f"containerd://{own}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }


def _now(behind_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - behind_s))


def _end_process(failure: threading.ExceptHookArgs) -> None:
    """A worker that broke must not leave the others looking healthy."""
    sys.excepthook(failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    os._exit(1)


def main(kubeconfig: str, pool: str, behind_s: str = "0") -> None:
    """Stand in for the kubelets of that pool until the process is ended."""
    threading.excepthook = _end_process
    FakeKubelets(Client(Path(kubeconfig)), pool, behind_s=float(behind_s)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
