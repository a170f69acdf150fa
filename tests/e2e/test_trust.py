"""The operator enforces on a real node: what is signed attaches, nothing else does, no verifier harms it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rig.base import polling, processes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.cluster.node import Node
from rig.operator.installation import NAMESPACE, ROOT, make
from rig.operator.trustrules import BY_KEY, KEY_FILE
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.session import reporting
from rig.signatures.cosign import Cosign, Key

from .sites import Site
from .test_install import Memory, Operator

_SCHEDEXTS = "/apis/sked.schedkit.io/v1/namespaces/default/schedexts"
_VERIFIER = "/opt/schedkit/schedkit/sked/verifier.py"
_VERIFIED_S = 600  # an emulated machine starts Python, loads cryptography and shakes hands
_BOTH_MIB = 110  # manager and verifier
# in the place of the real one; it does what the name of the image says
_HOSTILE = """\
import json, os, sys, time
image = json.load(sys.stdin)["image"]
if "hangs" in image:
    time.sleep(3600)
if "crashes" in image:
    os.abort()
if "raves" in image:
    print("nonsense")
if "eats" in image:
    meal = [bytearray(1 << 20) for _ in range(4096)]
"""

pytestmark = [pytest.mark.full, pytest.mark.timeout(2400)]


@dataclass(frozen=True)
class Enforcing:
    """An operator that trusts one key."""

    operator: Operator
    cosign: Cosign
    key: Key

    def push(self, name: str, version: str, *, sign: bool) -> str:
        """A scheduler's image, by tag."""
        registry = self.operator.site.images
        digest = registry.client.push(images.scheduler(name, version=version), f"trust/{name}", version)
        if sign:
            self.cosign.sign(f"{registry.host}/trust/{name}@{digest}", self.key)
        return f"{registry.named_host}/trust/{name}:{version}"

    def apply(self, name: str, **spec: object) -> None:
        meta = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "metadata": {"name": name}}
        self.operator.cluster.apply({**meta, "spec": spec})

    def await_reason(self, name: str, kind: str, reason: str) -> JsonObject:
        def probe() -> JsonObject | None:
            status = self.operator.cluster.client.get(f"{_SCHEDEXTS}/{name}").get("status", {})
            found = [each for each in status.get("conditions", ()) if each["type"] == kind]
            return found[0] if found and found[0]["reason"] == reason else None

        return polling.until(probe, f"{name} is {kind} because of {reason}", timeout_s=_VERIFIED_S)

    def image(self, name: str) -> str:
        path = f"/apis/apps/v1/namespaces/default/daemonsets/{name}"
        containers = self.operator.cluster.client.get(path)["spec"]["template"]["spec"]["containers"]
        return str(containers[0]["image"])

    def restart_count(self) -> int:
        [pod] = self.operator.pods()
        return int(pod["status"]["containerStatuses"][0]["restartCount"])


class Watch:
    """The most memory that the manager's pod has had since the watch began, files not counted."""

    def __init__(self, operator: Operator) -> None:
        [self._pod] = operator.pods()
        self._node = operator.site.node
        group = f"/sys/fs/cgroup/kubepods/*/pod{self._pod['metadata']['uid']}"
        # the first line is about what belongs to processes alone; the loop ends with the pod
        look = "[ $now -gt $most ] && most=$now && echo $most"
        loop = f"while read _ now < $group/memory.stat; do {look}; sleep 0.1; done"
        self._samples = self._node.guest.begin(f"group=$(echo {group}); most=0; {loop}")

    def report(self, who: str) -> float:
        """Note it for the summary, with what the kernel counts in all; MiB."""
        most = int(self._node.guest.output(self._samples).split()[-1]) / 2**20
        memory = Memory.of(self._node, self._pod)
        reporting.note(f"{who}: at most {most:.0f} MiB, {memory.peak_mib:.0f} with files")
        assert memory.kills == 0
        return most


@pytest.fixture(scope="module", autouse=True)
def removed_afterwards(fleet: tuple[ControlPlane, Registry, Node]) -> Iterator[None]:
    """Other modules find the node's kernel without a scheduler."""
    yield
    make(fleet[0], "undeploy")


@pytest.fixture(scope="module")
def cosign(fleet: tuple[ControlPlane, Registry, Node]) -> Cosign:
    return Cosign(3, processes.run_folder("e2e-trust") / "cosign", ca_file=fleet[1].ca_file)


@pytest.fixture(scope="module")
def key(cosign: Cosign) -> Key:
    return cosign.new_key()


@pytest.fixture
def rules(site: Site, key: Key) -> dict[str, str]:
    """The files of the ConfigMap: one key is trusted, and the authority of the registry's certificate."""
    authority = site.images.ca_file
    assert authority is not None
    return {
        "rules.yaml": yaml.safe_dump({"mode": "enforce", "policy": BY_KEY}),
        KEY_FILE: key.public.read_text(),
        "registry-ca.pem": Path(authority).read_text(),
    }


def config_map(rules: dict[str, str]) -> JsonObject:
    meta = {"name": "sked-rules", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": rules}


Change = Callable[[JsonObject], None]


def install(site: Site, rules: dict[str, str], change: Change = lambda _: None) -> Operator:
    """From the file that `make build-installer` writes, and an administrator's rules beside it."""
    operator = Operator(site)
    make(site.cluster, "build-installer", f"IMG={operator.image}")
    objects = [each for each in yaml.safe_load_all((ROOT / "dist/install.yaml").read_text()) if each]
    objects.insert(1, config_map(rules))  # after the namespace
    for each in objects:
        if each["kind"] == "Deployment":
            [container] = each["spec"]["template"]["spec"]["containers"]
            container["args"] += ["--registry-ca=/etc/sked/trust/registry-ca.pem", "--trust-interval=20"]
            change(each["spec"]["template"]["spec"])
    site.cluster.apply(*objects, namespace=NAMESPACE)
    operator.await_manager()
    operator.site.until(lambda: len(operator.pods()) == 1, "the manager before is gone")
    return operator


def with_hostile_verifier(pod: JsonObject) -> None:
    """By a file that is mounted over the real one."""
    [container] = pod["containers"]
    container["volumeMounts"].append({"name": "hostile", "mountPath": _VERIFIER, "subPath": "verifier.py"})
    pod["volumes"].append({"name": "hostile", "configMap": {"name": "sked-rules"}})


def test_what_is_signed_attaches_and_what_is_not_leaves_it_attached(
    site: Site, rules: dict[str, str], cosign: Cosign, key: Key
) -> None:
    operator = install(site, rules)
    enforcing, watch = Enforcing(operator, cosign, key), Watch(operator)
    enforcing.apply("signed", sched=enforcing.push("fifo", "v1", sign=True))

    found = enforcing.await_reason("signed", "Verified", "Verified")
    operator.await_attached()
    attaches = operator.attaches()
    assert "@sha256:" in enforcing.image("signed")
    assert found["message"].endswith(f"was signed by {KEY_FILE}")

    enforcing.apply("signed", sched=enforcing.push("fifo", "v2", sign=False))
    refused = enforcing.await_reason("signed", "Accepted", "Untrusted")

    assert "is not signed" in refused["message"]
    assert (operator.site.state(), operator.attaches()) == ("enabled", attaches)

    operator.cluster.apply(config_map({**rules, "rules.yaml": "mode: warn\n"}), namespace=NAMESPACE)
    operator.await_attached(attaches=attaches + 1)

    assert enforcing.image("signed").endswith(":v2"), "by tag, as soon as the kubelet has brought the rules"
    assert watch.report("manager and verifier") < _BOTH_MIB
    assert enforcing.restart_count() == 0


def test_a_verifier_that_hangs_crashes_raves_or_eats_memory_leaves_the_manager_alone(
    site: Site, rules: dict[str, str], cosign: Cosign, key: Key
) -> None:
    operator = install(site, {**rules, "verifier.py": _HOSTILE}, with_hostile_verifier)
    enforcing, watch = Enforcing(operator, cosign, key), Watch(operator)
    for name in ("hangs", "crashes", "raves", "eats"):
        enforcing.apply(name, sched=f"registry.rig.test/{name}:v1", nodeSelector={"trust": "nowhere"})

    words = {
        name: enforcing.await_reason(name, "Verified", "VerifierFailed")["message"]
        for name in ("crashes", "raves", "eats", "hangs")
    }

    assert "it was ended by signal 6" in words["crashes"]
    assert "its answer cannot be understood" in words["raves"]
    assert "it ended with code 1" in words["eats"]
    assert "it did not end within" in words["hangs"]
    assert watch.report("manager and hostile verifiers") < _BOTH_MIB
    assert enforcing.restart_count() == 0
