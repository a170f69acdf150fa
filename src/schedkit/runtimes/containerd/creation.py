"""Creating a container in containerd: its record, its filesystem, and its task, ready to start."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from schedkit.runtimes.containerd import images, log_files, oci_spec, stdin
from schedkit.runtimes.containerd.calls import CallError, Calls
from schedkit.runtimes.containers import CREATION_LABEL, PROVIDER_LABEL
from schedkit.runtimes.errors import NameTakenError, RefusedError
from schedkit.runtimes.specs import Spec

KEEPER = Path(__file__).with_name("log_keeper.py")
_SPEC_TYPE = "types.containerd.io/opencontainers/runtime-spec/1/Spec"


def create_record(rpc: Calls, namespace: str, spec: Spec, mark: str) -> None:
    """The container and its filesystem; after a failure the record, if there is one, carries the mark."""
    config, chain = images.config_of(rpc, spec.image)
    rendered = oci_spec.render(
        spec,
        oci_spec.parse_program(config),
        cgroup=f"/{namespace}/{spec.name}",
        grantable=oci_spec.granted(_own_capabilities()),
    )
    with images.lease(rpc) as held:
        _record(rpc, spec, rendered, mark, held)
        rpc.call("Snapshots.Prepare", parent=chain, lease=held, **_snapshot(spec.name))


def create_task(
    rpc: Calls,
    name: str,
    logs: Path,
    snapshot: Mapping[str, str] | None = None,
    *,
    has_input: bool = False,
) -> None:
    """The prepared program, whose output will be kept below `logs`; None: on the filesystem of that name."""
    try:
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        hint = f"check whether the folder {logs} can be made and written to"
        raise RefusedError(f"the output of {name} cannot be kept: {error}", hint) from error
    log_files.remove(logs / name)  # of an earlier container of that name
    mounts = rpc.call("Snapshots.Mounts", **(snapshot or _snapshot(name))).mounts
    with stdin.kept(KEEPER, logs, name) if has_input else nullcontext(_keeper(logs)) as streams:
        rpc.call("Tasks.Create", container_id=name, rootfs=mounts, **streams)


def _keeper(logs: Path) -> dict[str, Any]:
    """The program that containerd starts with the output of a container."""
    # containerd makes one argument of a name and one of its value, and mixes up several pairs
    uri = f"binary://{sys.executable}?{urlencode({str(KEEPER): str(logs)})}"
    return {"stdout": uri, "stderr": uri}


def _record(rpc: Calls, spec: Spec, rendered: dict[str, Any], mark: str, held: str) -> None:
    record = {
        "id": spec.name,
        "image": spec.image,
        "labels": {**spec.labels, CREATION_LABEL: mark, **dict([PROVIDER_LABEL])},
        "runtime": {"name": "io.containerd.runc.v2"},
        "spec": {"type_url": _SPEC_TYPE, "value": json.dumps(rendered).encode()},
        "snapshotter": images.SNAPSHOTTER,
        "snapshot_key": spec.name,
    }
    try:
        rpc.call("Containers.Create", container=record, lease=held)
    except CallError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        hint = "remove that container, or choose another name"
        raise NameTakenError(f"containerd has another container named {spec.name}", hint) from error


def _snapshot(key: str) -> dict[str, Any]:
    return {"snapshotter": images.SNAPSHOTTER, "key": key}


def _own_capabilities() -> int:
    """What we have is taken to be what containerd has: runc cannot grant more than that."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:")), 16)
