"""Other verifiers beside ours: what ours accepts they accept, and no forgery that they refuse is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.registries.registry import Kind, Registry
from rig.signatures import comparison
from rig.signatures.comparison import Bench, ours
from rig.signatures.cosign import Cosign
from rig.signatures.forgeries import (
    CASES,
    OURS,
    OURS_BEFORE,
    PREHASHED,
    Case,
    by_identity,
    by_key,
    by_logged_key,
)
from rig.signatures.forging import IDENTITY, ISSUER, OLD_BUNDLE, Leaf, Made, Recipe, Workshop
from rig.signatures.spellings import MISSPELLINGS, SPELLINGS, respelled
from schedkit.model.trust.policy import OUR_OWNER, SourceRepository
from schedkit.oci.sigstore.certificates import named_in
from schedkit.oci.sigstore.trusted_root import parse_root
from schedkit.oci.sigstore.verify import verify

STEPS = Path(__file__).parents[2] / "docs/trust/verification.md"
GOOD = tuple({(case.good, case.policy): None for case in CASES if case.askable})
# the first forgery of each step and form: all of them are asked about in the test marked `full`
SAMPLE = tuple({(case.step, case.form): case for case in reversed(CASES) if case.askable}.values())


@pytest.fixture(scope="module")
def bench(folder: Path) -> Iterator[Bench]:
    place = folder / "comparison"
    with Registry(Kind.REFERRERS, place / "registry") as registry:
        cosigns = [Cosign(major, place / f"cosign-{major}") for major in (2, 3)]
        yield Bench(Workshop(), registry, place, cosigns)


def answers(bench: Bench, number: int, case: Case) -> dict[int, bool]:
    return bench.answers(number, case.bad, case.bad_policy) if case.askable else {}


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_cosign_accepts_what_the_forgeries_were_before_their_defect(bench: Bench, number: int) -> None:
    """Else its refusals would say nothing about the defect."""
    recipe, policy = GOOD[number]

    assert ours(bench.workshop, recipe, policy) is None
    assert set(bench.answers(1000 + number, recipe, policy).values()) == {True}


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{int(case.step)} {case.form}") for case in SAMPLE])
def test_the_page_tells_what_cosign_said(bench: Bench, case: Case) -> None:
    number = CASES.index(case)

    line = comparison.row(case, answers(bench, number, case))

    assert line in comparison.PAGE.read_text().splitlines()


@pytest.mark.full
def test_the_page_tells_what_cosign_said_to_every_forgery(bench: Bench) -> None:
    rows = comparison.table(lambda number, case: answers(bench, 2000 + number, case))

    assert comparison.page(rows) == comparison.PAGE.read_text()


@pytest.mark.parametrize("spelling", [*SPELLINGS, *MISSPELLINGS])
def test_a_layers_signature_is_spelled_for_ours_as_for_cosign(bench: Bench, spelling: str) -> None:
    """Both majors put the text of a file there as it is: `cosign attach signature --signature FILE`."""
    recipe = respelled({**SPELLINGS, **MISSPELLINGS}[spelling])

    said = bench.answers(3000 + [*SPELLINGS, *MISSPELLINGS].index(spelling), recipe, by_key)

    assert said == dict.fromkeys((2, 3), spelling in SPELLINGS)
    assert (ours(bench.workshop, recipe, by_key) is None) is (spelling in SPELLINGS)


def _without(*path: str) -> Callable[[dict[str, Any]], None]:
    """Leave something out of the first log entry."""

    def edit(bundle: dict[str, Any]) -> None:
        holder = bundle["verificationMaterial"]["tlogEntries"][0]
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]

    return edit


def _twice(bundle: dict[str, Any]) -> None:
    bundle["verificationMaterial"]["tlogEntries"] *= 2


NOT_THEIRS = {
    "a bundle signed by key": Recipe(leaf=None),
    "version 0.1 with a promise and no proof": Recipe(
        version=f"{OLD_BUNDLE}0.1", bundle=_without("inclusionProof")
    ),
    "version 0.1 with a proof and no checkpoint": Recipe(
        version=f"{OLD_BUNDLE}0.1", bundle=_without("inclusionProof", "checkpoint")
    ),
    "an `intoto` 0.0.2 entry": Recipe(kind="intoto 0.0.2"),
    "several log entries": Recipe(bundle=_twice),
    "the first entry of a log": Recipe(entry="v2"),
    "a timestamp, and no authority for any in the root": Recipe(
        stamped=True, root=lambda root: root.update(timestampAuthorities=[])
    ),
    "a timestamp that is none, beside a log's time": Recipe(stamped=True, stamp=lambda *_: b"yesterday"),
    "a certificate for P-384": Recipe(key="p384"),
    "a certificate for RSA": Recipe(key="rsa"),
    "a certificate for Ed25519": Recipe(key="ed25519"),
    "a certificate for Ed25519, over a hash": PREHASHED,
    "an issuer in the newer field alone": Recipe(leaf=Leaf(issuer_text=None)),
    "a field that nobody knows": Recipe(bundle=lambda bundle: bundle.update(future={})),
    "a trusted root of version 0.2": Recipe(
        root=lambda root: root.update(mediaType="application/vnd.dev.sigstore.trustedroot.v0.2+json")
    ),
    "a trusted root without addresses": Recipe(root=lambda root: root["tlogs"][0].pop("baseUrl")),
}
"""Bundles that ours accepts, and Sigstore's own verifier does not."""


@pytest.mark.parametrize("what", NOT_THEIRS)
def test_the_page_says_where_sigstores_own_verifier_refuses_what_ours_accepts(
    what: str, tmp_path: Path
) -> None:
    """It has its reasons beside each; a version that accepts one takes it out of there."""
    recipe, workshop = NOT_THEIRS[what], Workshop()
    if what != "the first entry of a log":
        workshop.make(recipe)
    made = workshop.make(recipe)
    ours_by = by_logged_key if recipe.leaf is None else by_identity

    assert verify(made.shelf, made.reference, ours_by(made), parse_root(made.root)).digest == made.digest
    with pytest.raises(Exception):  # noqa: B017, PT011 - theirs has no one error for what it was not made for
        _ask_theirs(made, tmp_path)
    assert f"| {what} |" in STEPS.read_text()


def _ask_theirs(made: Made, folder: Path) -> None:
    from sigstore.models import Bundle, TrustedRoot
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    (folder / "root.json").write_bytes(made.root)
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(folder / "root.json")))
    verifier.verify_dsse(Bundle.from_json(made.document), Identity(identity=IDENTITY, issuer=ISSUER))


@pytest.mark.parametrize("leaf", [OURS, OURS_BEFORE], ids=["as of today", "as they were before"])
def test_sigstores_own_verifier_reads_the_same_source_in_certificates(leaf: Leaf) -> None:
    from sigstore.verify import policy

    workshop = Workshop()
    certificate = workshop.certificate(leaf, workshop.key("p256"))

    source = named_in(certificate).source

    assert source == SourceRepository(f"{OUR_OWNER}/plumbing", OUR_OWNER)
    policy.GitHubWorkflowRepository(str(source.url).removeprefix("https://github.com/")).verify(certificate)
    if leaf is OURS:
        policy.OIDCSourceRepositoryURI(str(source.url)).verify(certificate)
        policy.OIDCSourceRepositoryOwnerURI(str(source.owner)).verify(certificate)


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(Recipe(), id="version 0.3"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.1"), id="version 0.1"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.2"), id="version 0.2"),
        pytest.param(Recipe(version=f"{OLD_BUNDLE}0.3"), id="version 0.3 by its older name"),
        pytest.param(Recipe(stamped=True), id="with a timestamp"),
        pytest.param(Recipe(entry="v2"), id="in a log of the second version"),
    ],
)
def test_sigstores_own_verifier_accepts_the_bundles_that_ours_accepts(recipe: Recipe, tmp_path: Path) -> None:
    """It is not made for layers, nor for what `NOT_THEIRS` has."""
    workshop = Workshop()
    workshop.make(recipe)
    made = workshop.make(recipe)

    _ask_theirs(made, tmp_path)

    assert verify(made.shelf, made.reference, by_identity(made), parse_root(made.root)).signer == IDENTITY
