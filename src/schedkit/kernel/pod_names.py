"""Names of pods on a Kubernetes node: control groups know uids alone, and the kubelet's logs know both."""

from __future__ import annotations

import os
from pathlib import Path

from schedkit.model.host.processes import Process, place_of, pod_named

_LOGS = Path("var/log/pods")  # root's, on every node; a kubelet may be told another place


def named(root: Path, process: Process) -> Process:
    """The process with the name of its pod, if it is in a pod and the node has that pod's logs."""
    uid = place_of(process).pod_uid
    return process._replace(pod=pod_named(_log_folders(root), uid)) if uid else process


def _log_folders(root: Path) -> list[str]:
    try:
        return os.listdir(root / _LOGS)  # noqa: PTH208 - names are all that is asked for
    except OSError:
        return []
