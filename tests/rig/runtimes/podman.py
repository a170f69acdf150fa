"""Podman as a service on a private socket, with storage and configuration of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from rig.base import processes
from rig.base.errors import RigError
from rig.base.lifetimes import Startable
from rig.base.processes import Completed
from rig.build import debian
from rig.registries.registry import Registry
from rig.runtimes import daemons
from rig.runtimes.daemons import Daemon

_FIRST_ERROR = 400  # of the statuses of HTTP


def tree() -> Path:
    """Podman and the programs it starts, unpacked for this machine."""
    return debian.machine().tree("podman", ["podman", "conmon", "runc"])


class Podman(Startable):
    """One Podman service; commands reach it over its socket, so that all containers are its children."""

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
        self._daemon = Daemon("podman", folder, self._root, isolated=isolated, storage_mb=storage_mb)
        self.socket = folder / "podman.sock"
        self.storage = self._daemon.storage
        self._write_configuration()

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def trust(self, registry: Registry) -> None:
        """Let this Podman pull from a registry of the rig: by its authority, or over plain HTTP.

        The latter only before `start`: the service reads that file once.
        """
        if registry.ca_file is None:
            with (self._folder / "registries.conf").open("a") as out:
                out.write(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
            return
        for host in (registry.host, registry.named_host):
            certificates = self._home_file(f"certs.d/{host}/ca.crt")
            certificates.write_bytes(registry.ca_file.read_bytes())

    def start(self) -> None:
        """Returns when the service answers."""
        self.socket.unlink(missing_ok=True)
        argv: list[str | Path] = [self._root / "usr/bin/podman", "system", "service", "--time=0", self.url]
        self._daemon.start(argv, self._environment(), self._answers)

    def stop(self) -> None:
        """End the service; isolated, its containers end with it."""
        self._daemon.stop()
        daemons.remove_empty_cgroups("libpod_parent")

    def pids(self) -> set[int]:
        """Everything that would end with it, containers included; empty once it has stopped."""
        return self._daemon.pids()

    def run(
        self, *arguments: str, timeout_s: float = daemons.COMMAND_TIMEOUT_S, check: bool = True
    ) -> Completed:
        """One podman command against the service."""
        return processes.run([*self.command(), *arguments], timeout_s=timeout_s, check=check)

    def command(self, *, remote: bool = True) -> list[str]:
        """How a podman command against the service begins, whatever the environment it is started in.

        Not `remote`, it does its work itself, on the same storage.
        """
        settings = [f"{name}={value}" for name, value in self._environment().items()]
        program = str(self._root / "usr/bin/podman")
        return ["env", "--ignore-environment", *settings, program, *(("--url", self.url) if remote else ())]

    def ask(self, method: str, path: str) -> Any:
        """What its API answers; an emulated guest takes seconds to start the command."""
        connection = _Connection(self.socket)
        connection.request(method, f"/v4.0.0/libpod/{path}")
        with closing(connection), connection.getresponse() as answer:
            said = answer.read()
        if answer.status >= _FIRST_ERROR:
            raise RigError(f"Podman answered {method} {path} with {answer.status}: {said.decode()}")
        return json.loads(said) if said else None

    def inspect(self, container: str) -> Mapping[str, Any]:
        """All that Podman knows about a container."""
        [found] = json.loads(self.run("container", "inspect", container).stdout)
        return dict(found)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            return probe.connect_ex(str(self.socket)) == 0

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": daemons.search_path(self._root),
            "LD_LIBRARY_PATH": debian.library_path(self._root),
            "HOME": str(self._folder / "home"),
            "XDG_RUNTIME_DIR": str(self._folder / "home"),
            "CONTAINERS_CONF": str(self._folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._folder / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self._folder / "registries.conf"),
        }

    def _home_file(self, name: str) -> Path:
        """A file that Podman looks for in the home of its user."""
        file = self._folder / "home/.config/containers" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _write_configuration(self) -> None:
        values = {"root": self._root, "storage": self.storage}
        (self._folder / "containers.conf").write_text(_CONTAINERS_CONF.format(**values))
        (self._folder / "storage.conf").write_text(_STORAGE_CONF.format(**values))
        (self._folder / "registries.conf").write_text("")
        self._home_file("policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')


class _Connection(HTTPConnection):
    """HTTP over a socket in the filesystem."""

    def __init__(self, path: Path) -> None:
        super().__init__("podman", timeout=daemons.COMMAND_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


# - netns host: a network of its own would need netavark or CNI plugins, and leave interfaces behind
# - default_ulimits: Podman raises the limits otherwise, which a machine without CAP_SYS_RESOURCE refuses
# - cgroupfs, file: neither systemd nor a journal is needed
# - runc: crun refuses hosts that mount both versions of cgroups
# - tmp_dir, runroot: in /run, which is private, because Podman refuses to clean up below a path of more than
#   50 letters, and then takes 20 seconds to see that a container has ended; for the same reason no folder is
#   set here that its clean-up command does not learn about
# - lock_type: the usual one is a file in /dev/shm that all Podmans of a machine share
_CONTAINERS_CONF = """\
[containers]
netns = "host"
log_driver = "k8s-file"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
lock_type = "file"
conmon_path = ["{root}/usr/bin/conmon"]
tmp_dir = "/run/libpod"

[engine.runtimes]
runc = ["{root}/usr/bin/runc", "{root}/usr/sbin/runc"]
"""
_STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{storage}/graph"
runroot = "/run/containers/storage"
"""
