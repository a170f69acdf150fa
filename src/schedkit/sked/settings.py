"""What a manager is told when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Every flag of `sked manager`, with its default."""

    kubeconfig: Path | None = None  # None: KUBECONFIG, the pod's own, or ~/.kube/config
    context: str | None = None  # None: the kubeconfig's current one
    namespace: str | None = None  # None: the pod's own, or the context's
    leader_elect: bool = False
