"""A machine on which somebody uses `schedctl`: the command, and a container runtime seen from outside.

What is tested must not be its own witness: containers and images are looked at with the runtime's own client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rig.base import processes
from rig.guest.schedctl_in_process import Ended, Schedctl
from rig.registries import signedimages
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

_SPARE_BYTES = 64 << 10  # on a disk that is as good as full


@dataclass(frozen=True)
class Machine:
    """One container runtime of the running kernel's machine, and `schedctl` with that driver."""

    service: Podman | Containerd
    schedctl: Schedctl

    @classmethod
    def using(cls, service: Podman | Containerd, home: Path, signed: Path | None = None) -> Machine:
        """A user with that home, images in a layout, and a policy that trusts who signed them.

        They are the rig's, or those that `signedimages.sign` has put into the folder `signed`.
        """
        driver = "podman" if isinstance(service, Podman) else "containerd"
        layout = signedimages.layout_in(signed) if signed else signedimages.layout()
        policy = signedimages.policy_in(signed) if signed else signedimages.policy()
        flags = ("--driver", driver, "--socket", str(service.socket), "--layout", str(layout))
        environment = {
            "HOME": str(home),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "SCHEDCTL_TRUST_POLICY": str(policy),
        }
        return cls(service, Schedctl(flags, environment))

    def from_registries(self) -> Machine:
        """The same user, whose images come from registries."""
        flags = self.schedctl.flags[: self.schedctl.flags.index("--layout")]
        return replace(self, schedctl=replace(self.schedctl, flags=flags))

    def run(self, name: str, *words: str) -> Ended:
        """`schedctl run` of an image of the rig."""
        return self.schedctl("run", signedimages.reference(name), "--timeout=90", *words)

    def containers(self) -> list[str]:
        """The names of all containers there are."""
        if isinstance(self.service, Podman):
            return [each["Names"][0] for each in self.service.ask("GET", "containers/json?all=true")]
        return self.service.run("containers", "list", "--quiet").stdout.split()

    def images(self) -> list[str]:
        """What the runtime itself calls the images that it has."""
        if isinstance(self.service, Podman):
            return [each["Id"] for each in self.service.ask("GET", "images/json?all=true")]
        return self.service.run("images", "list", "--quiet").stdout.split()

    def start_as_another(self, image: str, name: str, *words: str) -> None:
        """A container as the Go schedctl starts it: with its label or in its namespace."""
        if isinstance(self.service, Podman):
            marks = ("--label=provider=schedkit", "--privileged", "--pid=host", "--name", name)
            self.service.run("run", "--detach", *marks, image, *words)
        else:
            self.service.run("run", "--detach", "--privileged", image, name, *words)

    def clear(self) -> None:
        """Nothing that was started is left."""
        for name in self.containers():
            if isinstance(self.service, Podman):
                self.service.ask("DELETE", f"containers/{name}?force=true&timeout=0")
            else:
                self.service.run("tasks", "delete", "--force", name, check=False)  # it may have none
                self.service.run("containers", "delete", name)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """The runtime's storage has room for hardly anything more."""
        storage = self.service.storage
        found = os.statvfs(storage)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        _resize(storage, used + _SPARE_BYTES)
        try:
            yield
        finally:
            _resize(storage, found.f_blocks * found.f_frsize)


def _resize(mount: Path, size_bytes: int) -> None:
    processes.run(["mount", "-o", f"remount,size={size_bytes}", str(mount)])
