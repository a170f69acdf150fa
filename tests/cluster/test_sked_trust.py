"""A manager under rules: what may run is pinned, what may not is refused with the reason, what runs stays."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.cluster.controlplane import ControlPlane
from rig.cluster.kubeclient import JsonObject
from rig.operator import manager, scenes, trustrules
from rig.operator.manager import Manager, SchedExts
from rig.operator.trustrules import MountedRules, SignedImages
from rig.registries import tokens
from rig.registries.registry import Kind, Registry

SOON = "--trust-interval=2"


@pytest.fixture(scope="module")
def folder() -> Path:
    return processes.run_folder("sked-trust")


@pytest.fixture(scope="module", autouse=True)
def nodes(cluster: ControlPlane) -> Iterator[scenes.Nodes]:
    with scenes.nodes(cluster, "trust") as label:
        yield label


@pytest.fixture(scope="module")
def signed(folder: Path) -> Iterator[SignedImages]:
    with trustrules.signed_images(folder / "signed") as images:
        yield images


@pytest.fixture(scope="module")
def rules(folder: Path) -> MountedRules:
    return MountedRules(folder / "rules")


@pytest.fixture(scope="module")
def login(folder: Path) -> Path:
    """Where a Secret with logins is mounted, as soon as there is one."""
    return folder / "login/.dockerconfigjson"


@pytest.fixture(scope="module")
def sked(cluster: ControlPlane, rules: MountedRules, signed: SignedImages, login: Path) -> Iterator[Manager]:
    rules.write(signed.rules("enforce"))
    registries = (f"--registry-auth={login}", f"--registry-ca={cluster.layout.authority.ca_file}")
    flags = (f"--trust-config={rules.folder}", SOON, *registries)
    with manager.running(cluster, "sked-trusting", *flags) as running:
        yield running


@pytest.fixture
def enforcing(sked: Manager, rules: MountedRules, signed: SignedImages) -> Manager:
    change_rules(sked, rules, signed.rules("enforce"))
    return sked


@pytest.fixture
def schedexts(cluster: ControlPlane, namespace: str) -> SchedExts:
    return SchedExts(cluster, namespace)


def change_rules(sked: Manager, rules: MountedRules, files: dict[str, bytes]) -> None:
    """Return when the manager has read them."""
    before = len(sked.says("trust_rules_read")) + len(sked.says("trust_rules_unreadable"))
    rules.write(files)

    def read() -> bool:
        return len(sked.says("trust_rules_read")) + len(sked.says("trust_rules_unreadable")) > before

    polling.until(read, "the rules are read", timeout_s=60)  # after a question that is at hand


def image_of(schedexts: SchedExts, name: str = "scx") -> str:
    found = schedexts.await_daemon_set(name)
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def generation(schedexts: SchedExts, name: str = "scx") -> tuple[str, int]:
    """Changes with every write of the DaemonSet's spec."""
    meta = schedexts.await_daemon_set(name)["metadata"]
    return meta["uid"], meta["generation"]


def await_image(schedexts: SchedExts, image: str) -> None:
    polling.until(lambda: image_of(schedexts) == image, f"the DaemonSet runs {image}", timeout_s=30)


# Managers of their own: they come first, because the one that the others share serves the same SchedExts


def test_rules_that_were_never_readable_let_nothing_new_run_until_they_are_mended(
    cluster: ControlPlane, schedexts: SchedExts, folder: Path, nodes: scenes.Nodes
) -> None:
    rules = MountedRules(folder / "unreadable")
    with manager.running(cluster, "sked-before", f"--trust-config={rules.folder}"):
        schedexts.create("ran", nodeSelector=nodes)
        schedexts.await_daemon_set("ran")
    before = generation(schedexts, "ran")
    schedexts.change("ran", args=["--changed"])
    rules.write({"rules.yaml": b"mode: [\n"})
    with manager.running(cluster, "sked-blind", f"--trust-config={rules.folder}", SOON) as blind:
        schedexts.create(nodeSelector=nodes)
        found = schedexts.await_reason("Accepted", "PolicyUnreadable")
        assert "until the administrator's rules are corrected: rules.yaml of Conf" in found["message"]
        assert schedexts.daemon_set() is None
        schedexts.await_reason("Accepted", "PolicyUnreadable", "ran")
        assert generation(schedexts, "ran") == before

        rules.write({"rules.yaml": b"mode: off\n"})
        schedexts.await_reason("Verified", "VerificationOff", timeout_s=30)
        assert image_of(schedexts) == manager.IMAGE
        polling.until(lambda: arguments(schedexts, "ran") == ["--changed"], "what was held back goes on")
        assert blind.process.exit_code() is None


def test_off_asks_no_registry_and_warn_does(cluster: ControlPlane, schedexts: SchedExts) -> None:
    with socket.create_server(("127.0.0.1", 0)) as registry:
        image = f"127.0.0.1:{registry.getsockname()[1]}/rig/unasked:v1"
        schedexts.create(sched=image, nodeSelector={"no": "node"})

        with manager.running(cluster, "sked-off", SOON):
            schedexts.await_reason("Deployed", "NoNodes")
        registry.settimeout(0)
        with pytest.raises(BlockingIOError):
            registry.accept()

        with manager.running(cluster, "sked-warning", "--default-trust-mode=warn", SOON):
            registry.settimeout(30)
            registry.accept()[0].close()


def test_without_rules_the_flag_decides_by_the_built_in_policy(
    cluster: ControlPlane, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    image, _ = signed.push("built-in", "v1")
    with manager.running(cluster, "sked-alone", "--trust-mode=enforce", SOON):
        schedexts.create(sched=image, nodeSelector=nodes)

        found = schedexts.await_reason("Accepted", "Untrusted", timeout_s=60)
        assert "it was signed with a key, but the policy names no key" in found["message"]


# The others share one


def test_a_signed_image_is_pinned_and_the_status_names_its_signer(
    enforcing: Manager, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    image, digest = signed.push("pinned", "v1")
    schedexts.create(sched=image, nodeSelector=nodes)

    found = schedexts.await_reason("Verified", "Verified", timeout_s=60)
    assert found["message"] == f"{digest} was signed by {trustrules.KEY_FILE}"
    assert image_of(schedexts) == f"{image}@{digest}"
    schedexts.await_reason("Deployed", "PodsSettled")
    assert schedexts.status()["signer"] == trustrules.KEY_FILE
    assert schedexts.condition("Accepted")["reason"] == "Accepted"
    assert enforcing.process.exit_code() is None


def test_an_unsigned_version_is_refused_while_the_old_one_runs_until_somebody_signs_it(
    enforcing: Manager, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    assert enforcing.process.exit_code() is None
    old, _ = signed.push("versions", "v1")
    new, digest = signed.push("versions", "v2", words="newer", sign=False)
    schedexts.create(sched=old, nodeSelector=nodes)
    schedexts.await_reason("Deployed", "PodsSettled", timeout_s=60)
    before = generation(schedexts)

    schedexts.change(sched=new, args=["--other"])

    found = schedexts.await_reason("Accepted", "Untrusted", timeout_s=60)
    assert found["message"].startswith(f"{digest} is not signed")
    assert "(step 3 of verification)" in found["message"]
    assert schedexts.condition("Verified")["status"] == "False"
    assert schedexts.condition("Progressing")["reason"] == "Blocked"
    assert generation(schedexts) == before
    assert len(schedexts.pods()) == 2

    signed.cosign.sign(new.rpartition(":")[0] + f"@{digest}", signed.key)
    await_image(schedexts, f"{new}@{digest}")
    schedexts.await_reason("Deployed", "PodsSettled")


def test_a_moved_tag_is_reported_and_rolled_out_by_nobody_but_the_user(
    enforcing: Manager, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    assert enforcing.process.exit_code() is None
    image, first = signed.push("moving", "v1")
    schedexts.create(sched=image, nodeSelector=nodes)
    schedexts.await_reason("Verified", "Verified", timeout_s=60)
    before = generation(schedexts)

    _, second = signed.push("moving", "v1", words="moved")

    found = schedexts.await_reason("Verified", "TagMoved", timeout_s=60)
    assert f"write sched: {image}@{second} to roll out the new image" in found["message"]
    assert (generation(schedexts), image_of(schedexts)) == (before, f"{image}@{first}")

    schedexts.change(sched=f"{image}@{second}")
    schedexts.await_reason("Verified", "Verified", timeout_s=60)
    await_image(schedexts, f"{image}@{second}")


def test_no_change_of_mode_or_policy_restarts_anything(
    sked: Manager,
    rules: MountedRules,
    schedexts: SchedExts,
    signed: SignedImages,
    nodes: scenes.Nodes,
) -> None:
    change_rules(sked, rules, signed.rules("warn"))
    image, digest = signed.push("modes", "v1")
    schedexts.create("by-tag", sched=image, nodeSelector=nodes)
    found = schedexts.await_reason("Verified", "NotPinned", "by-tag", timeout_s=60)
    assert f"{digest} was signed by" in found["message"]
    assert "but pods run sha256:" in found["message"], "nodes of the rig make up what they pulled"
    assert image_of(schedexts, "by-tag") == image
    change_rules(sked, rules, signed.rules("enforce"))
    found = schedexts.await_reason("Verified", "NotPinned", "by-tag", timeout_s=60)
    assert f"write sched: {image}@{digest}" in found["message"]
    schedexts.create("pinned", sched=image, nodeSelector=nodes)
    schedexts.await_reason("Verified", "Verified", "pinned", timeout_s=60)
    before = [generation(schedexts, name) for name in ("by-tag", "pinned")]

    nobody = {"rules.yaml": b"mode: enforce\npolicy: {}\n"}
    for files, reason in ((nobody, "Untrusted"), ({"rules.yaml": b"mode: off\n"}, "VerificationOff")):
        change_rules(sked, rules, files)
        schedexts.await_reason("Verified", reason, "pinned", timeout_s=60)
        assert schedexts.condition("Accepted", "pinned")["status"] == "True"
    change_rules(sked, rules, signed.rules("enforce"))
    schedexts.await_reason("Verified", "Verified", "pinned", timeout_s=60)

    assert [generation(schedexts, name) for name in ("by-tag", "pinned")] == before


def test_malformed_rules_leave_the_earlier_ones_in_force_and_every_answer_says_so(
    enforcing: Manager, rules: MountedRules, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    change_rules(enforcing, rules, {"rules.yaml": b"mode: enforced\n"})
    image, digest = signed.push("malformed", "v1")
    schedexts.create(sched=image, nodeSelector=nodes)

    found = schedexts.await_reason("Verified", "Verified", timeout_s=60)
    assert "cannot be read" in found["message"]
    assert "write off, warn or enforce" in found["message"]
    assert image_of(schedexts) == f"{image}@{digest}"
    (*_, complaint) = enforcing.says("trust_rules_unreadable")
    assert (complaint["level"], complaint["earlier"]) == ("error", True)

    change_rules(enforcing, rules, signed.rules("enforce"))
    polling.until(
        lambda: "cannot be read" not in schedexts.condition("Verified")["message"], "it is taken back"
    )


def test_images_and_namespaces_that_are_not_allowed_do_not_run(
    sked: Manager, rules: MountedRules, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    narrow = signed.rules("warn", allowedImages=[f"{signed.registry.host}/rig/allowed"])
    change_rules(sked, rules, narrow)
    allowed, _ = signed.push("allowed", "v1")
    other, _ = signed.push("other", "v1")
    schedexts.create("allowed", sched=allowed, nodeSelector=nodes)
    schedexts.create("other", sched=other, nodeSelector=dict.fromkeys(nodes, "elsewhere"))

    schedexts.await_daemon_set("allowed")
    found = schedexts.await_reason("Accepted", "NotAllowed", "other")
    assert "allowedImages in" in found["message"]
    assert schedexts.daemon_set("other") is None

    change_rules(sked, rules, signed.rules("warn", allowedNamespaces=["somewhere-else"]))
    schedexts.change("allowed", args=["--changed"])
    schedexts.await_reason("Accepted", "NotAllowed", "allowed")
    change_rules(sked, rules, signed.rules("warn", allowedNamespaces=[schedexts.namespace]))
    schedexts.await_reason("Accepted", "Accepted", "allowed")
    schedexts.await_daemon_set("other")


def test_while_a_registry_is_silent_others_are_served(
    enforcing: Manager, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    assert enforcing.process.exit_code() is None
    image, digest = signed.push("served", "v1")
    schedexts.create(sched=image, nodeSelector=nodes)
    schedexts.await_reason("Verified", "Verified", timeout_s=60)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # nobody ever accepts
        port = silent.getsockname()[1]
        schedexts.create("silent", sched=f"127.0.0.1:{port}/rig/silent:v1", nodeSelector=nodes)
        schedexts.await_reason("Accepted", "Verifying", "silent")
        schedexts.change(args=["--meanwhile"])
        polling.until(
            lambda: arguments(schedexts) == ["--meanwhile"], "the other one is reconciled", timeout_s=10
        )
        schedexts.await_reason("Verified", "RegistryUnreachable", "silent", timeout_s=90)
    assert schedexts.daemon_set("silent") is None
    assert image_of(schedexts) == f"{image}@{digest}"


def test_while_its_registry_is_away_what_was_verified_can_be_changed_and_nothing_new_starts(
    enforcing: Manager, schedexts: SchedExts, signed: SignedImages, nodes: scenes.Nodes
) -> None:
    image, digest = signed.push("outage", "v1")
    schedexts.create(sched=image, nodeSelector=nodes)
    schedexts.await_reason("Verified", "Verified", timeout_s=60)
    with stopped(signed.registry):
        await_verifications(enforcing, 2, image=image)
        schedexts.change(args=["--during"])
        polling.until(lambda: arguments(schedexts) == ["--during"], "it is changed", timeout_s=10)
        schedexts.create("new", sched=f"{image}.1", nodeSelector=nodes)
        schedexts.await_reason("Accepted", "RegistryUnreachable", "new", timeout_s=60)

    assert image_of(schedexts) == f"{image}@{digest}"
    assert schedexts.condition("Verified")["reason"] == "Verified"
    assert schedexts.daemon_set("new") is None


def test_a_login_counts_as_soon_as_its_secret_is_there(
    cluster: ControlPlane, enforcing: Manager, schedexts: SchedExts, folder: Path, login: Path
) -> None:
    (folder / "locked").mkdir()
    demand = tokens.htpasswd_demand(folder / "locked")
    with Registry(Kind.FALLBACK_TAGS, folder / "locked", cluster.layout.authority, demand) as locked:
        schedexts.create(sched=f"{locked.host}/rig/nothing:v1")
        found = schedexts.await_reason("Verified", "RegistryUnreachable", timeout_s=60)
        assert "--registry-auth" in found["message"]

        login.parent.mkdir()
        words = {"username": tokens.USER, "password": tokens.PASSWORD}
        login.write_text(json.dumps({"auths": {locked.host: words}}))
        found = schedexts.await_reason("Verified", "Untrusted", timeout_s=60)
        assert "(step 2 of verification)" in found["message"], "it is let in, and there is nothing"
    assert enforcing.process.exit_code() is None


def test_nothing_is_written_while_images_are_looked_at_again_and_again(
    cluster: ControlPlane, enforcing: Manager, schedexts: SchedExts, signed: SignedImages
) -> None:
    nowhere = {"no": "node"}
    image, _ = signed.push("idle", "v1")
    unsigned, _ = signed.push("idle", "v2", words="unsigned", sign=False)
    schedexts.create("signed", sched=image, nodeSelector=nowhere)
    schedexts.create("unsigned", sched=unsigned, nodeSelector=nowhere)
    schedexts.await_reason("Deployed", "NoNodes", "signed", timeout_s=60)
    schedexts.await_reason("Accepted", "Untrusted", "unsigned", timeout_s=60)

    def writes_while_looked_at(count: int) -> list[str]:
        since = cluster.audit_log.position()
        await_verifications(enforcing, count, image=image)
        await_verifications(enforcing, 1, image=unsigned)
        asked = cluster.audit(since=since, user=enforcing.name, namespace=schedexts.namespace)
        return [f"{each.verb} {each.resource}" for each in asked]

    # events, and what the DaemonSet's own controller answered, are still written for a while
    polling.until(lambda: writes_while_looked_at(1) == [], "the statuses have settled", timeout_s=60)
    assert writes_while_looked_at(3) == []


@contextmanager
def stopped(registry: Registry) -> Iterator[None]:
    """Nobody answers for the length of the block."""
    registry.stop()
    try:
        yield
    finally:
        registry.start()


def await_verifications(sked: Manager, count: int, **words: str) -> None:
    """Return when the verifier has said that about as many times more."""

    def said() -> int:
        return sum(words.items() <= line.items() for line in sked.says("image_verified"))

    before = said()
    polling.until(lambda: said() >= before + count, f"{count} more times {words}", timeout_s=120)


def arguments(schedexts: SchedExts, name: str = "scx") -> list[str]:
    found: JsonObject = schedexts.await_daemon_set(name)
    container: JsonObject = found["spec"]["template"]["spec"]["containers"][0]
    return list(container.get("args", ()))
