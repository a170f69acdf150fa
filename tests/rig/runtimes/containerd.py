"""containerd on a private socket, without the Kubernetes part, with state of its own."""

from __future__ import annotations

import socket
from pathlib import Path

from rig.base import processes
from rig.base.lifetimes import Startable
from rig.base.processes import Completed
from rig.build import debian
from rig.registries.registry import Registry
from rig.runtimes import daemons
from rig.runtimes.daemons import Daemon

NAMESPACE = "schedkit"


def tree() -> Path:
    """containerd, its shims and runc, unpacked for this machine."""
    return debian.machine().tree("containerd", ["containerd", "runc"])


class Containerd(Startable):
    """One containerd; `run` is its own command-line client in our namespace."""

    def __init__(
        self,
        folder: Path,
        *,
        root: Path | None = None,
        isolated: bool = True,
        storage_mb: int | None = None,
    ) -> None:
        """`root` holds the programs: `/` inside a VM, an unpacked tree otherwise."""
        self._root = root or tree()
        self._folder = folder
        self._daemon = Daemon("containerd", folder, self._root, isolated=isolated, storage_mb=storage_mb)
        self._hosts = folder / "hosts"
        self.socket = folder / "containerd.sock"
        self.storage = self._daemon.storage
        values = {"storage": self.storage, "socket": self.socket}
        (folder / "config.toml").write_text(_CONFIG.format(**values))

    def trust(self, registry: Registry) -> None:
        """Let this containerd pull from a registry of the rig: by its authority, or over plain HTTP."""
        for host in (registry.host, registry.named_host):
            address = f"{registry.scheme}://{host}"
            lines = [f'server = "{address}"', f'[host."{address}"]']
            if registry.ca_file is not None:
                lines.append(f'ca = "{registry.ca_file}"')
            (self._hosts / host).mkdir(parents=True, exist_ok=True)
            (self._hosts / host / "hosts.toml").write_text("\n".join(lines))

    def start(self) -> None:
        """Returns when it answers."""
        argv: list[str | Path] = [self._root / "usr/bin/containerd", "--config", self._folder / "config.toml"]
        self._daemon.start(argv, self._environment(), self._answers)

    def stop(self) -> None:
        """End it; isolated, its containers end with it."""
        self._daemon.stop()
        daemons.remove_empty_cgroups(NAMESPACE)

    def pids(self) -> set[int]:
        """Everything that would end with it, containers included; empty once it has stopped."""
        return self._daemon.pids()

    def run(
        self, *arguments: str, timeout_s: float = daemons.COMMAND_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """One `ctr` command in our namespace; it mounts by itself, so it must see what containerd sees."""
        client: list[str | Path] = [
            self._root / "usr/bin/ctr",
            "--address",
            self.socket,
            "--namespace",
            NAMESPACE,
        ]
        argv = self._daemon.inside([*client, "--connect-timeout", "3s", *arguments])
        return processes.run(argv, env=self._environment(), timeout_s=timeout_s, check=check)

    def pull(self, reference: str) -> Completed:
        """Pull from a registry that was trusted before; raises when it cannot."""
        return self.run("images", "pull", "--hosts-dir", str(self._hosts), reference)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            if probe.connect_ex(str(self.socket)) != 0:
                return False
        return self.run("version", check=False).returncode == 0

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": daemons.search_path(self._root),
            "LD_LIBRARY_PATH": debian.library_path(self._root),
            "HOME": str(self._folder),
        }


# The disabled plugins need tools or filesystems that are not there, or listen where nobody asked them to.
_CONFIG = """\
version = 2
root = "{storage}/root"
state = "{storage}/state"
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
address = "{socket}"

[ttrpc]
address = "{socket}.ttrpc"
"""
