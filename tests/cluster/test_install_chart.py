"""The Helm chart: the same objects as kustomize, wrong values refused, installed, upgraded and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rig.base import polling, processes
from rig.base.errors import RigError
from rig.cluster import controlplane
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator import helm, installation, installedrules
from rig.operator.installation import (
    CHART,
    CHARTS_IMAGE,
    NAMESPACE,
    OLD_CHART,
    OLD_OBJECTS,
    by_name,
    charted,
    kustomized,
)
from rig.operator.installedrules import Said
from schedkit import __version__
from schedkit.model.trust.rules import TrustMode, parse_rules
from schedkit.oci.policy.patterns import parse_pattern

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedexts.sked.schedkit.io"
NODE_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/schedextnodes.sked.schedkit.io"
MANAGER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/sked-controller-manager"
PLACEHOLDER = ("--set", "image.repository=controller,image.tag=latest")
OF_HELM = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
)


def without_helms_own(thing: JsonObject) -> JsonObject:
    """An object without the labels and annotations by which Helm finds and keeps it."""
    meta = dict(thing["metadata"])
    for kind in ("labels", "annotations"):
        meta[kind] = {key: value for key, value in meta.get(kind, {}).items() if key not in OF_HELM}
    if thing["kind"] == "CustomResourceDefinition":
        meta["labels"].pop("app.kubernetes.io/name")  # the file for kustomize is the bare definition
    return {**thing, "metadata": {key: value for key, value in meta.items() if value}}


@pytest.fixture(scope="module")
def home() -> Path:
    return processes.run_folder("helm")


def test_the_chart_has_no_fault_that_helm_knows_of(home: Path) -> None:
    said = helm.run("lint", "--strict", str(CHART), home=home).stdout

    assert "1 chart(s) linted, 0 chart(s) failed" in said


def test_the_chart_is_of_the_version_it_installs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_chart_and_kustomize_make_the_same_objects(home: Path) -> None:
    """But for the Namespace, which is Helm's own business."""
    wanted = by_name(kustomized("default"))
    del wanted["Namespace", NAMESPACE]

    found = by_name(map(without_helms_own, charted(home, *PLACEHOLDER)))

    assert found.keys() == wanted.keys()
    for name, thing in wanted.items():
        assert found[name] == thing


def test_a_cluster_that_insists_on_choosing_users_can(home: Path) -> None:
    manager = by_name(charted(home, "--set", "runAs=null"))["Deployment", "sked-controller-manager"]

    security = manager["spec"]["template"]["spec"]["securityContext"]
    assert (security["runAsNonRoot"], security.keys() & {"runAsUser", "runAsGroup"}) == (True, set())


def test_chart_and_kustomize_leave_out_the_same_agents(home: Path) -> None:
    wanted = by_name(kustomized("agentless"))
    del wanted["Namespace", NAMESPACE]

    found = by_name(map(without_helms_own, charted(home, *PLACEHOLDER, "--set", "agent.enabled=false")))

    assert found == wanted


def test_chart_and_kustomize_have_agents_with_metrics_alike(home: Path) -> None:
    wanted = by_name(kustomized("agent-metrics"))
    del wanted["Namespace", NAMESPACE]

    found = by_name(map(without_helms_own, charted(home, *PLACEHOLDER, "--set", "agent.metrics=true")))

    assert found == wanted
    assert wanted.keys() - by_name(kustomized("default")).keys() == {
        ("ClusterRole", "sked-node-agent-metrics-role"),
        ("ClusterRoleBinding", "sked-node-agent-metrics-rolebinding"),
    }


def test_manager_and_agents_are_of_the_one_image_that_is_named(home: Path) -> None:
    objects = by_name(charted(home, "--set", "image.tag=v9,image.pullPolicy=Never"))
    names = (("Deployment", "sked-controller-manager"), ("DaemonSet", "sked-node-agent"))

    containers = [each for name in names for each in objects[name]["spec"]["template"]["spec"]["containers"]]

    assert {(each["image"], each["imagePullPolicy"]) for each in containers} == {
        ("registry.example/sked:v9", "Never")
    }
    assert len(containers) == 2


@pytest.mark.parametrize(("name", "quotas"), [("", 0), ("our-critical", 1)])
def test_agents_of_another_priority_have_a_quota_for_that(home: Path, name: str, quotas: int) -> None:
    objects = charted(home, "--set", f"agent.priorityClassName={name}")
    pod = by_name(objects)["DaemonSet", "sked-node-agent"]["spec"]["template"]["spec"]

    found = [each["spec"]["scopeSelector"] for each in objects if each["kind"] == "ResourceQuota"]

    assert pod.get("priorityClassName", "") == name
    assert [each["matchExpressions"][0]["values"] for each in found] == [[name]] * quotas


RESTRICTED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
    "capabilities": {"drop": ["ALL"]},
}


@pytest.mark.parametrize(
    ("level", "capabilities", "security"),
    [
        (1, [], "restricted"),
        (2, ["SYS_PTRACE", "SYSLOG"], "privileged"),
        (3, ["SYS_PTRACE", "SYSLOG", "SYS_ADMIN"], "privileged"),
    ],
)
def test_agents_have_what_their_level_needs_and_no_more(
    home: Path, level: int, capabilities: list[str], security: str
) -> None:
    objects = by_name(charted(home, "--set", f"agent.level={level}"))
    pod = objects["DaemonSet", "sked-node-agent"]["spec"]["template"]["spec"]
    context = pod["containers"][0]["securityContext"]
    labels = objects["Namespace", "sked-node"]["metadata"]["labels"]

    assert context["capabilities"].get("add", []) == capabilities
    assert pod.get("hostPID", False) is (level > 1)
    assert {value for key, value in labels.items() if key.startswith("pod-security")} == {security}
    assert (context == RESTRICTED) is (level == 1)


def test_the_charts_opt_in_parts_are_those_of_kustomize(home: Path) -> None:
    settings = (
        "--set",
        "metrics.serviceMonitor=true,metrics.podMonitor=true,metrics.alerts=true,networkPolicy=true",
    )
    wanted = by_name([*kustomized("prometheus"), *kustomized("network-policy")])

    found = by_name(map(without_helms_own, charted(home, *settings)))

    assert {name: found[name] for name in wanted} == wanted


def test_chart_and_kustomize_enforce_with_the_same_objects(home: Path) -> None:
    wanted = by_name(kustomized("secure"))
    del wanted["Namespace", NAMESPACE]

    found = by_name(map(without_helms_own, charted(home, *PLACEHOLDER, "--set", "trust.mode=enforce")))

    assert found == wanted


def test_rules_and_key_files_of_the_charts_values_are_what_the_manager_reads(home: Path) -> None:
    settings = ("--set", "trust.mode=off,trust.rules.allowedNamespaces={a,b},trust.files.team\\.pub=PEM")
    data = by_name(charted(home, *settings))["ConfigMap", "sked-rules"]["data"]

    rules = parse_rules(yaml.safe_load(data["rules.yaml"]), str.encode, TrustMode.OFF, parse_pattern)

    assert (rules.mode, rules.allowed_namespaces) == (TrustMode.OFF, ("a", "b"))
    assert data["team.pub"] == "PEM"


@pytest.mark.parametrize("mode", ["off", "warn", "enforce"])
def test_no_rules_are_written_for_somebody_who_set_none(mode: str, home: Path) -> None:
    for objects in (
        charted(home, "--set", f"trust.mode={mode}"),
        kustomized("default"),
        kustomized("secure"),
    ):
        assert [each for each in objects if each["kind"] == "ConfigMap"] == []


def test_the_charts_values_say_how_registries_are_reached(home: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    proxy = {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}
    trust = {
        "files": {"ours.pem": "PEM"},
        "registryCA": "ours.pem",
        "insecureRegistries": ["[fd00::1]:5000", "registry.local"],
        "interval": 1000000,
    }
    values.write_text(yaml.safe_dump({"trust": trust, "env": [proxy]}))

    manager = by_name(charted(home, "--values", str(values)))["Deployment", "sked-controller-manager"]

    (container,) = manager["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [proxy]
    assert container["args"][-4:] == [
        "--registry-ca=/etc/sked/trust/ours.pem",
        "--insecure-registry=[fd00::1]:5000",
        "--insecure-registry=registry.local",
        "--trust-interval=1000000",
    ]


def test_values_of_a_release_that_knew_fewer_of_them_mean_what_is_left_out(home: Path) -> None:
    newer = ("trust.registryCA", "trust.insecureRegistries", "trust.interval", "env", "agent")
    absent = ("--set", ",".join(f"{name}=null" for name in newer))

    assert charted(home, *absent) == charted(home)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("trust.mode=on", "at '/trust/mode': value must be one of"),
        ("trust.rules.mode=off", "additional properties 'mode' not allowed"),
        ("trust.registryCA=ours.pem", "trust.registryCA is ours.pem, which trust.files does not have"),
        ("trust.interval=soon", "at '/trust/interval': got string, want integer"),
        ("env[0].nmae=A", "missing property 'name'"),
        ("imgae.tag=v1", "additional properties 'imgae' not allowed"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("leaderElection=false,replicas=2", "at '/replicas': maximum: got 2, want 1"),
        ("agent.level=4", "at '/agent/level': value must be one of"),
        ("agent.enabled=maybe", "at '/agent/enabled': got string, want boolean"),
        ("image.digest=v1", "at '/image/digest': 'v1' does not match pattern"),
        ("image.repository=", "no image of sked is published yet: build one with `make docker-build"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(settings: str, message: str, home: Path) -> None:
    with pytest.raises(RigError) as refused:
        charted(home, "--set", settings)

    assert message in str(refused.value)


def test_without_leader_election_the_old_manager_goes_first(home: Path) -> None:
    manager = by_name(charted(home, "--set", "leaderElection=false"))["Deployment", "sked-controller-manager"]

    assert manager["spec"]["strategy"] == {"type": "Recreate"}
    assert "--leader-elect" not in manager["spec"]["template"]["spec"]["containers"][0]["args"]


class Release:
    """One release of the chart in a cluster."""

    def __init__(self, cluster: ControlPlane, home: Path) -> None:
        self._cluster, self._home = cluster, home

    def run(self, verb: str, *words: str) -> str:
        place = ("--namespace", NAMESPACE)
        said = helm.run(
            verb, "sked", *words, *place, home=self._home, kubeconfig=self._cluster.kubeconfig
        ).stdout
        if verb == "uninstall":
            self._wait_for_the_end()
        return said

    def _wait_for_the_end(self) -> None:
        """Until the agents' namespace and the CRD of their reports are gone: the next release brings them."""
        find, paths = self._cluster.client.find, ("/api/v1/namespaces/sked-node", NODE_CRD)
        polling.until(lambda: not any(map(find, paths)), "agents and reports are gone", timeout_s=60)

    def install(self, *words: str, chart: Path = CHART) -> str:
        return self.run("install", str(chart), "--create-namespace", *CHARTS_IMAGE, *words)

    def upgrade(self, *words: str) -> str:
        return self.run("upgrade", str(CHART), *CHARTS_IMAGE, *words)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """One of its own: the chart's objects belong to a whole cluster."""
    with controlplane.running("chart") as plane:
        yield plane


@pytest.fixture
def release(cluster: ControlPlane, home: Path) -> Iterator[Release]:
    """A release that may be installed; nothing is left of it afterwards."""
    release = Release(cluster, home)
    yield release
    release.run("uninstall", "--ignore-not-found")
    installedrules.remove(cluster)
    cluster.kubectl("delete", "--ignore-not-found", "crd", "schedexts.sked.schedkit.io", timeout_s=180)


def sample(cluster: ControlPlane) -> JsonObject | None:
    return cluster.client.find("/apis/sked.schedkit.io/v1/namespaces/default/schedexts/scx-rusty")


def image_of(manager: JsonObject) -> str:
    image: str = manager["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def apply_sample(cluster: ControlPlane) -> None:
    cluster.kubectl("wait", "--for=condition=Established", "crd/schedexts.sked.schedkit.io")
    cluster.kubectl("apply", "-k", str(installation.ROOT / "config/samples"))


def test_a_release_is_installed_with_notes_and_removed_without_touching_schedexts(
    cluster: ControlPlane, release: Release
) -> None:
    said = release.install("--set", "image.tag=v9")
    apply_sample(cluster)
    running = cluster.client.get(MANAGER)

    assert f"sked {__version__} is being started in {NAMESPACE}" in said
    assert image_of(running) == "registry.example/sked:v9"

    release.run("uninstall")

    assert cluster.client.find(MANAGER) is None
    assert sample(cluster) is not None

    release.install()

    assert cluster.client.find(MANAGER) is not None


def test_an_upgrade_also_upgrades_the_crd(cluster: ControlPlane, release: Release) -> None:
    """Helm itself would leave a CRD of the folder `crds` as it was."""
    release.install()
    full = cluster.client.get(CRD)["spec"]["versions"]
    older = [{**full[0], "additionalPrinterColumns": full[0]["additionalPrinterColumns"][:1]}]
    cluster.client.patch(CRD, {"spec": {"versions": older}})
    apply_sample(cluster)

    release.upgrade("--force-conflicts")

    assert cluster.client.get(CRD)["spec"]["versions"] == full
    assert sample(cluster) is not None


def test_whoever_wants_nothing_kept_says_so(cluster: ControlPlane, release: Release) -> None:
    release.install("--set", "crds.keep=false")
    apply_sample(cluster)

    release.run("uninstall")

    polling.until(lambda: cluster.client.find(CRD) is None, "the CRD is gone")


# The administrator's rules


@pytest.mark.parametrize(("files", "expected"), installedrules.CASES)
def test_rules_that_somebody_edited_in_an_older_release_outlive_upgrade_uninstall_and_reinstall(
    cluster: ControlPlane, release: Release, files: dict[str, str], expected: Said
) -> None:
    release.install(chart=OLD_CHART)
    installedrules.edit(cluster, files)
    written = {installedrules.OLD: dict(files)}

    for _ in range(2):
        said = release.upgrade()
        assert "The rules in ConfigMap sked-trust are as they were, and count" in said
        assert installedrules.data(cluster) == written
        assert installedrules.read(cluster) == expected
    installedrules.edit(cluster, {"notes.txt": "later"})
    written[installedrules.OLD]["notes.txt"] = "later"
    for words in (("rollback", "3"), ("uninstall",)):
        release.run(*words)
        assert installedrules.data(cluster) == written
    release.install()
    assert installedrules.data(cluster) == written
    assert installedrules.read(cluster) == expected


def test_rules_from_values_of_an_older_release_stay_where_the_old_manager_reads_them_and_outlive_the_same(
    cluster: ControlPlane, release: Release
) -> None:
    values = ("--set", "trust.mode=off,trust.rules.allowedNamespaces={a,b},trust.files.ours\\.pem=PEM")
    expected = Said(TrustMode.OFF, namespaces=("a", "b"))
    release.install(*values, chart=OLD_CHART)
    written = installedrules.data(cluster)
    assert list(written) == [installedrules.OLD]

    for _ in range(2):
        release.upgrade(*values)
        assert (installedrules.data(cluster), installedrules.read(cluster)) == (written, expected)
    release.run("uninstall")
    said = release.install()
    assert "The rules in ConfigMap sked-trust are as they were, and count" in said
    assert (installedrules.data(cluster), installedrules.read(cluster)) == (written, expected)


def test_an_upgrade_that_would_have_to_choose_between_two_sets_of_rules_changes_nothing(
    cluster: ControlPlane, release: Release
) -> None:
    values = ("--set", "trust.rules.allowedNamespaces={a}")
    release.install(*values, chart=OLD_CHART)
    installedrules.edit(cluster, installedrules.LISTS)
    before = (installedrules.data(cluster), cluster.client.get(MANAGER)["spec"])

    with pytest.raises(RigError, match="--namespace sked-system delete configmap") as refused:
        release.upgrade(*values)

    assert "nothing was changed: ConfigMap sked-trust has rules" in str(refused.value)
    assert (installedrules.data(cluster), cluster.client.get(MANAGER)["spec"]) == before


def test_a_release_leaves_rules_alone_that_it_did_not_write(cluster: ControlPlane, release: Release) -> None:
    release.install()
    meta = {"name": installedrules.NEW, "namespace": NAMESPACE}
    theirs = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": meta,
        "data": {"rules.yaml": "mode: off\n"},
    }
    cluster.apply(theirs, namespace=NAMESPACE)

    release.upgrade("--set", "trust.mode=warn")
    assert installedrules.read(cluster).mode is TrustMode.OFF
    with pytest.raises(RigError, match="invalid ownership metadata"):
        release.upgrade("--set", "trust.rules.allowedNamespaces={a}")
    release.run("uninstall")

    assert installedrules.data(cluster) == {installedrules.NEW: theirs["data"]}


def test_a_release_that_takes_over_from_an_older_kustomize_leaves_the_rules_there(
    cluster: ControlPlane, release: Release
) -> None:
    cluster.kubectl("apply", *(f"--filename={file}" for file in OLD_OBJECTS))
    installedrules.edit(cluster, installedrules.OFF)

    release.install("--take-ownership", "--force-conflicts")

    assert installedrules.data(cluster) == {installedrules.OLD: installedrules.OFF}
    assert installedrules.read(cluster).mode is TrustMode.OFF


def test_a_release_takes_over_from_kustomize(cluster: ControlPlane, release: Release) -> None:
    installation.make(cluster, "deploy", f"IMG={installation.IMAGE}")
    apply_sample(cluster)

    release.install("--take-ownership", "--force-conflicts", "--set", "image.tag=v9")

    found = cluster.client.get(MANAGER)
    assert image_of(found) == "registry.example/sked:v9"
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert sample(cluster) is not None
