"""Both majors of cosign sign for real, their signatures lie where they should, and are missed when gone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.base.certificates import Authority
from rig.base.errors import RigError
from rig.registries.distribution import Client
from rig.registries.registry import Kind, Pushed, Registry
from rig.signatures.cosign import Cosign, Key
from rig.signatures.sigstore import Sigstore, Trust
from rig.signatures.sigstore.authority import CertificateAuthority
from rig.signatures.sigstore.identity import IdentityProvider
from rig.signatures.sigstore.transparency import TransparencyLog

Push = Callable[[Registry], Pushed]

IDENTITY = "https://forge.rig.test/schedulers/.build.yml@refs/heads/main"
ISSUER = "https://issuer.rig.test"
_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"


@pytest.fixture(scope="module")
def key(cosign: Cosign) -> Key:
    """The signer's."""
    return cosign.new_key()


@pytest.fixture(scope="module")
def other_key(cosign: Cosign) -> Key:
    """Somebody else's."""
    return cosign.new_key()


@pytest.fixture
def image(registry: Registry, push: Push) -> Pushed:
    """An image that nobody has signed yet."""
    return push(registry)


def test_a_signature_by_key_lies_where_that_major_puts_it_and_verifies(
    cosign: Cosign, key: Key, image: Pushed
) -> None:
    cosign.sign(image.reference, key)

    assert _kinds_of_signatures(image) == [_SIMPLE_SIGNING if cosign.major == 2 else _BUNDLE]
    assert cosign.verify(image.reference, key).accepted


def test_an_image_without_signature_does_not_verify(cosign: Cosign, key: Key, image: Pushed) -> None:
    verdict = cosign.verify(image.reference, key)

    assert not verdict.accepted
    assert "no signatures found" in verdict.message


def test_another_key_did_not_sign(cosign: Cosign, key: Key, other_key: Key, image: Pushed) -> None:
    cosign.sign(image.reference, key)

    verdict = cosign.verify(image.reference, other_key)

    assert not verdict.accepted
    assert "no matching" in verdict.message


def test_a_signature_by_key_that_was_removed_is_missed(cosign: Cosign, key: Key, image: Pushed) -> None:
    cosign.sign(image.reference, key)

    _remove_signatures(image)
    verdict = cosign.verify(image.reference, key)

    assert not verdict.accepted
    assert "no signatures found" in verdict.message


def test_a_keyless_signature_lies_where_that_major_puts_it_and_verifies(
    cosign: Cosign, image: Pushed, sigstore: Sigstore
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))

    assert _kinds_of_signatures(image) == [_SIMPLE_SIGNING if cosign.major == 2 else _BUNDLE]
    assert _verdict(cosign, image, sigstore.trust) == (True, "")


def test_a_person_can_sign_with_an_e_mail_address(cosign: Cosign, image: Pushed, sigstore: Sigstore) -> None:
    token = sigstore.identity_token("someone@rig.test", ISSUER)

    cosign.sign_keyless(image.reference, sigstore, token)

    assert _verdict(cosign, image, sigstore.trust, identity="someone@rig.test") == (True, "")


@pytest.mark.parametrize(
    ("identity", "issuer"),
    [
        pytest.param(f"{IDENTITY}-fork", ISSUER, id="another identity"),
        pytest.param(IDENTITY, "https://elsewhere.rig.test", id="another issuer"),
    ],
)
def test_a_keyless_signature_counts_for_its_signer_only(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, identity: str, issuer: str
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))

    accepted, message = _verdict(cosign, image, sigstore.trust, identity=identity, issuer=issuer)

    assert not accepted
    assert IDENTITY in message or ISSUER in message


def test_a_certificate_of_another_authority_is_not_believed(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, tmp_path: Path
) -> None:
    """The logs are the same and know the signature; the authority alone is another one."""
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))
    other = CertificateAuthority(sigstore.ct_log)
    trust = Trust(tmp_path, other, sigstore.ct_log, sigstore.log)

    accepted, message = _verdict(cosign, image, trust)

    assert not accepted
    assert "certificate" in message


def test_an_entry_in_another_log_is_not_believed(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, tmp_path: Path
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))
    trust = Trust(tmp_path, sigstore.authority, sigstore.ct_log, TransparencyLog())

    accepted, message = _verdict(cosign, image, trust)

    assert not accepted
    assert "log" in message


def test_a_keyless_signature_that_was_removed_is_missed(
    cosign: Cosign, image: Pushed, sigstore: Sigstore
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))

    _remove_signatures(image)
    accepted, message = _verdict(cosign, image, sigstore.trust)

    assert not accepted
    assert "no signatures found" in message


def test_sigstore_is_needed_to_sign_but_not_to_verify(
    cosign: Cosign, any_registry: Registry, push: Push, tmp_path: Path
) -> None:
    first, second = push(any_registry), push(any_registry)
    with Sigstore(tmp_path) as sigstore:
        token = sigstore.identity_token(IDENTITY, ISSUER)
        cosign.sign_keyless(first.reference, sigstore, token)

    assert _verdict(cosign, first, sigstore.trust) == (True, "")
    with pytest.raises(RigError, match="connection refused"):
        cosign.sign_keyless(second.reference, sigstore, token)


def test_a_token_of_another_provider_gets_no_certificate(
    cosign: Cosign, any_registry: Registry, push: Push, sigstore: Sigstore
) -> None:
    forged = IdentityProvider().token(IDENTITY, ISSUER, dt.datetime.now(dt.UTC))

    with pytest.raises(RigError, match="not signed by this provider"):
        cosign.sign_keyless(push(any_registry).reference, sigstore, forged)


def test_cosign_3_reads_what_cosign_2_signed_and_not_the_other_way_round(
    registry: Registry, push: Push, folder: Path, authority: Authority
) -> None:
    two, three = (Cosign(major, folder / f"both-{major}", ca_file=authority.ca_file) for major in (2, 3))
    key = two.new_key()
    by_two, by_three = push(registry), push(registry)

    two.sign(by_two.reference, key)
    three.sign(by_three.reference, key)

    assert three.verify(by_two.reference, key).accepted
    assert not two.verify(by_three.reference, key).accepted


def _verdict(
    cosign: Cosign, image: Pushed, trust: Trust, *, identity: str = IDENTITY, issuer: str = ISSUER
) -> tuple[bool, str]:
    """Whether cosign believes it, and its words if it does not."""
    verdict = cosign.verify_keyless(image.reference, trust, identity=identity, issuer=issuer)
    return verdict.accepted, "" if verdict.accepted else verdict.message


def _kinds_of_signatures(image: Pushed) -> list[str]:
    """The media type of each signature's content, wherever it is stored."""
    client, repository = image.registry.client, image.repository
    manifests = [client.manifest(repository, digest).json() for digest in _signatures(image)]
    return [layer["mediaType"] for manifest in manifests for layer in manifest["layers"]]


def _signatures(image: Pushed) -> list[str]:
    """The manifests that hold signatures: the `.sig` tag, and what refers to the image."""
    client, repository = image.registry.client, image.repository
    tag = image.digest.replace(":", "-")
    tagged = client.manifest(repository, f"{tag}.sig")
    found = [tagged.headers["Docker-Content-Digest"]] if tagged.status == 200 else []
    return found + [entry["digest"] for entry in _referrers(client, image, tag)]


def _referrers(client: Client, image: Pushed, tag: str) -> list[dict[str, str]]:
    """What refers to the image: by the API where there is one, by the fallback tag where there is none."""
    if image.registry.kind is Kind.REFERRERS:
        assert tag not in client.tags(image.repository)
        return list(client.referrers(image.repository, image.digest).json()["manifests"] or ())
    answer = client.manifest(image.repository, tag)
    return list(answer.json()["manifests"]) if answer.status == 200 else []


def _remove_signatures(image: Pushed) -> None:
    for digest in _signatures(image):
        image.registry.client.delete_manifest(image.repository, digest)
