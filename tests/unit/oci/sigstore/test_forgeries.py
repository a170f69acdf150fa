"""Every forgery is refused, at the step that is there for it; without its defect it is accepted."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rig.signatures.comparison import PAGE, row
from rig.signatures.forgeries import (
    CALLED,
    CASES,
    OURS,
    OURS_BEFORE,
    PREHASHED,
    Case,
    Policy,
    by_default,
    by_identity,
    by_key,
    by_logged_key,
)
from rig.signatures.forging import OLD_BUNDLE, Leaf, Made, Recipe, Shelf, Workshop
from rig.signatures.prehashing import PrehashingKey
from rig.signatures.spellings import MISSPELLINGS, SPELLINGS, respelled
from rig.signatures.timestamping import puzzling
from schedkit.model.images.content import Content
from schedkit.model.images.references import Digest, Reference
from schedkit.model.trust.policy import Mode, TrustPolicy
from schedkit.model.trust.steps import Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.http.deadlines import capped
from schedkit.oci.sigstore.trusted_root import parse_root
from schedkit.oci.sigstore.verify import verify


@pytest.fixture(scope="module")
def workshop() -> Workshop:
    return Workshop()


@functools.cache
def good(workshop: Workshop, recipe: Recipe, policy: Policy, *, pinned: bool) -> Verified:
    """Many forgeries have the same good artifact before them."""
    return judged(workshop.make(recipe), policy, pinned=pinned)


def judged(made: Made, policy: Policy | TrustPolicy, *, pinned: bool = False) -> Verified:
    reference = made.reference.pinned(made.digest) if pinned else made.reference
    chosen = policy if isinstance(policy, TrustPolicy) else policy(made)
    return verify(made.shelf, reference, chosen, parse_root(made.root))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{int(case.step)} {case.form}: {case.name}") for case in CASES]
)
def test_a_forgery_is_refused_for_its_defect_alone(workshop: Workshop, case: Case) -> None:
    with pytest.raises(Refusal) as refused:
        judged(workshop.make(case.bad), case.bad_policy, pinned=case.pinned)

    assert refused.value.step is case.step
    assert isinstance(good(workshop, case.good, case.policy, pinned=case.pinned), Verified)


def test_there_are_forgeries_enough_and_two_for_each_step() -> None:
    per_step = Counter(case.step for case in CASES)

    assert len(CASES) >= 60
    assert [step for step in Step if per_step[step] < 2] == []


def test_no_two_forgeries_have_the_same_name() -> None:
    names = Counter((case.form, case.good.leaf is None, case.good.entry, case.name) for case in CASES)

    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("leaf", [OURS, OURS_BEFORE], ids=["as of today", "as they were before"])
@pytest.mark.parametrize("simple", [False, True], ids=["bundle", "layer"])
def test_what_our_workflows_signed_for_us_is_accepted_by_the_policy_that_is_built_in(
    workshop: Workshop, leaf: Leaf, *, simple: bool
) -> None:
    assert judged(workshop.make(Recipe(leaf=leaf, simple=simple)), by_default).signer == leaf.names[0]


@pytest.mark.parametrize(
    "leaf",
    [
        dataclasses.replace(CALLED, repository="https://github.com/stranger/x", owner="https://github.com/x"),
        dataclasses.replace(CALLED, repository_text="some/thing else"),
        Leaf(repository_text="no repository"),
        Leaf(repository="\N{SNOWMAN}" * 3000),
    ],
    ids=["a stranger's", "in two voices", "none", "endless"],
)
def test_an_identity_that_asks_for_no_source_means_what_it_meant(workshop: Workshop, leaf: Leaf) -> None:
    assert judged(workshop.make(Recipe(leaf=leaf)), by_identity).signer == leaf.names[0]


def test_whose_workflow_was_called_by_a_stranger_is_told(workshop: Workshop) -> None:
    theirs = dataclasses.replace(OURS, repository="https://github.com/a/b", owner="https://github.com/a")

    with pytest.raises(Refusal, match=r"in a run for the repository https://github\.com/a/b of") as refused:
        judged(workshop.make(Recipe(leaf=dataclasses.replace(theirs, repository_text="a/b"))), by_default)

    assert "sourceRepositoryOwner" in refused.value.why


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (None, "in a certificate that does not name a source repository, which the policy demands; add"),
        ("https://github.com/a/b", "in a run for the repository https://github.com/a/b of (not named), but"),
    ],
    ids=["neither", "no owner"],
)
def test_what_a_certificate_does_not_say_about_the_caller_is_told(
    workshop: Workshop, url: str | None, says: str
) -> None:
    silent = dataclasses.replace(OURS, repository=url, owner=None, repository_text=None)

    with pytest.raises(Refusal, match=re.escape(says)):
        judged(workshop.make(Recipe(leaf=silent)), by_default)


def _stutter(root: dict[str, Any]) -> None:
    """List the root of the first timestamp authority three times."""
    chain = root["timestampAuthorities"][0]["certChain"]["certificates"]
    chain += chain[-1:] * 2


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(Recipe(), id="a bundle, version 0.3"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.3"), id="a bundle, version 0.3 by its older name"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.2"), id="a bundle, version 0.2"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.1"), id="a bundle, version 0.1"),
        pytest.param(Recipe(entry="v2"), id="a log of the second version, with a timestamp"),
        pytest.param(
            Recipe(
                entry="v2",
                root=lambda root: root["timestampAuthorities"][0]["certChain"]["certificates"].pop(0),
            ),
            id="a timestamp authority that is listed by its root alone",
        ),
        pytest.param(
            Recipe(entry="v2", root=_stutter),
            id="a timestamp authority with a certificate that is listed several times",
        ),
        pytest.param(Recipe(kind="intoto 0.0.2"), id="an in-toto entry"),
        pytest.param(Recipe(stamped=True), id="a promise and a timestamp"),
        pytest.param(Recipe(simple=True), id="a layer"),
        pytest.param(Recipe(index=True), id="an index of platforms"),
        pytest.param(Recipe(simple=True, stamped=True), id="a layer with a timestamp"),
        pytest.param(Recipe(key="p384"), id="a certificate for P-384"),
        pytest.param(Recipe(key="rsa"), id="a certificate for RSA"),
        pytest.param(Recipe(key="ed25519"), id="a certificate for Ed25519"),
        pytest.param(PREHASHED, id="a certificate for Ed25519, over a hash"),
        pytest.param(
            Recipe(simple=True, key="ed25519", prehashed=True, log_hash="sha512"),
            id="a layer with a certificate for Ed25519, over a hash",
        ),
    ],
)
def test_a_keyless_signature_is_accepted(workshop: Workshop, recipe: Recipe) -> None:
    made = workshop.make(recipe)

    verified = judged(made, by_identity)

    assert (verified.digest, verified.mode) == (made.digest, Mode.KEYLESS)
    assert verified.time == workshop.moment(1)


@pytest.mark.parametrize("simple", [False, True], ids=["bundle", "layer"])
@pytest.mark.parametrize(
    "defect",
    [
        pytest.param(
            {"stamp": lambda shop, signature, at: shop.foreign_stamper.stamp(signature, at)},
            id="a stranger's",
        ),
        pytest.param({"stamp": lambda shop, _, at: shop.stamper.stamp(b"another", at)}, id="of another"),
        pytest.param(
            {"stamp": lambda shop, signature, at: shop.stamper.stamp(signature, at, status=2)},
            id="that was refused",
        ),
        pytest.param({"stamp": lambda *_: b"yesterday"}, id="that is none"),
        pytest.param(
            {"stamp": lambda shop, signature, at: shop.stamper.stamp(signature, at, beside=[puzzling()])},
            id="that brings a certificate which cannot be read",
        ),
        pytest.param(
            {"root": lambda root: root.update(timestampAuthorities=[])}, id="with nobody trusted for them"
        ),
        pytest.param(
            {
                "root": lambda root: [
                    one.update(validFor={"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"})
                    for one in root["timestampAuthorities"]
                ]
            },
            id="of an authority that had ended",
        ),
    ],
)
def test_a_timestamp_that_cannot_be_verified_counts_for_nothing(
    workshop: Workshop, defect: dict[str, Any], *, simple: bool
) -> None:
    """What a log's promise dates has a time all the same; what nothing else dates has none."""
    dated = workshop.make(Recipe(simple=simple, stamped=True, stamped_at=3, **defect))

    assert judged(dated, by_identity).time == workshop.moment(1)
    with pytest.raises(Refusal, match="no trusted source says when it was signed") as refused:
        judged(workshop.make(Recipe(entry="v2", **defect)), by_identity)
    assert refused.value.step is Step.TIME


def test_a_timestamp_that_is_verified_counts_beside_the_logs_time(workshop: Workshop) -> None:
    """It may be the earlier one, and has to fit the certificate as well: see the forgeries of step 10."""
    made = workshop.make(Recipe(stamped=True, stamped_at=1, logged_at=3))

    assert judged(made, by_identity).time == workshop.moment(1)


@pytest.mark.parametrize("change", SPELLINGS.values(), ids=SPELLINGS)
def test_a_layers_signature_may_be_spelled_as_go_reads_it(
    workshop: Workshop, change: Callable[[str], str]
) -> None:
    assert judged(workshop.make(respelled(change)), by_key).mode is Mode.KEY


@pytest.mark.parametrize("change", MISSPELLINGS.values(), ids=MISSPELLINGS)
def test_a_layers_signature_may_be_spelled_in_no_other_way(
    workshop: Workshop, change: Callable[[str], str]
) -> None:
    with pytest.raises(Refusal) as refused:
        judged(workshop.make(respelled(change)), by_key)

    assert refused.value.step in (Step.FORMAT, Step.SIGNATURE)


@pytest.mark.parametrize("key", ["p256", "p384", "rsa", "ed25519"])
@pytest.mark.parametrize("simple", [False, True], ids=["bundle", "layer"])
def test_a_signature_by_key_is_accepted(workshop: Workshop, key: str, *, simple: bool) -> None:
    made = workshop.make(Recipe(leaf=None, entry=None, key=key, simple=simple))

    verified = judged(made, by_key)

    assert (verified.signer, verified.issuer, verified.time) == ("signer.pub", None, None)
    assert verified.mode is Mode.KEY


@pytest.mark.parametrize("simple", [False, True], ids=["bundle", "layer"])
def test_a_signature_by_an_ed25519_key_over_a_hash_is_accepted(workshop: Workshop, *, simple: bool) -> None:
    """Nothing but the signature itself says which it is."""
    made = workshop.make(Recipe(leaf=None, entry=None, key="ed25519", prehashed=True, simple=simple))

    assert judged(made, by_key).mode is Mode.KEY


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(leaf=None),
        Recipe(leaf=None, simple=True),
        Recipe(leaf=None, entry="v2"),
        Recipe(leaf=None, entry="v2", key="ed25519", prehashed=True, log_hash="sha512"),
    ],
)
def test_a_signature_by_key_in_a_log_has_a_time(workshop: Workshop, recipe: Recipe) -> None:
    assert judged(workshop.make(recipe), by_logged_key).time == workshop.moment(1)


def test_a_log_may_itself_sign_hashes_if_the_root_says_so() -> None:
    workshop = Workshop()
    made = workshop.make(Recipe(entry="v2"))
    root = json.loads(made.root)
    root["tlogs"][1]["publicKey"]["keyDetails"] = "PKIX_ED25519_PH"
    prehashing = json.dumps(root).encode()

    with pytest.raises(Refusal) as refused:
        judged(dataclasses.replace(made, root=prehashing), by_identity)
    workshop.second_log.signer = PrehashingKey(workshop.second_log.key)
    again = dataclasses.replace(workshop.make(Recipe(entry="v2")), root=prehashing)

    assert refused.value.step is Step.LOG
    assert judged(again, by_identity).digest == again.digest


def test_the_first_entry_of_a_log_is_an_entry() -> None:
    """Writers leave out its index, which is zero, and its proof, which is empty."""
    made = Workshop().make(Recipe(entry="v2"))

    assert b'"treeSize": "1"' in made.document
    assert b"logIndex" not in made.document
    assert judged(made, by_identity).digest == made.digest


def test_a_signature_of_the_index_is_none_of_the_images_in_it(workshop: Workshop) -> None:
    """Who wants one platform verified follows the digests in the index, whose bytes were verified."""
    made = workshop.make(Recipe(index=True))
    (inner,) = json.loads(made.shelf.manifests[made.digest].data)["manifests"]
    reference = made.reference.pinned(Digest(inner["digest"]))

    with pytest.raises(Refusal) as refused:
        verify(made.shelf, reference, by_identity(made), parse_root(made.root))

    assert refused.value.step is Step.EVIDENCE


def test_one_good_signature_among_bad_ones_is_enough(workshop: Workshop) -> None:
    made, stranger = workshop.make(Recipe()), workshop.make(Recipe(signed_with="other"))
    made.shelf.blobs |= stranger.shelf.blobs
    made.shelf.manifests |= stranger.shelf.manifests
    made.shelf.referring[made.digest] = [
        made.shelf.manifests[holder].descriptor for holder in (stranger.signature, made.signature)
    ]

    assert judged(made, by_identity).digest == made.digest


def test_the_refusal_that_came_furthest_speaks_for_all(workshop: Workshop) -> None:
    made, near = workshop.make(Recipe(signed_with="other")), workshop.make(Recipe(entry=None))
    made.shelf.blobs |= near.shelf.blobs
    made.shelf.manifests |= near.shelf.manifests
    made.shelf.referring[made.digest] = [
        made.shelf.manifests[holder].descriptor for holder in (near.signature, made.signature)
    ]

    with pytest.raises(Refusal) as refused:
        judged(made, by_identity)

    assert refused.value.step is Step.SIGNATURE
    assert [other.step for other in refused.value.others] == [Step.LOG]


def test_a_proof_is_bound_to_the_digest_and_not_to_the_tag(workshop: Workshop) -> None:
    made = workshop.make(Recipe())
    verified = judged(made, by_identity)

    made.shelf.put_manifest(b"{}", "application/vnd.oci.image.manifest.v1+json", "v1")

    assert verified.digest == made.digest != made.shelf.named["v1"]
    with pytest.raises(Refusal) as refused:
        judged(made, by_identity)
    assert refused.value.step is Step.EVIDENCE


def test_more_signatures_than_anybody_reads_do_not_take_forever(workshop: Workshop) -> None:
    made = workshop.make(Recipe(entry=None))
    made.shelf.referring[made.digest] *= 100_000

    with pytest.raises(Refusal) as refused:
        judged(made, by_identity)

    assert len(refused.value.others) <= 65


class Watched(Shelf):
    """Remembers how long everything that was asked of it might still have taken."""

    def resolve(self, reference: Reference) -> Content:
        self.left_s = [*getattr(self, "left_s", []), capped(float("inf")) - time.monotonic()]
        return super().resolve(reference)


def test_one_deadline_is_good_for_everything_that_a_registry_is_asked(workshop: Workshop) -> None:
    made, shelf = workshop.make(Recipe()), Watched()
    vars(shelf).update(vars(made.shelf))

    verify(shelf, made.reference, by_identity(made), parse_root(made.root))

    assert len(shelf.left_s) >= 2
    assert 120 >= shelf.left_s[0] >= shelf.left_s[-1] > 0


def test_the_page_about_forgeries_lists_each_of_them() -> None:
    """What cosign says to them is asked in the contract tier."""
    lines = PAGE.read_text().splitlines()
    listed = [line.split(" | ")[:3] for line in lines if line.startswith("| ") and line[2].isdigit()]

    assert listed == [row(case, {}).split(" | ")[:3] for case in CASES]
