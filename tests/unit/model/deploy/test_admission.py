"""What may run, by which name, and what users are told: the table of the administrator's rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rig.builders.observations import (
    MOVED,
    NOW,
    SIGNED,
    SIGNED_IMAGE,
    crash,
    observation,
    pod,
    running,
    schedext,
    trusted,
    waiting,
    with_image,
)
from rig.builders.plans import plan
from schedkit.model.api.conditions import Reason
from schedkit.model.api.pods import ContainerStatus, Pod
from schedkit.model.api.schedext import (
    MAX_PARTS,
    Condition,
    ConditionStatus,
    SchedExt,
    SchedExtStatus,
    Verification,
)
from schedkit.model.deploy.admission import Vetted, question_of
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.plan import CreateDaemonSet, DeleteDaemonSet, PatchDaemonSet, decide
from schedkit.model.deploy.verdicts import Distrusted, Question, Undecided, Verdict
from schedkit.model.images.references import Digest, parse_reference
from schedkit.model.report.fleet import Fleet
from schedkit.model.report.plan import WriteStatus
from schedkit.model.report.status import compute_status
from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.rules import Rules, TrustMode, built_in_rules, parse_rules
from schedkit.oci.policy.patterns import Re2Pattern

IMAGE, GOOD, NEWER = SIGNED_IMAGE, SIGNED, MOVED
OFF, WARN, ENFORCE = (built_in_rules(mode, Re2Pattern) for mode in TrustMode)


UNTRUSTED = Distrusted(13, "it was signed by a stranger")
OUTAGE = Undecided(Reason.REGISTRY_UNREACHABLE, "registry.example does not answer")


def seen(
    rules: Rules | None,
    verdict: Verdict | None = None,
    has: str | None = None,
    **spec: Any,  # noqa: ANN401 - fields of the spec
) -> Observation:
    """A SchedExt that asks for IMAGE; its DaemonSet runs `has`, if there is one."""
    asked = schedext(**{"sched": IMAGE, **spec})
    there = with_image(schedext(sched=IMAGE), has) if has else None
    return observation(asked, daemon_set=there, rules=rules, verdict=verdict)


def rendered(at: Observation) -> str | None:
    """The image that would be written; None: nothing is."""
    match decide(at).write:
        case CreateDaemonSet(body):
            return body.spec.template.spec.containers[0].image
        case PatchDaemonSet(operations=operations):
            images = [each.value for each in operations if each.path.endswith("/image")]
            return images[0] if images else "as it is"
        case DeleteDaemonSet():
            return "nothing: what runs is ended"
    return None


def vet(at: Observation) -> Vetted:
    return decide(at).vetted


def status_of(at: Observation) -> SchedExtStatus:
    """Without a word about nodes."""
    return compute_status(at, decide(at), Fleet())


def answers(at: Observation) -> dict[str, tuple[str, str]]:
    conditions = status_of(at).conditions
    return {each.type: (str(each.status), each.reason) for each in conditions}


def read(name: str) -> bytes:
    return f"content of {name}".encode()


PINNED = f"{IMAGE}@{GOOD}"
RESPELLED = IMAGE.replace("registry.example", "REGISTRY.Example:443")
STRANGER = "registry.example/scheds/rusty:v0"


# rules, verdict, image in the DaemonSet, changed spec -> image written, Verified, Accepted
TABLE: dict[str, tuple[Observation, str | None, tuple[str, str], str]] = {
    "off, new": (seen(OFF), IMAGE, ("Unknown", "VerificationOff"), "Accepted"),
    "warn, new, no verdict yet": (seen(WARN), IMAGE, ("Unknown", "Verifying"), "Accepted"),
    "warn, new, signed": (seen(WARN, trusted()), IMAGE, ("True", "Verified"), "Accepted"),
    "warn, new, unsigned": (seen(WARN, UNTRUSTED), IMAGE, ("False", "Untrusted"), "Accepted"),
    "warn, new, outage": (seen(WARN, OUTAGE), IMAGE, ("Unknown", "RegistryUnreachable"), "Accepted"),
    "enforce, new, no verdict yet": (seen(ENFORCE), None, ("Unknown", "Verifying"), "Verifying"),
    "enforce, new, signed": (seen(ENFORCE, trusted()), PINNED, ("True", "Verified"), "Accepted"),
    "enforce, new, signed before its tag was moved": (
        seen(ENFORCE, trusted(current=NEWER)),
        PINNED,
        ("True", "Verified"),
        "Accepted",
    ),
    "enforce, new, unsigned": (seen(ENFORCE, UNTRUSTED), None, ("False", "Untrusted"), "Untrusted"),
    "enforce, new, outage": (
        seen(ENFORCE, OUTAGE),
        None,
        ("Unknown", "RegistryUnreachable"),
        "RegistryUnreachable",
    ),
    "enforce, new version signed": (
        seen(ENFORCE, trusted(), has=STRANGER),
        PINNED,
        ("True", "Verified"),
        "Accepted",
    ),
    "enforce, new version unsigned: the old one stays": (
        seen(ENFORCE, UNTRUSTED, has=STRANGER),
        None,
        ("False", "Untrusted"),
        "Untrusted",
    ),
    "enforce, pinned and unchanged": (
        seen(ENFORCE, trusted(), has=PINNED),
        None,
        ("True", "Verified"),
        "Accepted",
    ),
    "enforce, pinned, then distrusted: it runs on": (
        seen(ENFORCE, UNTRUSTED, has=PINNED),
        None,
        ("False", "Untrusted"),
        "Accepted",
    ),
    "enforce, pinned, then distrusted, and changed: held": (
        seen(ENFORCE, UNTRUSTED, has=PINNED, args=("-v",)),
        None,
        ("False", "Untrusted"),
        "Untrusted",
    ),
    "enforce, pinned, changed: the digest stays": (
        seen(ENFORCE, trusted(), has=PINNED, args=("-v",)),
        "as it is",
        ("True", "Verified"),
        "Accepted",
    ),
    "enforce, tag moved: the digest stays": (
        seen(ENFORCE, trusted(current=NEWER), has=PINNED),
        None,
        ("True", "TagMoved"),
        "Accepted",
    ),
    "enforce, tag moved, changed: the digest stays": (
        seen(ENFORCE, trusted(current=NEWER), has=PINNED, args=("-v",)),
        "as it is",
        ("True", "TagMoved"),
        "Accepted",
    ),
    "enforce, by tag from before: it runs on": (
        seen(ENFORCE, trusted(), has=IMAGE),
        None,
        ("Unknown", "NotPinned"),
        "Accepted",
    ),
    "enforce, by tag from before, changed: pinned": (
        seen(ENFORCE, trusted(), has=IMAGE, args=("-v",)),
        PINNED,
        ("Unknown", "NotPinned"),
        "Accepted",
    ),
    "warn, pinned from before: it runs on": (
        seen(WARN, trusted(), has=PINNED),
        None,
        ("True", "Verified"),
        "Accepted",
    ),
    "off, pinned from before: it runs on": (
        seen(OFF, has=PINNED),
        None,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "off, pinned from before, changed: as the user writes it": (
        seen(OFF, has=PINNED, args=("-v",)),
        IMAGE,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "no rules, new": (seen(None), None, ("Unknown", "PolicyUnreadable"), "PolicyUnreadable"),
    "no rules, unchanged": (seen(None, has=IMAGE), None, ("Unknown", "PolicyUnreadable"), "Accepted"),
    "no rules, changed": (
        seen(None, has=IMAGE, args=("-v",)),
        None,
        ("Unknown", "PolicyUnreadable"),
        "PolicyUnreadable",
    ),
    "another registry is allowed": (
        seen(replace(OFF, allowed_images=("other.example",))),
        None,
        ("Unknown", "VerificationOff"),
        "NotAllowed",
    ),
    "its folder is allowed": (
        seen(replace(OFF, allowed_images=("registry.example/scheds",))),
        IMAGE,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "its registry is allowed in another spelling": (
        seen(parse_rules({"allowedImages": ["Registry.Example:443"]}, read, TrustMode.OFF, Re2Pattern)),
        IMAGE,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "it is spelled in another way than what is allowed": (
        seen(replace(OFF, allowed_images=("registry.example/scheds",)), sched=RESPELLED),
        RESPELLED,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "what is allowed is only a part of its name": (
        seen(replace(OFF, allowed_images=("registry.example/sche",))),
        None,
        ("Unknown", "VerificationOff"),
        "NotAllowed",
    ),
    "another namespace is allowed": (
        seen(replace(OFF, allowed_namespaces=("kube-system",))),
        None,
        ("Unknown", "VerificationOff"),
        "NotAllowed",
    ),
    "what runs stays when its namespace is no longer allowed": (
        seen(replace(OFF, allowed_namespaces=()), has=IMAGE),
        None,
        ("Unknown", "VerificationOff"),
        "Accepted",
    ),
    "nobody looks at what another namespace alone may run": (
        seen(replace(WARN, allowed_namespaces=("kube-system",))),
        None,
        ("Unknown", "NotAllowed"),
        "NotAllowed",
    ),
    "nobody looks at an image that is not allowed": (
        seen(replace(ENFORCE, allowed_images=("other.example",))),
        None,
        ("Unknown", "NotAllowed"),
        "NotAllowed",
    ),
    "nobody looks at what runs on and is no longer allowed": (
        seen(replace(ENFORCE, allowed_namespaces=()), has=PINNED),
        None,
        ("Unknown", "NotAllowed"),
        "Accepted",
    ),
}


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_rules_verdict_and_what_runs_decide(case: str) -> None:
    at, image, verified, accepted = TABLE[case]

    assert rendered(at) == image
    assert answers(at)["Verified"] == verified
    assert answers(at)["Accepted"][1] == accepted


def test_an_image_that_users_pinned_themselves_is_rendered_as_it_stands() -> None:
    at = seen(ENFORCE, trusted(), sched=PINNED)

    assert rendered(at) == PINNED
    assert vet(replace(at, daemon_set=with_image(at.schedext, PINNED))).verified.reason is Reason.VERIFIED


RUNS_OTHER = f"registry.example/scheds/rusty@{NEWER}"
CONFIGURATION = f"sha256:{'c' * 64}"


def by_tag(container: ContainerStatus, *others: Pod, updated: int = 1) -> Observation:
    """Under `warn`, with a good verdict about GOOD; of one pod only its node says what it runs."""
    owner = schedext(sched=IMAGE)
    there = with_image(owner, IMAGE)
    status = msgspec.structs.replace(there.status, updated_number_scheduled=updated)
    there = msgspec.structs.replace(there, status=status)
    pods = (pod(container=container, image=IMAGE), *others)
    return observation(owner, *pods, daemon_set=there, rules=WARN, verdict=trusted())


def pulled(digest: str, container: ContainerStatus | None = None) -> ContainerStatus:
    """A container of which its node says this; it runs, unless said otherwise."""
    return msgspec.structs.replace(container or running(), image_id=digest)


def ending(one: Pod) -> Pod:
    """It was told to end, and takes its time."""
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, deletion_timestamp=NOW)
    )


@pytest.mark.parametrize(
    "at",
    [
        by_tag(pulled(RUNS_OTHER)),
        by_tag(pulled(RUNS_OTHER, waiting("CrashLoopBackOff", crashed=crash()))),
        by_tag(pulled(RUNS_OTHER), updated=0),
        by_tag(pulled(PINNED), pod("node-2", pulled(RUNS_OTHER), image=STRANGER), updated=0),
        by_tag(pulled(PINNED), pod("node-2", image=f"{STRANGER}@{NEWER}")),
        by_tag(pulled(PINNED), ending(pod("node-2", pulled(RUNS_OTHER), image=IMAGE))),
    ],
    ids=[
        "it runs",
        "it has ended, and is started again",
        "its template is not the newest",
        "on one node, as an earlier spec asked",
        "on one node, by its digest",
        "on one node, where it is to end",
    ],
)
def test_a_good_word_about_an_image_is_none_about_pods_that_run_something_else(at: Observation) -> None:
    assert (answers(at)["Verified"], vet(at).signer) == (("Unknown", "NotPinned"), "")
    assert f"but pods run {NEWER}, whose signer is not known" in vet(at).verified.message
    assert vet(at).obstacle is None


def test_pods_that_run_something_else_are_replaced_by_a_digest_or_by_the_rollout() -> None:
    by_old_template = by_tag(pulled(RUNS_OTHER), updated=0)

    assert vet(by_tag(pulled(RUNS_OTHER))).verified.message.endswith(f"{PINNED}, which restarts the pods")
    assert vet(by_old_template).verified.message.endswith("the update strategy is OnDelete, delete them")


@pytest.mark.parametrize(
    "at",
    [
        by_tag(pulled(f"docker-pullable://registry.example/scheds/rusty@{GOOD}")),
        by_tag(pulled("")),
        by_tag(pulled(PINNED), pod("node-2", pulled(CONFIGURATION), image=PINNED)),
    ],
    ids=["the same", "nothing is pulled yet", "by a digest, of which its node says less"],
)
def test_pods_that_run_what_was_verified_or_nothing_yet_leave_it_verified(at: Observation) -> None:
    assert (answers(at)["Verified"], vet(at).signer) == (("True", "Verified"), "ci@example")


@pytest.mark.parametrize("name", [CONFIGURATION, f"docker://{CONFIGURATION}"])
def test_a_node_that_names_no_manifest_leaves_open_what_its_pod_runs(name: str) -> None:
    """As for an image that was loaded into its runtime from a file."""
    at = by_tag(pulled(PINNED), pod("node-2", pulled(name), image=IMAGE))

    assert (answers(at)["Verified"], vet(at).signer) == (("Unknown", "NotPinned"), "")
    assert f"but pods run {name}, whose signer is not known" in vet(at).verified.message
    assert vet(at).verified.message.endswith(f"write sched: {PINNED}, which restarts the pods")


def test_where_pods_run_what_several_have_signed_none_of_them_is_the_signer() -> None:
    at = by_tag(pulled(PINNED), pod("node-2", pulled(RUNS_OTHER), image=IMAGE))

    by_another = replace(at, vouched=(trusted(NEWER, signer="qa@example"), trusted()))
    assert (answers(by_another)["Verified"], vet(by_another).signer) == (("True", "Verified"), "")
    by_the_same = replace(at, vouched=(trusted(NEWER), trusted()))
    assert vet(by_the_same).signer == "ci@example"


def test_what_pods_still_run_was_verified_before_its_tag_was_moved() -> None:
    earlier = trusted(NEWER, signer="qa@example")
    at = replace(by_tag(pulled(RUNS_OTHER)), vouched=(earlier, trusted()))

    assert (answers(at)["Verified"], vet(at).signer) == (("True", "Verified"), "qa@example")
    words = f"{GOOD} was signed by ci@example; pods still run {NEWER}, signed by qa@example"
    assert vet(at).verified.message == words
    mixed = by_tag(pulled(RUNS_OTHER), pod("node-2", pulled(f"x@sha256:{'c' * 64}"), image=IMAGE))
    assert vet(replace(mixed, vouched=at.vouched)).verified.reason is Reason.NOT_PINNED


def test_runtimes_that_name_the_manifest_of_a_platform_run_what_was_verified() -> None:
    whole = replace(trusted(), parts=frozenset({NEWER}))
    at = replace(by_tag(pulled(RUNS_OTHER)), verdict=whole)

    assert (answers(at)["Verified"], vet(at).signer) == (("True", "Verified"), "ci@example")
    assert vet(at).verified.message == f"{GOOD} was signed by ci@example"


def test_whoever_is_held_back_can_still_be_suspended() -> None:
    at = seen(ENFORCE, UNTRUSTED, has=PINNED, suspend=True)

    assert isinstance(decide(at).write, DeleteDaemonSet)


def test_what_is_held_back_is_not_deployed_and_the_refusal_says_why_everywhere() -> None:
    at = seen(ENFORCE, UNTRUSTED, has=STRANGER)

    assert answers(at)["Deployed"] == ("False", "Untrusted")
    assert answers(at)["Ready"] == ("False", "Untrusted")
    assert answers(at)["Progressing"] == ("False", "Blocked")
    obstacle = vet(at).obstacle
    assert obstacle is not None
    assert obstacle.message == "it was signed by a stranger (step 13 of verification)"


def answered(policy: str = ENFORCE.fingerprint, generation: int = 1) -> SchedExt:
    """A SchedExt of which an earlier manager said, by that policy, that GOOD was signed."""
    earlier = Condition(
        type="Verified",
        status=ConditionStatus.TRUE,
        observed_generation=1,
        reason="Verified",
        message="it was signed by ci@example",
    )
    rests_on = Verification(policy=policy, digest=GOOD)
    status = SchedExtStatus(signer="ci@example", verification=rests_on, conditions=(earlier,))
    return msgspec.structs.replace(schedext(sched=IMAGE, generation=generation), status=status)


def test_a_new_manager_takes_no_earlier_answer_back_while_it_asks_again() -> None:
    at = replace(seen(ENFORCE, has=PINNED), schedext=answered())
    at = replace(at, pods=(pod(container=running(), image=PINNED),))

    assert (vet(at).verified.reason, vet(at).signer) == (Reason.VERIFIED, "ci@example")
    assert status_of(at).verification == Verification(policy=ENFORCE.fingerprint, digest=GOOD)


def test_a_new_manager_takes_no_answer_back_where_runtimes_name_manifests_of_platforms() -> None:
    """It does not know yet what the index lists, and what pods run is in no other verdict either."""
    arm = Digest(f"sha256:{'c' * 64}")
    before = replace(trusted(), parts=frozenset({NEWER, arm}))
    at = replace(by_tag(pulled(RUNS_OTHER), pod("node-2", pulled(f"x@{arm}"), image=IMAGE)), verdict=before)
    written = status_of(at)
    assert written.verification == Verification(policy=WARN.fingerprint, digest=GOOD, parts=(NEWER, arm))

    restarted = replace(at, verdict=None, schedext=msgspec.structs.replace(at.schedext, status=written))
    again = status_of(restarted)

    assert (answers(restarted)["Verified"], again.signer) == (("True", "Verified"), "ci@example")
    assert (again.verification, again.conditions) == (written.verification, written.conditions)

    stranger = pod("node-3", pulled(f"x@sha256:{'d' * 64}"), image=IMAGE)
    mixed = replace(restarted, pods=(*restarted.pods, stranger))
    assert answers(mixed)["Verified"] == ("Unknown", "Verifying")
    assert answers(replace(mixed, verdict=before))["Verified"] == ("Unknown", "NotPinned")


def test_a_status_keeps_no_more_of_what_pods_run_than_its_schema_has_room_for() -> None:
    digests = [Digest(f"sha256:{number:064}") for number in range(MAX_PARTS + 1)]
    first, *others = (pulled(f"x@{each}") for each in digests)
    pods = (pod(f"node-{number}", each, image=IMAGE) for number, each in enumerate(others, 2))
    at = replace(by_tag(first, *pods), verdict=replace(trusted(), parts=frozenset(digests)))

    found = status_of(at).verification

    assert found is not None
    assert found.parts == tuple(digests[:MAX_PARTS])


@pytest.mark.parametrize(
    ("asked", "image"),
    [
        (
            answered(policy=parse_rules({"policy": {}}, str.encode, TrustMode.OFF, Re2Pattern).fingerprint),
            PINNED,
        ),
        (answered(policy=""), PINNED),
        (msgspec.structs.replace(answered(), status=SchedExtStatus()), PINNED),
        (answered(generation=2), PINNED),
        (answered(), f"{IMAGE}@{NEWER}"),
    ],
    ids=[
        "it was by another policy",
        "by which policy is not known",
        "there is none",
        "it was about another spec",
        "pods run something else by now",
    ],
)
def test_an_earlier_answer_does_not_stand_where(asked: SchedExt, image: str) -> None:
    at = replace(seen(ENFORCE, has=PINNED), schedext=asked, pods=(pod(container=running(), image=image),))

    assert (answers(at)["Verified"], vet(at).signer) == (("Unknown", "Verifying"), "")
    assert status_of(at).verification is None


def test_a_status_says_which_policy_decided_and_about_what() -> None:
    by_it = [
        status_of(seen(*case)).verification
        for case in ((WARN, trusted()), (WARN, UNTRUSTED), (WARN, OUTAGE), (OFF, None), (None, None))
    ]

    nothing = Verification(policy=WARN.fingerprint)
    assert by_it == [Verification(policy=WARN.fingerprint, digest=GOOD), nothing, nothing, None, None]


def test_an_earlier_answer_lets_nothing_new_run() -> None:
    assert rendered(replace(seen(ENFORCE), schedext=answered())) is None


def test_rules_that_became_unreadable_count_and_every_answer_says_so() -> None:
    at = replace(seen(ENFORCE, trusted(), has=PINNED), complaint="line 3: what is this")

    assert vet(at).verified.reason is Reason.VERIFIED
    assert vet(at).verified.message.endswith("cannot be read: line 3: what is this")


def test_the_signer_is_in_the_status_and_a_second_look_changes_nothing() -> None:
    at = observation(
        schedext(sched=IMAGE),
        pod(container=running(), image=PINNED),
        daemon_set=with_image(schedext(sched=IMAGE), PINNED),
        rules=ENFORCE,
        verdict=trusted(),
    )
    (written, *_) = [action for action in plan(at) if isinstance(action, WriteStatus)]

    assert written.status.signer == "ci@example"
    assert plan(replace(at, schedext=msgspec.structs.replace(at.schedext, status=written.status))) == ()


def test_what_is_asked_follows_from_rules_and_daemon_set() -> None:
    assert question_of(seen(OFF)) is None
    assert question_of(seen(None)) is None
    assert question_of(seen(WARN)) == Question(IMAGE, None, WARN.fingerprint)
    assert question_of(seen(ENFORCE, has=PINNED)) == Question(IMAGE, GOOD, ENFORCE.fingerprint)
    assert question_of(seen(ENFORCE, has=STRANGER)) == Question(IMAGE, None, ENFORCE.fingerprint)
    assert question_of(seen(ENFORCE, has=f"{IMAGE}@sha256:short")) == Question(
        IMAGE, None, ENFORCE.fingerprint
    )


def test_nothing_is_asked_about_what_may_not_run() -> None:
    for rules in (WARN, ENFORCE):
        assert question_of(seen(replace(rules, allowed_namespaces=("kube-system",)))) is None
        assert question_of(seen(replace(rules, allowed_images=("other.example",)))) is None
        assert question_of(seen(replace(rules, allowed_images=()), has=PINNED)) is None
        assert question_of(seen(replace(rules, allowed_images=("registry.example",)))) is not None


def test_an_earlier_answer_does_not_outlive_the_right_to_run() -> None:
    found = vet(replace(seen(replace(ENFORCE, allowed_images=()), has=PINNED), schedext=answered()))

    assert (found.verified.reason, found.signer) == (Reason.NOT_ALLOWED, "")


def test_a_signer_whose_name_is_long_and_full_of_tricks_fits_into_the_status() -> None:
    found = trusted(signer="x\u202e" * 2000)

    assert vet(seen(WARN, found)).signer == "x\N{REPLACEMENT CHARACTER}" * 512


def test_a_key_of_the_rules_that_does_nothing_yet_is_told_with_every_answer_about_acceptance() -> None:
    place = "rules.yaml of ConfigMap sked-rules"
    capped = replace(parse_rules({"priorityCeiling": 10}, read, TrustMode.OFF, Re2Pattern), place=place)
    nobody = replace(capped, allowed_namespaces=())

    accepted, refused, usual = (acceptance(seen(rules)) for rules in (capped, nobody, OFF))

    remark = f"; priorityCeiling in {place} does nothing yet"
    assert accepted == f"nothing prevents the deployment of this SchedExt{remark}"
    assert refused.endswith(f"allowedNamespaces in {place} does not list this namespace{remark}")
    assert usual == "nothing prevents the deployment of this SchedExt"


def acceptance(at: Observation) -> str:
    conditions = status_of(at).conditions
    return next(each.message for each in conditions if each.type == "Accepted")


# The document


@pytest.mark.parametrize("name", ["docker.io", "index.docker.io", "registry.hub.docker.com"])
def test_dockers_registry_is_allowed_by_each_of_its_names(name: str) -> None:
    rules = parse_rules({"allowedImages": [f"{name}/ada"]}, read, TrustMode.OFF, Re2Pattern)

    for image in ("ada/x", "index.docker.io/ada/x", "registry.hub.docker.com/ada/x"):
        assert rules.allows_image(parse_reference(image).repository)
    assert not rules.allows_image(parse_reference("registry.hub.docker.com/bob/x").repository)


def test_a_whole_document_is_read() -> None:
    rules = parse_rules(
        {
            "mode": "enforce",
            "policy": {"keys": [{"path": "cosign.pub"}]},
            "allowedImages": ["registry.example/scheds"],
            "allowedNamespaces": ["kube-system"],
            "priorityCeiling": 10,
        },
        read,
        TrustMode.OFF,
        Re2Pattern,
    )

    assert (rules.mode, rules.priority_ceiling) == (TrustMode.ENFORCE, 10)
    assert dict(rules.files) == {"cosign.pub": b"content of cosign.pub"}
    assert rules.allows_namespace("kube-system")
    assert not rules.allows_namespace("default")
    assert rules.fingerprint == rules.policy.fingerprint


@pytest.mark.parametrize(
    ("written", "floor", "mode"),
    [
        ("enforce", "off", "enforce"),
        ("warn", "enforce", "enforce"),
        ("off", "warn", "warn"),
        (False, "off", "off"),  # what YAML makes of the bare word off
        (False, "enforce", "enforce"),
    ],
)
def test_the_stricter_of_mode_and_floor_counts(written: object, floor: str, mode: str) -> None:
    assert parse_rules({"mode": written}, read, TrustMode(floor), Re2Pattern).mode == mode


def test_without_a_policy_the_built_in_one_counts_and_an_empty_one_trusts_nobody() -> None:
    assert parse_rules({}, read, TrustMode.WARN, Re2Pattern) == replace(WARN, has_mode=False)
    assert parse_rules({"policy": {}}, read, TrustMode.WARN, Re2Pattern).policy.rule.trusts_nobody


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "not a mapping"),
        ({"Mode": "warn"}, "did you mean mode?"),
        ({"mode": "on"}, "write off, warn or enforce"),
        ({"mode": True}, "write off, warn or enforce"),
        ({"policy": None}, "policy is empty"),
        ({"policy": {"kees": []}}, "did you mean keys?"),
        ({"allowedImages": "x"}, "allowedImages is not a list"),
        ({"allowedImages": ["registry.example/x:v1"]}, "or has a tag"),
        ({"allowedNamespaces": [1]}, r"allowedNamespaces\[0\] is 1"),
        ({"allowedNamespaces": ["a", "*"]}, r"allowedNamespaces\[1\] '\*' cannot be a namespace"),
        ({"allowedNamespaces": ["Team A"]}, "leave out the list to allow every namespace"),
        ({"allowedNamespaces": ["a" * 64]}, "cannot be a namespace"),
        ({"priorityCeiling": "high"}, "write a whole number"),
        ({"priorityCeiling": True}, "write a whole number"),
    ],
    ids=str,
)
def test_a_mistake_in_the_document_is_told_with_its_place(document: object, words: str) -> None:
    with pytest.raises(InvalidPolicy, match=words):
        parse_rules(document, read, TrustMode.OFF, Re2Pattern)
