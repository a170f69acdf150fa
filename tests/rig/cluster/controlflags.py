"""The command lines of the control plane's programs: values in, words out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rig.base import addresses, processes
from rig.base.certificates import Authority, KeyPair
from rig.cluster import audit

Flags: TypeAlias = dict[str, object]

_ADMISSION = (
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodSecurity",
    "ValidatingAdmissionPolicy",
)


@dataclass(frozen=True)
class Ports:
    """Free ports, chosen once: a program that is started again is found where it was."""

    api: int = field(default_factory=processes.free_port)
    etcd: int = field(default_factory=processes.free_port)
    etcd_peer: int = field(default_factory=processes.free_port)
    controllers: int = field(default_factory=processes.free_port)
    scheduler: int = field(default_factory=processes.free_port)


@dataclass(frozen=True)
class Layout:
    """Where a control plane keeps and finds everything."""

    folder: Path
    authority: Authority
    fake_nodes: bool
    ports: Ports = field(default_factory=Ports)

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def pair(self, name: str, *, group: str | None = None, sans: tuple[str, ...] = ()) -> KeyPair:
        """The key pair of that name and group, issued at the first call."""
        file = f"{name}@{group}" if group else name
        known = KeyPair(self.authority.folder / f"{file}.crt", self.authority.folder / f"{file}.key")
        if known.key.exists():
            return known
        return self.authority.issue(file, common_name=name, organization=group, sans=sans)

    @property
    def loopback(self) -> KeyPair:
        """What the programs show each other, as server and as client."""
        return self.pair("loopback", sans=("localhost", "127.0.0.1"))

    @property
    def tokens(self) -> KeyPair:
        """What signs the tokens of service accounts."""
        return self.pair("service-accounts")


def etcd(layout: Layout) -> list[str]:
    here, peer = f"https://127.0.0.1:{layout.ports.etcd}", f"https://127.0.0.1:{layout.ports.etcd_peer}"
    trust = {
        "cert-file": layout.loopback.cert,
        "key-file": layout.loopback.key,
        "trusted-ca-file": layout.authority.ca_file,
        "client-cert-auth": True,
    }
    places = {
        "name": "rig",
        "data-dir": layout.folder / "etcd",
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"rig={peer}",
    }
    limits = {
        "unsafe-no-fsync": True,  # the data ends with the run, and disks are slow
        "quota-backend-bytes": 8 * 2**30,
        "log-level": "warn",
    }
    return _words(places | trust | {f"peer-{name}": value for name, value in trust.items()} | limits)


def apiserver(layout: Layout) -> list[str]:
    flags = _storage(layout) | _serving(layout) | _tokens(layout) | _policy(layout) | _kubelets(layout)
    if layout.fake_nodes:
        # it taints new nodes until the node lifecycle controller has seen them: minutes for thousands
        flags |= {"disable-admission-plugins": "TaintNodesByCondition"}
    return _words(flags)


def _storage(layout: Layout) -> Flags:
    return {
        "etcd-servers": f"https://127.0.0.1:{layout.ports.etcd}",
        "etcd-cafile": layout.authority.ca_file,
        "etcd-certfile": layout.loopback.cert,
        "etcd-keyfile": layout.loopback.key,
    }


def _serving(layout: Layout) -> Flags:
    parts = addresses.SERVICE_NAME.split(".")
    names = tuple(".".join(parts[:count]) for count in (1, 2, 3, 5))
    sans = ("127.0.0.1", "localhost", addresses.HOST_SEEN_FROM_GUESTS, addresses.SERVICE, *names)
    pair = layout.pair("kube-apiserver", sans=sans)
    return {
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": layout.ports.api,
        "endpoint-reconciler-type": "none",  # a loopback address is not allowed in Endpoints
        "service-cluster-ip-range": addresses.SERVICE_RANGE,
        "tls-cert-file": pair.cert,
        "tls-private-key-file": pair.key,
        "client-ca-file": layout.authority.ca_file,
    }


def _tokens(layout: Layout) -> Flags:
    return {
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": layout.tokens.cert,
        "service-account-signing-key-file": layout.tokens.key,
    }


def _policy(layout: Layout) -> Flags:
    policy = layout.folder / "audit-policy.json"
    policy.write_text(json.dumps(audit.POLICY))
    return {
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": ",".join(_ADMISSION),
        "allow-privileged": True,
        "audit-policy-file": policy,
        "audit-log-path": layout.audit_log,
        "audit-log-maxsize": 8192,  # MB: a rotated log would hide events from tests
    }


def _kubelets(layout: Layout) -> Flags:
    pair = layout.pair("apiserver-kubelet", group="system:masters")
    return {
        "kubelet-certificate-authority": layout.authority.ca_file,
        "kubelet-client-certificate": pair.cert,
        "kubelet-client-key": pair.key,
        # guests all have the same address of their own; their names lead to a forwarded port of the host
        "kubelet-preferred-address-types": "Hostname,InternalIP",
    }


def controllers(layout: Layout, kubeconfig: Path) -> list[str]:
    flags = _worker(layout, kubeconfig, layout.ports.controllers) | {
        "use-service-account-credentials": True,
        "root-ca-file": layout.authority.ca_file,
        "service-account-private-key-file": layout.tokens.key,
    }
    return _words(flags | {"node-monitor-grace-period": _grace_period(layout)})


def _grace_period(layout: Layout) -> str:
    """How long a node may be silent: fake ones always are, emulated ones when the machine is busy."""
    return "24h" if layout.fake_nodes else "5m"


def scheduler(layout: Layout, kubeconfig: Path) -> list[str]:
    return _words(_worker(layout, kubeconfig, layout.ports.scheduler))


def _worker(layout: Layout, kubeconfig: Path, port: int) -> Flags:
    return {
        "kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": layout.loopback.cert,
        "tls-private-key-file": layout.loopback.key,
        "authentication-skip-lookup": True,
        "leader-elect": False,  # there is one, and after a crash it shall not wait for its own lease
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
    }


def _words(flags: Mapping[str, object]) -> list[str]:
    words = {name: str(value).lower() if isinstance(value, bool) else value for name, value in flags.items()}
    return [f"--{name}={word}" for name, word in words.items()]
