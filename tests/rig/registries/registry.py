"""Real OCI registries on loopback: one that knows referrers and one that does not.

Without the referrers API: Debian's docker-registry, the software most private registries run; its
2.8 series answers 404 there, so that tools must use the fallback tag.

With it: olareg, built from Go modules in half a minute. It follows the distribution specification to the
letter (artifactType, its filter, OCI-Subject), keeps its content on disk and deletes what it is told to.
go-containerregistry's registry package was the alternative: it reports the config's media type as
artifactType and ignores the filter, so that a client which relies on either would pass here and fail
elsewhere. zot, the better known one, would bring hundreds of modules along.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from rig.base import processes
from rig.base.addresses import HOST_SEEN_FROM_GUESTS
from rig.base.certificates import Authority, KeyPair
from rig.base.errors import RigError
from rig.base.lifetimes import Startable
from rig.build import debian, golang
from rig.registries.distribution import Client

# What a registry is called: by tests, on this host, and from inside a VM with user networking.
NAME = "registry.rig.test"
_CERTIFIED_NAMES = (NAME, "localhost", "127.0.0.1", HOST_SEEN_FROM_GUESTS)


class Kind(StrEnum):
    """What a registry can tell about the things that refer to an image."""

    REFERRERS = "with-referrers"
    FALLBACK_TAGS = "without-referrers"


class Registry(Startable):
    """One registry process; its port and content stay the same when it is stopped and started again."""

    def __init__(
        self,
        kind: Kind,
        folder: Path,
        authority: Authority | None = None,
        demand: Mapping[str, object] | None = None,
    ) -> None:
        """`demand` is the part of docker-registry's settings that says how to log in; see `tokens`."""
        self.kind = kind
        self._demand = demand
        self._folder = folder
        self._port = processes.free_port()
        self.ca_file = authority.ca_file if authority else None  # None: plain HTTP
        self._pair = (
            authority.issue(f"registry-{kind}", common_name=NAME, sans=_CERTIFIED_NAMES)
            if authority
            else None
        )
        self._process: processes.Process | None = None
        (folder / "content").mkdir(parents=True, exist_ok=True)

    @property
    def port(self) -> int:
        return self._port

    @property
    def host(self) -> str:
        """The part of an image reference before the first slash, for use on this machine."""
        return f"127.0.0.1:{self._port}"

    @property
    def named_host(self) -> str:
        """The same for places where the rig's name resolves; only with an authority."""
        return f"{NAME}:{self._port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def scheme(self) -> str:
        return "https" if self._pair else "http"

    @property
    def client(self) -> Client:
        return Client(self.url, self.ca_file)

    def start(self) -> None:
        """Returns when the registry answers."""
        argv = _COMMANDS[self.kind](self._folder, self._port, self._pair, self._demand)
        # an environment of its own: docker-registry takes any REGISTRY_* variable for a setting
        self._process = processes.Process(argv, log=self._folder / "registry.log", env={})
        self._process.await_ready(self._answers, timeout_s=30, poll_s=0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _answers(self) -> bool:
        try:
            return self.client.request("GET", "/v2/").status == (401 if self._demand else 200)
        except OSError:
            return False


def programs() -> tuple[Path, Path]:
    """Both registries' programs, in the cache."""
    return _docker_registry_program(), _olareg_program()


def _docker_registry_program() -> Path:
    return debian.machine().tree("docker-registry", ["docker-registry"]) / "usr/bin/docker-registry"


def _olareg_program() -> Path:
    source = Path(__file__).with_name("registrybox")
    return golang.build("olareg", source, package="github.com/olareg/olareg/cmd/olareg")


@dataclass(frozen=True)
class Pushed:
    """An image in a registry."""

    registry: Registry
    repository: str
    digest: str

    @property
    def reference(self) -> str:
        """What a tool on this machine pulls, signs or verifies."""
        return f"{self.registry.host}/{self.repository}@{self.digest}"


def _docker_registry(
    folder: Path, port: int, pair: KeyPair | None, demand: Mapping[str, object] | None
) -> Sequence[str | Path]:
    http: dict[str, object] = {"addr": f"127.0.0.1:{port}"}
    if pair is not None:
        http["tls"] = {"certificate": str(pair.cert), "key": str(pair.key)}
    settings = {
        "version": 0.1,
        "log": {"level": "warn"},
        "storage": {
            "filesystem": {"rootdirectory": str(folder / "content")},
            "delete": {"enabled": True},
        },
        "http": http,
        "auth": dict(demand or {}),
    }
    config = folder / "config.yml"
    config.write_text(json.dumps(settings, indent=2))  # every JSON document is a YAML document
    return [_docker_registry_program(), "serve", config]


def _olareg(
    folder: Path, port: int, pair: KeyPair | None, demand: Mapping[str, object] | None
) -> Sequence[str | Path]:
    if demand:
        raise RigError("only docker-registry can be told to demand a login")
    argv: list[str | Path] = [_olareg_program(), "serve", "--addr", "127.0.0.1", "--port", str(port)]
    argv += ["--dir", folder / "content", "--api-delete", "--gc-frequency", "-1s"]
    return [*argv, "--tls-cert", pair.cert, "--tls-key", pair.key] if pair else argv


_COMMANDS: dict[
    Kind, Callable[[Path, int, KeyPair | None, Mapping[str, object] | None], Sequence[str | Path]]
] = {
    Kind.FALLBACK_TAGS: _docker_registry,
    Kind.REFERRERS: _olareg,
}
