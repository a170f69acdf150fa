"""Helm, built from Go modules, with a home of its own."""

from __future__ import annotations

from pathlib import Path

from rig.base import processes
from rig.build import golang

_SOURCE = Path(__file__).with_name("helmbox")


def program() -> Path:
    """The Helm that `helmbox/go.mod` pins, in the cache."""
    return golang.build("helm", _SOURCE, package="helm.sh/helm/v4/cmd/helm")


def run(
    *arguments: str, home: Path, kubeconfig: Path | None = None, check: bool = True, timeout_s: float = 120
) -> processes.Completed:
    """One helm command; what it keeps and caches lies in `home`, and it sees no cluster but that one."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "KUBECONFIG": str(kubeconfig or "/dev/null")}
    return processes.run([program(), *arguments], env=environment, check=check, timeout_s=timeout_s)
