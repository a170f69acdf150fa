"""What people really signed with the public Sigstore is accepted offline, with the embedded root alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.registries.distribution import IMAGE_MANIFEST
from rig.signatures import genuine
from rig.signatures.forging import REPOSITORY, SIMPLE, Shelf
from schedkit.model.images.references import Digest, Reference
from schedkit.model.trust.policy import PUBLIC_LOG, Exactly, Identity, Rule, TrustPolicy
from schedkit.model.trust.steps import Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.patterns import parse_pattern
from schedkit.oci.sigstore.bundles import parse_bundle
from schedkit.oci.sigstore.trusted_root import TrustedRoot, parse_root
from schedkit.oci.sigstore.verify import Question, judge, verify

# whoever it was: the point is that Sigstore vouches for them
SOMEBODY = Rule(
    identities=(Identity(Exactly("https://github.com/login/oauth"), parse_pattern("[^@]+@[^@]+")),)
)
POLICY = TrustPolicy(SOMEBODY, log_url=PUBLIC_LOG)


@pytest.fixture(scope="module")
def folder() -> Path:
    return genuine.folder()


@pytest.fixture(scope="module")
def root() -> TrustedRoot:
    return parse_root(dated_root.embedded().document)


@pytest.fixture
def shelf(folder: Path) -> Shelf:
    """The image with its signature of January 2023, laid out as a registry has it."""
    shelf = Shelf()
    image = shelf.put_manifest((folder / "manifest.json").read_bytes(), IMAGE_MANIFEST, "v1")
    kept = json.loads((folder / "signature").read_bytes().partition(b"\n")[2])
    payload = base64.b64decode(kept["payload"])
    layer: dict[str, Any] = {"mediaType": SIMPLE, "digest": shelf.put_blob(payload), "size": len(payload)}
    manifest = {"schemaVersion": 2, "layers": [{**layer, "annotations": kept["annotations"]}]}
    shelf.put_manifest(json.dumps(manifest).encode(), IMAGE_MANIFEST, f"{image.digest.fallback_tag}.sig")
    return shelf


def judged(data: bytes, root: TrustedRoot) -> Verified:
    """The attestation of February 2025; of a kind that is no signature, so it is asked for."""
    signed = parse_bundle(data, "the genuine bundle")
    statement = json.loads(signed.payload)
    digest = Digest(f"sha256:{statement['subject'][0]['digest']['sha256']}")
    question = Question(digest, REPOSITORY, SOMEBODY, root, POLICY.log_host, (statement["predicateType"],))
    return judge(signed, question)


def test_a_genuine_signature_of_cosign_2_is_accepted(shelf: Shelf, root: TrustedRoot) -> None:
    verified = verify(shelf, Reference(REPOSITORY, tag="v1"), POLICY, root)

    assert verified.time is not None
    assert verified.time.isoformat() == "2023-01-20T20:51:33+00:00"


def test_a_genuine_bundle_is_accepted(folder: Path, root: TrustedRoot) -> None:
    verified = judged((folder / "bundle.json").read_bytes(), root)

    assert verified.time is not None
    assert verified.time.isoformat() == "2025-02-28T19:18:11+00:00"


@pytest.mark.parametrize(
    ("without", "step"),
    [
        pytest.param(
            lambda root: msgspec.structs.replace(root, authorities=()), Step.CERTIFICATE, id="authorities"
        ),
        pytest.param(lambda root: msgspec.structs.replace(root, logs=()), Step.LOG, id="logs"),
        pytest.param(
            lambda root: msgspec.structs.replace(root, certificate_logs=()), Step.ISSUANCE, id="CT logs"
        ),
    ],
)
def test_it_needs_everybody_in_the_embedded_root(
    folder: Path,
    shelf: Shelf,
    root: TrustedRoot,
    without: Callable[[TrustedRoot], TrustedRoot],
    step: Step,
) -> None:
    with pytest.raises(Refusal) as bundle:
        judged((folder / "bundle.json").read_bytes(), without(root))
    with pytest.raises(Refusal) as layer:
        verify(shelf, Reference(REPOSITORY, tag="v1"), POLICY, without(root))

    assert (bundle.value.step, layer.value.step) == (step, step)


def test_sigstores_own_verifier_accepts_the_genuine_bundle_too(folder: Path) -> None:
    from sigstore.models import Bundle
    from sigstore.verify import Verifier
    from sigstore.verify.policy import OIDCIssuer

    bundle = Bundle.from_json((folder / "bundle.json").read_bytes())
    kind, _ = Verifier.production(offline=True).verify_dsse(
        bundle, OIDCIssuer("https://github.com/login/oauth")
    )

    assert kind == "application/vnd.in-toto+json"
