"""Everything the rigs are made of, in one list, so that it can be fetched and built ahead of the tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from rig.base.errors import RigError, Unavailable
from rig.base.progress import say, step
from rig.build import ansible
from rig.cluster import kubernetes
from rig.guest import guestroot, kernels, schedulers, vm
from rig.operator import helm, operatorimage
from rig.registries import registry
from rig.runtimes import containerd, images, podman
from rig.signatures import cosign, genuine

# quick ones first: the long build then has nothing behind it that could fail
_PARTS: Mapping[str, Callable[[], object]] = {
    "QEMU": vm.programs,
    "programs for guests": guestroot.tree,
    **{f"kernel, kind {kind}": partial(kernels.obtain, kind) for kind in kernels.KINDS},
    "Podman": podman.tree,
    "containerd": containerd.tree,
    "cosign 2": lambda: cosign.program(2),
    "cosign 3": lambda: cosign.program(3),
    "registries": registry.programs,
    "genuine signatures": genuine.folder,
    "schedulers": schedulers.built,
    "image of the probe": images.probe,
    "image of the operator": operatorimage.layout,
    "Helm": helm.program,
    "Ansible": ansible.packages,
    "Kubernetes": kubernetes.binaries,
}


def fetch() -> int:
    """Obtain every part, with progress; what this machine cannot have, the tests report again."""
    with step("fetching and building what the tests need"):
        for name, obtain in _PARTS.items():
            _obtain(name, obtain)
    return 0


def _obtain(name: str, obtain: Callable[[], object]) -> None:
    try:
        obtain()
    except (Unavailable, RigError) as error:
        say(f"{name}: not to be had, the tests that need it will say so: {error}")
