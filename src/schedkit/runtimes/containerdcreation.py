"""Creating a container in containerd: its record, its filesystem, and its task, ready to start."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from schedkit.runtimes import containerdimages, ocispec
from schedkit.runtimes.containerdcalls import CallError, Calls
from schedkit.runtimes.containers import PROVIDER_LABEL
from schedkit.runtimes.errors import ContainerRuntimeError, NameTakenError
from schedkit.runtimes.specs import Spec

_KEEPER = Path(__file__).with_name("logkeeper.py")
_SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"


def create_record(rpc: Calls, namespace: str, spec: Spec) -> None:
    """The container and its filesystem, or neither."""
    config = containerdimages.config_of(rpc, spec.image)
    chain = containerdimages.chain_id(tuple(json.loads(config)["rootfs"]["diff_ids"]))
    rendered = ocispec.render(
        spec,
        ocispec.parse_program(config),
        cgroup=f"/{namespace}/{spec.name}",
        grantable=ocispec.granted(_own_capabilities()),
    )
    with containerdimages.lease(rpc) as held:
        _record(rpc, spec, rendered, held)
        try:
            rpc.call("Snapshots.Prepare", parent=chain, lease=held, **_snapshot(spec.name))
        except BaseException:
            with suppress(CallError, ContainerRuntimeError):
                rpc.call("Containers.Delete", id=spec.name)
            raise


def create_task(rpc: Calls, name: str, logs: Path) -> None:
    """The prepared program, whose output will be kept below `logs`."""
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    # containerd makes one argument of a name and one of its value, and mixes up several pairs
    keeper = f"binary://{sys.executable}?{urlencode({str(_KEEPER): str(logs)})}"
    mounts = rpc.call("Snapshots.Mounts", **_snapshot(name)).mounts
    rpc.call("Tasks.Create", container_id=name, rootfs=mounts, stdout=keeper, stderr=keeper)


def _record(rpc: Calls, spec: Spec, rendered: dict[str, Any], held: str) -> None:
    record = {
        "id": spec.name,
        "image": spec.image,
        "labels": dict([PROVIDER_LABEL]) | dict(spec.labels),
        "runtime": {"name": "io.containerd.runc.v2"},
        "spec": {"type_url": _SPEC_TYPE, "value": json.dumps(rendered).encode()},
        "snapshotter": containerdimages.SNAPSHOTTER,
        "snapshot_key": spec.name,
    }
    try:
        rpc.call("Containers.Create", container=record, lease=held)
    except CallError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        hint = "remove that one, or choose another name"
        raise NameTakenError(f"containerd has another container named {spec.name}", hint) from error


def _snapshot(key: str) -> dict[str, Any]:
    return {"snapshotter": containerdimages.SNAPSHOTTER, "key": key}


def _own_capabilities() -> int:
    """What we have is taken to be what containerd has: runc cannot grant more than that."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:")), 16)
