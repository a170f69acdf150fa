"""A real Kubernetes node: kubelet, containerd and runc in a guest, joined to a control plane of the rig.

Every node sits alone on QEMU's user network, where it and the host have addresses of their own. A few
nft rules lead pods to the API server, and a DNS server on the node knows the names pods ask for; so
neither kube-proxy nor CoreDNS is needed. Pods of different nodes do not reach each other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from rig.base import addresses, polling, processes
from rig.base.errors import RigError
from rig.cluster import kubernetes
from rig.cluster.controlplane import ControlPlane, NodeIdentity
from rig.guest import kernels, vm
from rig.guest.kernels import Kernel
from rig.registries import registry
from rig.registries.registry import Registry
from rig.runtimes import images as packed

_READY_TIMEOUT_S = 420  # 45 s on a quiet machine, minutes when two guests share two cores


class Node:
    """One node; `index` gives its pods a network of their own."""

    def __init__(
        self,
        cluster: ControlPlane,
        images: Registry,
        kernel: Kernel,
        *,
        index: int = 1,
        boot_timeout_s: float = vm.BOOT_TIMEOUT_S,
    ) -> None:
        self.name = f"node{index}"
        self.cluster = cluster
        self._registry = images
        self._index = index
        self._port = processes.free_port()
        self._ready_timeout_s = max(_READY_TIMEOUT_S, boot_timeout_s)  # who waits for one waits for the other
        settings = vm.Settings(
            name=self.name,
            memory_mb=3072,
            network=True,
            forwards={self._port: self._port},
            boot_timeout_s=boot_timeout_s,
        )
        self.guest = vm.Guest(kernel, settings)

    def start(self) -> None:
        """Boot and start the kubelet; waiting for it is apart, so that several can boot at once."""
        self.guest.start()
        config = self.guest.share / "node"
        config.mkdir()
        self._write_configuration(config, self.cluster.node(self.name))
        program = kubernetes.binaries() / "kubelet"
        script = vm.GUEST_FILES / "node"
        self._command = self.guest.begin(f"exec '{script}' /mnt/share/node '{program}'")

    def await_ready(self) -> None:
        """Wait until the API server says the node is Ready."""
        try:
            polling.until(
                self._is_ready, f"{self.name} is Ready", timeout_s=self._ready_timeout_s, poll_s=0.5
            )
        except RigError as error:
            raise RigError(f"{error}\n{self.logs()}") from error

    def reboot(self) -> None:
        """Cut the power and boot anew; its disks were in memory, so that every image is pulled again."""
        self.guest.kill()
        self.guest = vm.Guest(self.guest.kernel, self.guest.settings)
        self.start()
        self.await_ready()

    def read(self, path: str) -> str:
        """The content of a file in the guest, empty when it is not there."""
        return self.guest.run(f"cat '{path}' 2>/dev/null").output.strip()

    def logs(self) -> str:
        """The end of what kubelet, containerd and the console said."""
        files = [self.guest.share / "kubelet.log", self.guest.share / "containerd.log", self.guest.console]
        return "\n".join(f"--- {file.name}\n{_tail(file)}" for file in files if file.exists())

    def _is_ready(self) -> bool:
        if self.guest.has_ended(self._command):
            said = self.guest.await_end(self._command, timeout_s=1).output
            raise RigError(f"the kubelet of {self.name} ended:\n{said}")
        mine = self.cluster.client.find(f"/api/v1/nodes/{self.name}")
        conditions = mine["status"].get("conditions", []) if mine else []
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _write_configuration(self, folder: Path, identity: NodeIdentity) -> None:
        shutil.copy(identity.kubeconfig, folder / "kubeconfig")
        for source, name in ((identity.ca_file, "ca.crt"), *_pair(identity)):
            shutil.copy(source, folder / name)
        trust = folder / "certs.d" / self._registry.named_host
        trust.mkdir(parents=True)
        (trust / "hosts.toml").write_text(self._registry_trust())
        for name, text in {
            "name": self.name,
            "address": addresses.GUEST,
            "hosts": f"{addresses.HOST_SEEN_FROM_GUESTS} {registry.NAME}\n{addresses.GUEST} {self.name}\n",
            "nat.nft": self._address_translation(),
            "dnsmasq.conf": self._names(),
            "cni.conflist": json.dumps(self._pod_network()),
            "containerd.toml": self._runtime(),
            "kubelet.json": json.dumps(self._kubelet()),
        }.items():
            (folder / name).write_text(text)

    def _registry_trust(self) -> str:
        url = f"https://{self._registry.named_host}"
        host = f'[host."{url}"]\ncapabilities = ["pull", "resolve"]\nca = "{_IN_GUEST}/ca.crt"\n'
        return f'server = "{url}"\n{host}'

    def _address_translation(self) -> str:
        """Leads the `kubernetes` service to the host, and lets pods reach the host at all."""
        api = f"{addresses.HOST_SEEN_FROM_GUESTS}:{self.cluster.layout.ports.api}"
        to_host = f"ip daddr {addresses.SERVICE} tcp dport 443 dnat to {api}"
        return dedent(f"""\
            table ip rig {{
              chain from_pods {{ type nat hook prerouting priority dstnat; {to_host}; }}
              chain from_node {{ type nat hook output priority -100; {to_host}; }}
              chain leaving {{
                type nat hook postrouting priority srcnat;
                ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade;
              }}
            }}
            """)

    def _names(self) -> str:
        table = {
            registry.NAME: addresses.HOST_SEEN_FROM_GUESTS,
            addresses.SERVICE_NAME: addresses.SERVICE,
        }
        known = "".join(f"address=/{name}/{address}\n" for name, address in table.items())
        return f"no-resolv\nno-hosts\nuser=root\nbind-dynamic\nlisten-address={addresses.GUEST}\n{known}"

    def _pod_network(self) -> dict[str, object]:
        subnet = f"10.244.{self._index}.0/24"
        leases = {
            "type": "host-local",
            "dataDir": "/run/cni/ipam",
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        return {"cniVersion": "0.4.0", "name": "rig", "plugins": [{"type": "ptp", "ipam": leases}]}

    def _runtime(self) -> str:
        return dedent(f"""\
            version = 2
            [plugins."io.containerd.grpc.v1.cri"]
              sandbox_image = "{self._registry.named_host}/rig/pause:1"
              [plugins."io.containerd.grpc.v1.cri".cni]
                bin_dir = "/usr/lib/cni"
                conf_dir = "/etc/cni/net.d"
              [plugins."io.containerd.grpc.v1.cri".registry]
                config_path = "{_IN_GUEST}/certs.d"
              [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
                runtime_type = "io.containerd.runc.v2"
            """)

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "0.0.0.0",
            "port": self._port,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{_IN_GUEST}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{_IN_GUEST}/serving.crt",
            "tlsPrivateKeyFile": f"{_IN_GUEST}/serving.key",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "failSwapOn": False,
            "clusterDNS": [addresses.GUEST],
            "clusterDomain": "cluster.local",
            "resolvConf": "/etc/resolv.conf",
            # the disk is a tmpfs: there is nothing to measure, and evicting for it would be noise
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            # emulation is slow; nothing here is slow because it hangs
            "runtimeRequestTimeout": "10m",
        }


_IN_GUEST = "/mnt/share/node"


def _pair(identity: NodeIdentity) -> tuple[tuple[Path, str], ...]:
    return ((identity.serving.cert, "serving.crt"), (identity.serving.key, "serving.key"))


def _tail(file: Path, lines: int = 12) -> str:
    return "\n".join(file.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def registry_for(cluster: ControlPlane) -> Iterator[Registry]:
    """A registry that the nodes of a cluster trust, with the image every pod needs in it."""
    with Registry(registry.Kind.REFERRERS, cluster.folder / "registry", cluster.layout.authority) as images:
        images.client.push(packed.pause(), "rig/pause", "1")
        yield images


def plan(
    cluster: ControlPlane,
    images: Registry,
    kinds: Sequence[str],
    *,
    boot_timeout_s: float = vm.BOOT_TIMEOUT_S,
) -> list[Node]:
    """One node per kind of kernel; nothing is started yet."""
    return [
        Node(cluster, images, kernels.obtain(kind), index=index, boot_timeout_s=boot_timeout_s)
        for index, kind in enumerate(kinds, 1)
    ]


@contextmanager
def running(*nodes: Node) -> Iterator[None]:
    """Boot all nodes, wait until all are Ready, and end them after the block."""
    started: list[Node] = []
    try:
        for node in nodes:
            started.append(node)
            node.start()
        for node in nodes:
            node.await_ready()
        yield
    finally:
        for node in reversed(started):
            node.guest.kill()
