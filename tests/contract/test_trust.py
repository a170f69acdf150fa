"""Ours accepts what both majors of cosign sign, on both kinds of registry, and needs nobody else for it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from rig.base.certificates import Authority
from rig.registries.registry import Kind, Pushed
from rig.registries.registry import Registry as RigRegistry
from rig.signatures.cosign import Cosign, Key
from rig.signatures.sigstore import Sigstore
from rig.signatures.sigstore.authority import CertificateAuthority
from rig.signatures.sigstore.encoding import public_pem
from rig.signatures.sigstore.standin import Trust
from rig.signatures.sigstore.transparency import TransparencyLog
from schedkit.model.images.references import parse_reference
from schedkit.model.trust import policy as trust
from schedkit.model.trust.policy import Exactly, Identity, Mode, Rule, TrustPolicy
from schedkit.model.trust.steps import Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.errors import Unreachable
from schedkit.oci.images.copying import copy
from schedkit.oci.images.layout import Layout
from schedkit.oci.registry.client import Registry, Settings
from schedkit.oci.sigstore.trusted_root import TrustedRoot, parse_root
from schedkit.oci.sigstore.verify import verify

Push = Callable[[RigRegistry], Pushed]

IDENTITY = "https://forge.rig.test/schedulers/.build.yml@refs/heads/main"
ISSUER = "https://issuer.rig.test"
NOBODY = b'{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'


@pytest.fixture(scope="module")
def source(authority: Authority) -> Iterator[Registry]:
    with Registry(Settings(ca_file=authority.ca_file)) as registry:
        yield registry


@pytest.fixture(scope="module")
def key(cosign: Cosign) -> Key:
    return cosign.new_key()


@pytest.fixture
def image(registry: RigRegistry, push: Push) -> Pushed:
    return push(registry)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


PRIVATE_KEYS = {
    "P-384": lambda: _pem(ec.generate_private_key(ec.SECP384R1())),
    "RSA": lambda: _pem(rsa.generate_private_key(65537, 2048)),
    "Ed25519": lambda: _pem(ed25519.Ed25519PrivateKey.generate()),
}


def by_key(key: Key) -> TrustPolicy:
    return TrustPolicy(Rule(keys=(trust.NamedFile("cosign.pub", key.public.read_bytes()),)))


def by_identity(subject: str = IDENTITY, issuer: str = ISSUER) -> TrustPolicy:
    return TrustPolicy(Rule(identities=(Identity(Exactly(issuer), Exactly(subject)),)))


def verdict(
    source: Registry, image: Pushed, policy: TrustPolicy, root: TrustedRoot | None = None
) -> Verified:
    return verify(source, parse_reference(image.reference), policy, root or parse_root(NOBODY))


def root_of(believed: Trust) -> TrustedRoot:
    return parse_root(believed.trusted_root.read_bytes())


def test_a_signature_by_key_is_accepted(cosign: Cosign, key: Key, image: Pushed, source: Registry) -> None:
    cosign.sign(image.reference, key)

    verified = verdict(source, image, by_key(key))

    assert (verified.digest, verified.signer, verified.mode) == (image.digest, "cosign.pub", Mode.KEY)


def test_a_signature_by_key_in_a_log_is_accepted_where_it_has_to_be_in_one(
    cosign: Cosign, key: Key, image: Pushed, sigstore: Sigstore, source: Registry
) -> None:
    policy = TrustPolicy(msgspec.structs.replace(by_key(key).rule, require_log=True))
    root = root_of(sigstore.trust)
    cosign.sign(image.reference, key)

    with pytest.raises(Refusal) as refused:
        verdict(source, image, policy, root)
    cosign.sign_logged(image.reference, key, sigstore)

    assert refused.value.step is Step.LOG
    assert verdict(source, image, policy, root).time is not None


@pytest.mark.parametrize(("major", "kind"), [(2, "Ed25519"), (3, "P-384"), (3, "RSA")])
def test_keys_of_other_kinds_that_cosign_can_sign_with_are_accepted(
    any_registry: RigRegistry,
    push: Push,
    source: Registry,
    folder: Path,
    authority: Authority,
    major: int,
    kind: str,
) -> None:
    """The other pairs do not exist: a major that cannot import such a key, or cannot sign with it."""
    cosign = Cosign(major, folder / f"kinds-{major}", ca_file=authority.ca_file)
    image, key = push(any_registry), cosign.import_key(PRIVATE_KEYS[kind]())
    cosign.sign(image.reference, key)

    assert verdict(source, image, by_key(key)).mode is Mode.KEY


def test_a_signature_from_a_file_that_ends_its_line_is_accepted_as_cosign_accepts_it(
    cosign: Cosign, image: Pushed, source: Registry, tmp_path: Path
) -> None:
    private, key = ec.generate_private_key(ec.SECP256R1()), Key(tmp_path / "none", tmp_path / "signer.pub")
    key.public.write_bytes(public_pem(private))
    payload = cosign.payload(image.reference)
    signature = base64.b64encode(private.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()

    cosign.attach(image.reference, payload, f"{signature}\n")

    assert cosign.verify(image.reference, key).accepted
    assert verdict(source, image, by_key(key)).mode is Mode.KEY


def test_what_cosign_signs_with_an_ed25519_key_and_logs_as_a_hash_is_accepted(
    any_registry: RigRegistry,
    push: Push,
    source: Registry,
    sigstore: Sigstore,
    folder: Path,
    authority: Authority,
) -> None:
    """Cosign 3 signs so, tells the log, and then refuses its own signature as if it were a plain one."""
    cosign = Cosign(3, folder / "prehashing", ca_file=authority.ca_file)
    image, key = push(any_registry), cosign.import_key(PRIVATE_KEYS["Ed25519"]())
    payload = cosign.payload(image.reference)
    cosign.sign_blob(payload, key, sigstore)
    entry = sigstore.log.newest
    logged = json.loads(entry.body)["spec"]

    Cosign(2, folder / "attaching", ca_file=authority.ca_file).attach(
        image.reference, payload, logged["signature"]["content"], entry
    )

    assert logged["data"]["hash"] == {"algorithm": "sha512", "value": hashlib.sha512(payload).hexdigest()}
    assert verdict(source, image, by_key(key)).mode is Mode.KEY
    in_public = TrustPolicy(msgspec.structs.replace(by_key(key).rule, require_log=True))
    assert verdict(source, image, in_public, root_of(sigstore.trust)).time is not None


def test_a_keyless_signature_is_accepted(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, source: Registry
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))

    verified = verdict(source, image, by_identity(), root_of(sigstore.trust))

    assert (verified.digest, verified.signer, verified.issuer) == (image.digest, IDENTITY, ISSUER)
    assert verified.mode is Mode.KEYLESS
    assert verified.time is not None


def test_a_trusted_root_as_cosign_itself_writes_it_is_read(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, source: Registry
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))

    verified = verdict(source, image, by_identity(), parse_root(cosign.trusted_root(sigstore.trust)))

    assert verified.signer == IDENTITY


def test_a_person_with_an_e_mail_address_is_accepted(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, source: Registry
) -> None:
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token("someone@rig.test", ISSUER))

    assert (
        verdict(source, image, by_identity("someone@rig.test"), root_of(sigstore.trust)).signer
        == "someone@rig.test"
    )


def test_from_a_layout_on_disk_an_image_is_verified_without_any_network(
    cosign: Cosign,
    push: Push,
    sigstore: Sigstore,
    source: Registry,
    folder: Path,
    authority: Authority,
    tmp_path: Path,
) -> None:
    """The registry is stopped before; so is nothing else, for nothing else was ever asked."""
    layout = Layout(tmp_path)
    with RigRegistry(Kind.REFERRERS, folder / f"gone-{cosign.major}", authority) as registry:
        image = push(registry)
        cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))
        reference = parse_reference(image.reference)
        copy(source, layout, reference, reference)

    verified = verify(layout, reference, by_identity(), root_of(sigstore.trust))

    assert (verified.digest, verified.signer) == (image.digest, IDENTITY)
    with pytest.raises(Unreachable):
        verdict(source, image, by_identity(), root_of(sigstore.trust))


def test_an_image_without_signature_is_refused(key: Key, image: Pushed, source: Registry) -> None:
    with pytest.raises(Refusal) as refused:
        verdict(source, image, by_key(key))

    assert refused.value.step is Step.EVIDENCE


def test_another_key_did_not_sign(cosign: Cosign, key: Key, image: Pushed, source: Registry) -> None:
    cosign.sign(image.reference, key)

    with pytest.raises(Refusal) as refused:
        verdict(source, image, by_key(cosign.new_key()))

    assert refused.value.step is Step.SIGNATURE


def test_strangers_to_the_trusted_root_are_refused(
    cosign: Cosign, image: Pushed, sigstore: Sigstore, source: Registry, tmp_path: Path
) -> None:
    """Once the authority is another, once the log; and once the signer is not the one that is wanted."""
    cosign.sign_keyless(image.reference, sigstore, sigstore.identity_token(IDENTITY, ISSUER))
    another = Trust(tmp_path / "ca", CertificateAuthority(sigstore.ct_log), sigstore.ct_log, sigstore.log)
    elsewhere = Trust(tmp_path / "log", sigstore.authority, sigstore.ct_log, TransparencyLog())
    attempts = [
        (by_identity(), root_of(another)),
        (by_identity(), root_of(elsewhere)),
        (by_identity(f"{IDENTITY}-fork"), root_of(sigstore.trust)),
    ]

    steps = []
    for policy, root in attempts:
        with pytest.raises(Refusal) as refused:
            verdict(source, image, policy, root)
        steps.append(refused.value.step)

    assert steps == [Step.CERTIFICATE, Step.LOG, Step.SIGNER]
