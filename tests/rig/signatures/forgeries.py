"""Every way to forge a signature that anybody here has thought of, and the step that must refuse it.

Each case is a good artifact with one defect. Without the defect it is accepted, so that no case is refused
for another reason than the one it is there for.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.x509.oid import ExtendedKeyUsageOID

from rig.signatures.forging import (
    IDENTITY,
    ISSUER,
    OLD_BUNDLE,
    REPOSITORY,
    Leaf,
    Made,
    Recipe,
    Shelf,
    Workshop,
    simple_statement,
)
from rig.signatures.forging import SIMPLE as SIMPLE_TYPE
from rig.signatures.sigstore import encoding, merkle
from rig.signatures.spellings import spare_bits
from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest
from schedkit.model.trust.policy import (
    GITHUB_ACTIONS,
    OUR_OWNER,
    Exactly,
    Identity,
    NamedFile,
    Rule,
    TrustPolicy,
    default_policy,
)
from schedkit.model.trust.steps import Step
from schedkit.oci.policy.patterns import parse_pattern

Policy = Callable[[Made], TrustPolicy]
OWNER = "https://forge.rig.test/schedulers"
CALLED = Leaf(repository=f"{OWNER}/rusty", owner=OWNER)
"""Of a workflow that says what it ran for."""
OURS = Leaf(
    names=("https://github.com/schedkit/plumbing/.github/workflows/build.yml@refs/heads/main",),
    issuer_text=GITHUB_ACTIONS,
    issuer_der=GITHUB_ACTIONS,
    repository="https://github.com/schedkit/plumbing",
    owner="https://github.com/schedkit",
    repository_text="schedkit/plumbing",
)
OURS_BEFORE = dataclasses.replace(OURS, repository=None, owner=None)
EXPRESSION = r"https://forge\.rig\.test/schedulers/.*@refs/heads/main"
_ANOTHER = f"sha256:{'ab' * 32}"


def by_identity(_: Made) -> TrustPolicy:
    """Exactly the usual signer."""
    return TrustPolicy(Rule(identities=(Identity(Exactly(ISSUER), Exactly(IDENTITY)),)))


def by_expression(_: Made) -> TrustPolicy:
    """Whoever's name matches the expression."""
    return TrustPolicy(Rule(identities=(Identity(Exactly(ISSUER), parse_pattern(EXPRESSION)),)))


def by_owner(_: Made) -> TrustPolicy:
    """The usual signer, called from whatever repository of the usual owner."""
    return TrustPolicy(Rule(identities=(Identity(Exactly(ISSUER), Exactly(IDENTITY), owner=Exactly(OWNER)),)))


def by_our_owner(_: Made) -> TrustPolicy:
    """The usual signer, vouched for by somebody else than GitHub, for an owner there."""
    wanted = Identity(Exactly(ISSUER), Exactly(IDENTITY), owner=Exactly(OUR_OWNER))
    return TrustPolicy(Rule(identities=(wanted,)))


def by_repository(_: Made) -> TrustPolicy:
    """The usual signer, called from repositories that match an expression."""
    wanted = parse_pattern(r"https://forge\.rig\.test/schedulers/(rusty|lavd)")
    return TrustPolicy(Rule(identities=(Identity(Exactly(ISSUER), Exactly(IDENTITY), repository=wanted),)))


def by_default(_: Made) -> TrustPolicy:
    """What is built in, for any log."""
    return msgspec.structs.replace(default_policy(parse_pattern), log_url=None)


def by_key(made: Made) -> TrustPolicy:
    """Whoever has the key."""
    return TrustPolicy(Rule(keys=(NamedFile("signer.pub", made.public_key),)))


def by_logged_key(made: Made) -> TrustPolicy:
    """Whoever has the key, and uses it in public."""
    return TrustPolicy(Rule(keys=(NamedFile("signer.pub", made.public_key),), require_log=True))


@dataclass(frozen=True)
class Case:
    """A forgery: the defect, and who must notice it."""

    name: str
    step: Step
    good: Recipe
    bad: Recipe
    policy: Policy
    bad_policy: Policy
    askable: bool
    """Whether cosign can be asked: its evidence comes from a registry, its beliefs from a trusted root."""
    pinned: bool
    """Whether the image is asked for by digest, not by tag."""

    @property
    def form(self) -> str:
        return ".sig" if self.good.simple else "bundle"


BUNDLE = Recipe()
SIMPLE = Recipe(simple=True)
KEY_BUNDLE = Recipe(leaf=None, entry=None)
KEY_SIMPLE = Recipe(leaf=None, entry=None, simple=True)
LOGGED_KEY = Recipe(leaf=None)
SECOND = Recipe(entry="v2")
STAMPED = Recipe(stamped=True)
WHOLE = Recipe(key="ed25519")
PREHASHED = Recipe(entry="v2", key="ed25519", prehashed=True, log_hash="sha512")
PREHASHED_KEY = Recipe(leaf=None, entry=None, simple=True, key="ed25519", prehashed=True)
FIRST_BUNDLE = Recipe(version=f"{OLD_BUNDLE}0.1")


def _case(
    step: Step,
    name: str,
    good: Recipe,
    *,
    policy: Policy | None = None,
    bad_policy: Policy | None = None,
    askable: bool = True,
    pinned: bool = False,
    **defect: Any,
) -> Case:
    usual = policy or (by_identity if good.leaf is not None else by_key)
    bad = dataclasses.replace(good, **defect)
    return Case(name, step, good, bad, usual, bad_policy or usual, askable, pinned)


# --- small tools for defects


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    """Replace a value somewhere in a document."""

    def edit(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return edit


def _drop(*path: str | int) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return edit


def _repeat(*path: str | int) -> Callable[[Any], None]:
    """Have every item of a list twice."""

    def edit(document: Any) -> None:
        for step in path:
            document = document[step]
        document.extend(list(document))

    return edit


def _swap(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        if old not in data:
            raise ValueError(f"{old!r} is not in the document, so that there would be no defect")
        return data.replace(old, new, 1)

    return edit


_MATERIAL = "verificationMaterial"
_ENTRY = (_MATERIAL, "tlogEntries", 0)
_PROOF = (*_ENTRY, "inclusionProof")
_STAMPS = (_MATERIAL, "timestampVerificationData", "rfc3161Timestamps")
_VERSION_3, _VERSION_NONE = b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x3f"
_PROMISE = "dev.sigstore.cosign/bundle"


def _promise(edit: Callable[[Any], None]) -> Callable[[Any], None]:
    """Change the promise in a layer's annotations."""

    def edit_annotations(annotations: Any) -> None:
        promise = json.loads(annotations[_PROMISE])
        edit(promise)
        annotations[_PROMISE] = json.dumps(promise)

    return edit_annotations


def _no_signature(shelf: Shelf, made: Made) -> None:
    shelf.referring.clear()
    shelf.manifests.pop(made.signature)
    shelf.named.pop(f"{made.digest.fallback_tag}.sig", None)


def _no_manifest(shelf: Shelf, made: Made) -> None:
    del shelf.manifests[made.signature]


def _no_blob(shelf: Shelf, made: Made) -> None:
    del shelf.blobs[_layer(shelf, made)]


def _other_blob(shelf: Shelf, made: Made) -> None:
    name = _layer(shelf, made)
    shelf.blobs[name] = shelf.blobs[name][:-1] + b" "


def _layer(shelf: Shelf, made: Made) -> str:
    return str(json.loads(shelf.manifests[made.signature].data)["layers"][0]["digest"])


def _signature_of_another(shelf: Shelf, made: Made) -> None:
    shelf.named[f"sha256-{'ab' * 32}.sig"] = shelf.named.pop(f"{made.digest.fallback_tag}.sig")


def _other_bytes(shelf: Shelf, made: Made) -> None:
    content = shelf.manifests[made.digest]
    shelf.manifests[made.digest] = Content(content.descriptor, content.data + b" ")


def _other_image(shelf: Shelf, made: Made) -> None:
    """Asked for one digest, the registry answers with another image, which is signed as well."""
    data = shelf.manifests[made.digest].data + b" "
    other = shelf.put_manifest(data, shelf.manifests[made.digest].descriptor.media_type)
    shelf.manifests[made.digest] = shelf.manifests[other.digest]
    shelf.referring[other.digest] = shelf.referring[made.digest]


def _no_image(shelf: Shelf, made: Made) -> None:
    content = shelf.manifests[made.digest]
    descriptor = Descriptor("application/vnd.oci.image.config.v1+json", made.digest, content.descriptor.size)
    shelf.manifests[made.digest] = Content(descriptor, content.data)


def _second_voice(data: bytes) -> bytes:
    """The digest twice: one reader sees ours, the other another."""
    digest = json.loads(data)["critical"]["image"]["docker-manifest-digest"]
    twice = f'"docker-manifest-digest":"{_ANOTHER}","docker-manifest-digest":"{digest}"'
    return _swap(f'"docker-manifest-digest":"{digest}"'.encode(), twice.encode())(data)


def _loose_base64(bundle: Any) -> None:
    """The last character before the padding has bits that no byte has."""
    envelope = bundle["dsseEnvelope"]
    envelope["payload"] = spare_bits(envelope["payload"])


def _padded(data: bytes) -> bytes:
    """JSON may end in blanks; so many that base64 needs its padding."""
    return data + b" " * (-(len(data) - 1) % 3)


def _wrong_hash(value: str) -> str:
    return encoding.b64(bytes(byte ^ 1 for byte in base64.b64decode(value)))


def _spoil(*path: str | int) -> Callable[[Any], None]:
    """Change one bit in each byte of something in base64."""

    def edit(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = _wrong_hash(document[path[-1]])

    return edit


def _checkpoint(change: Callable[[str], str]) -> Callable[[Any], None]:
    def edit(bundle: Any) -> None:
        checkpoint = bundle[_MATERIAL]["tlogEntries"][0]["inclusionProof"]["checkpoint"]
        checkpoint["envelope"] = change(checkpoint["envelope"])

    return edit


def _own_tree(bundle: Any) -> None:
    """Proof and checkpoint agree, on a tree with this one entry; the log signed another."""
    entry = bundle[_MATERIAL]["tlogEntries"][0]
    proof = entry["inclusionProof"]
    root = encoding.b64(merkle.leaf_hash(base64.b64decode(entry["canonicalizedBody"])))
    note, _, signatures = proof["checkpoint"]["envelope"].partition("\n\n")
    forged = f"{note.partition(chr(10))[0]}\n1\n{root}\n\n{signatures}"
    proof |= {"logIndex": "0", "treeSize": "1", "rootHash": root, "hashes": []}
    proof["checkpoint"] = {"envelope": forged}


def _larger_tree(note: str) -> str:
    origin, size, rest = note.split("\n", 2)
    return f"{origin}\n{int(size) + 1}\n{rest}"


def _ended(*path: str | int) -> Callable[[Any], None]:
    """The key or authority was good only until before the signing."""

    def edit(root: Any) -> None:
        for step in path:
            root = root[step]
        root["validFor"] = {"start": "2020-01-01T00:00:00Z", "end": "2021-01-01T00:00:00Z"}

    return edit


def _leaf(**changes: Any) -> Leaf:
    return Leaf(**changes)


def _of(*names: str) -> dict[str, Any]:
    return {"leaf": Leaf(names=names)}


def _from(leaf: Leaf, *, simple: bool = False) -> Recipe:
    return Recipe(leaf=leaf, simple=simple)


def _theirs(leaf: Leaf, *, repository_text: str | None = None) -> Leaf:
    """The same workflow, called from a stranger's repository."""
    stranger = "https://github.com/stranger"
    text = repository_text or (leaf.repository_text and "stranger/x")
    return dataclasses.replace(leaf, repository=f"{stranger}/x", owner=stranger, repository_text=text)


def _as_in_a_layer(statement: Any) -> None:
    """In place of what it was: the same image, in the words of cosign 2."""
    digest = Digest(f"sha256:{statement['subject'][0]['digest']['sha256']}")
    statement.clear()
    statement.update(simple_statement(digest))


def _with_certificate_and_key(bundle: Any) -> None:
    bundle[_MATERIAL]["publicKey"] = {"hint": "rig"}


def _with_chain(bundle: Any) -> None:
    bundle[_MATERIAL]["x509CertificateChain"] = {"certificates": [bundle[_MATERIAL].pop("certificate")]}


def _message_signature(bundle: Any) -> None:
    envelope = bundle.pop("dsseEnvelope")
    bundle["messageSignature"] = {"signature": envelope["signatures"][0]["sig"]}


def _unproved(bundle: Any) -> None:
    entry = bundle[_MATERIAL]["tlogEntries"][0]
    del entry["inclusionProof"]
    del entry["inclusionPromise"]


def _two_certificates(annotations: Any) -> None:
    annotations["dev.sigstore.cosign/certificate"] *= 2


def _promise_twice(annotations: Any) -> None:
    annotations[_PROMISE] = annotations[_PROMISE].replace('"Payload":', '"Payload":{},"Payload":', 1)


@functools.cache
def _elsewhere() -> Workshop:
    """Where things come from that belong to another signing."""
    return Workshop()


def _larger_number(signature: bytes) -> bytes:
    """More than the order of the base point, of which only what is left over counts."""
    order = 2**252 + 27742317777372353535851937790883648493
    number = int.from_bytes(signature[32:], "little") + order
    return signature[:32] + number.to_bytes(32, "little")


def _another_certificate(body: Any) -> None:
    """Somebody else's."""
    other = _elsewhere().certificate(Leaf(), _elsewhere().key("other"))
    body["spec"]["signatures"][0]["verifier"] = encoding.b64(encoding.certificate_pem(other).encode())


def _another_key(body: Any) -> None:
    pem = _elsewhere().make(KEY_BUNDLE).public_key
    body["spec"]["signatures"][0]["verifier"] = encoding.b64(pem)


def _another_payload(body: Any) -> None:
    hashed = body["spec"].get("payloadHash") or body["spec"]["data"]["hash"]
    hashed["value"] = "ab" * 32


def _another_logged_signature(body: Any) -> None:
    body["spec"]["signature"]["content"] = _wrong_hash(body["spec"]["signature"]["content"])


def _log_elsewhere(made: Made) -> TrustPolicy:
    return msgspec.structs.replace(by_identity(made), log_url="https://rekor.elsewhere.test")


def _nobody_here(made: Made) -> TrustPolicy:
    return msgspec.structs.replace(by_identity(made), repositories={str(REPOSITORY): Rule()})


def _no_key(made: Made) -> TrustPolicy:
    return TrustPolicy(Rule(keys=(NamedFile("signer.pub", b"no key"),)))


CASES: tuple[Case, ...] = (
    # 1
    _case(Step.RULE, "the policy names nobody", BUNDLE, bad_policy=lambda _: TrustPolicy(), askable=False),
    _case(
        Step.RULE, "the repository's own rule names nobody", SIMPLE, bad_policy=_nobody_here, askable=False
    ),
    _case(Step.RULE, "the policy's key is no key", KEY_BUNDLE, bad_policy=_no_key, askable=False),
    # 2
    _case(Step.DIGEST, "the bytes are not those of the digest", BUNDLE, shelf=_other_bytes, askable=False),
    _case(
        Step.DIGEST,
        "another signed image for the digest",
        BUNDLE,
        shelf=_other_image,
        askable=False,
        pinned=True,
    ),
    _case(
        Step.DIGEST,
        "the name stands for something else than an image",
        SIMPLE,
        shelf=_no_image,
        askable=False,
    ),
    # 3
    _case(Step.EVIDENCE, "nobody signed", BUNDLE, shelf=_no_signature),
    _case(Step.EVIDENCE, "nobody signed", SIMPLE, shelf=_no_signature),
    _case(
        Step.EVIDENCE,
        "the signature refers to another image",
        BUNDLE,
        manifest=_set("subject", "digest", to=_ANOTHER),
        askable=False,
    ),
    _case(Step.EVIDENCE, "the signature refers to nothing", BUNDLE, manifest=_drop("subject"), askable=False),
    _case(Step.EVIDENCE, "the signature is under another image's tag", SIMPLE, shelf=_signature_of_another),
    _case(Step.EVIDENCE, "the signature's manifest is gone", BUNDLE, shelf=_no_manifest, askable=False),
    _case(Step.EVIDENCE, "the signature's content is gone", SIMPLE, shelf=_no_blob, askable=False),
    _case(
        Step.EVIDENCE,
        "the signature is of a kind that nobody knows",
        BUNDLE,
        manifest=_set("layers", 0, "mediaType", to="application/vnd.example.signature"),
    ),
    # 4
    _case(Step.FORMAT, "the bundle is cut off", BUNDLE, raw=lambda data: data[:-20]),
    _case(
        Step.FORMAT,
        "a key stands twice in the bundle",
        BUNDLE,
        raw=_swap(b'"dsseEnvelope":', b'"dsseEnvelope": {}, "dsseEnvelope":'),
    ),
    _case(Step.FORMAT, "the digest stands twice in what was signed", SIMPLE, payload_bytes=_second_voice),
    _case(Step.FORMAT, "a key stands twice in the promise", SIMPLE, bundle=_promise_twice),
    _case(Step.FORMAT, "the bundle is in UTF-16", BUNDLE, raw=lambda data: data.decode().encode("utf-16")),
    _case(Step.FORMAT, "the bundle is too large", BUNDLE, raw=lambda data: data + b" " * (2 << 20)),
    _case(Step.FORMAT, "the bundle is nested too deep", BUNDLE, raw=lambda _: b"[" * 200_000),
    _case(
        Step.FORMAT,
        "the size is that of a disk",
        BUNDLE,
        manifest=_set("layers", 0, "size", to=1 << 40),
        askable=False,
    ),
    _case(Step.FORMAT, "the content is not that of its digest", BUNDLE, shelf=_other_blob, askable=False),
    _case(
        Step.FORMAT,
        "the bundle's version is unknown",
        BUNDLE,
        bundle=_set("mediaType", to=f"{OLD_BUNDLE}9.9"),
    ),
    _case(
        Step.FORMAT, "the envelope has two signatures", BUNDLE, bundle=_repeat("dsseEnvelope", "signatures")
    ),
    _case(Step.FORMAT, "the bundle has no envelope", BUNDLE, bundle=_message_signature),
    _case(Step.FORMAT, "the bundle has a certificate and a key", BUNDLE, bundle=_with_certificate_and_key),
    _case(Step.FORMAT, "the bundle has no signer", KEY_BUNDLE, bundle=_drop(_MATERIAL, "publicKey")),
    _case(Step.FORMAT, "a chain in a bundle that has none", BUNDLE, bundle=_with_chain),
    _case(
        Step.FORMAT,
        "a blank in base64",
        BUNDLE,
        bundle=lambda bundle: _set("dsseEnvelope", "payload", to=f"{bundle['dsseEnvelope']['payload']} ")(
            bundle
        ),
    ),
    _case(
        Step.FORMAT,
        "base64 with bits to spare",
        dataclasses.replace(BUNDLE, payload_bytes=_padded),
        bundle=_loose_base64,
    ),
    _case(
        Step.FORMAT,
        "the certificate is no certificate",
        BUNDLE,
        bundle=_spoil(_MATERIAL, "certificate", "rawBytes"),
    ),
    _case(Step.FORMAT, "the log's time is negative", BUNDLE, bundle=_set(*_ENTRY, "integratedTime", to="-1")),
    _case(Step.FORMAT, "the position is no number", BUNDLE, bundle=_set(*_ENTRY, "logIndex", to="1e3")),
    _case(Step.FORMAT, "the proof has no checkpoint", BUNDLE, bundle=_drop(*_PROOF, "checkpoint")),
    _case(Step.FORMAT, "the proof is endless", BUNDLE, bundle=_set(*_PROOF, "hashes", to=["AAAA"] * 1000)),
    _case(Step.FORMAT, "the same timestamp twice", STAMPED, bundle=_repeat(*_STAMPS)),
    _case(
        Step.FORMAT,
        "the layer has no signature",
        SIMPLE,
        bundle=_drop("dev.cosignproject.cosign/signature"),
    ),
    _case(Step.FORMAT, "two certificates for one signer", SIMPLE, bundle=_two_certificates),
    _case(
        Step.FORMAT,
        "the log's name is not in lower case",
        SIMPLE,
        bundle=_promise(lambda one: _set("Payload", "logID", to=one["Payload"]["logID"].upper())(one)),
    ),
    # 5
    _case(
        Step.STATEMENT,
        "provenance, not a signature",
        BUNDLE,
        statement=_set("predicateType", to="https://slsa.dev/provenance/v1"),
    ),
    _case(
        Step.STATEMENT,
        "an attestation, not a signature",
        BUNDLE,
        statement=_set("predicateType", to="https://cosign.sigstore.dev/attestation/v1"),
    ),
    _case(Step.STATEMENT, "no statement at all", BUNDLE, payload_type="text/plain"),
    _case(
        Step.STATEMENT,
        "a layer's statement in an envelope",
        BUNDLE,
        payload_type=SIMPLE_TYPE,
        statement=_as_in_a_layer,
    ),
    _case(
        Step.STATEMENT,
        "a statement of another world",
        BUNDLE,
        statement=_set("_type", to="https://example.test/Statement/v1"),
    ),
    _case(
        Step.STATEMENT,
        "another kind of signature",
        SIMPLE,
        statement=_set("critical", "type", to="atomic container signature"),
    ),
    # 6
    _case(
        Step.SUBJECT,
        "for another image",
        BUNDLE,
        statement=_set("subject", 0, "digest", "sha256", to="ab" * 32),
    ),
    _case(
        Step.SUBJECT,
        "for another image",
        SIMPLE,
        statement=_set("critical", "image", "docker-manifest-digest", to=_ANOTHER),
    ),
    _case(
        Step.SUBJECT,
        "for another image",
        KEY_BUNDLE,
        statement=_set("subject", 0, "digest", "sha256", to="ab" * 32),
    ),
    _case(
        Step.SUBJECT,
        "the right digest under the wrong algorithm",
        BUNDLE,
        statement=lambda one: _set(
            "subject", 0, "digest", to={"sha512": one["subject"][0]["digest"]["sha256"]}
        )(one),
    ),
    _case(Step.SUBJECT, "for nothing", BUNDLE, statement=_set("subject", to=[])),
    _case(
        Step.SUBJECT,
        "the digest in upper case",
        SIMPLE,
        statement=lambda one: _set(
            "critical",
            "image",
            "docker-manifest-digest",
            to=one["critical"]["image"]["docker-manifest-digest"].upper(),
        )(one),
    ),
    # 7
    _case(Step.LOG, "in no log", BUNDLE, entry=None),
    _case(Step.LOG, "in no log", SIMPLE, entry=None),
    _case(Step.LOG, "in no log, and it has to be", LOGGED_KEY, policy=by_logged_key, entry=None),
    _case(Step.LOG, "in a log that nobody trusts", BUNDLE, entry="foreign"),
    _case(Step.LOG, "in a log that nobody trusts", SIMPLE, entry="foreign"),
    _case(
        Step.LOG, "in a log that the policy does not name", BUNDLE, bad_policy=_log_elsewhere, askable=False
    ),
    _case(
        Step.LOG,
        "the promised time was changed",
        SIMPLE,
        bundle=_promise(
            lambda one: _set("Payload", "integratedTime", to=one["Payload"]["integratedTime"] + 1)(one)
        ),
    ),
    _case(
        Step.LOG, "the promised position was changed", BUNDLE, bundle=_set(*_ENTRY, "logIndex", to="999999")
    ),
    _case(
        Step.LOG,
        "the promise is of another",
        BUNDLE,
        bundle=_spoil(*_ENTRY, "inclusionPromise", "signedEntryTimestamp"),
    ),
    _case(Step.LOG, "the proof has another root", BUNDLE, bundle=_spoil(*_PROOF, "rootHash")),
    _case(Step.LOG, "the proof leads elsewhere", BUNDLE, bundle=_spoil(*_PROOF, "hashes", 0)),
    _case(Step.LOG, "the proof is for another position", BUNDLE, bundle=_set(*_PROOF, "logIndex", to="0")),
    _case(Step.LOG, "the proof is for no position", BUNDLE, bundle=_set(*_PROOF, "logIndex", to="999999")),
    _case(Step.LOG, "the proof is too short", BUNDLE, bundle=_set(*_PROOF, "hashes", to=[])),
    _case(Step.LOG, "the checkpoint was changed", BUNDLE, bundle=_checkpoint(_larger_tree)),
    _case(Step.LOG, "a tree of the forger's own", BUNDLE, bundle=_own_tree),
    _case(
        Step.LOG,
        "the checkpoint is not signed",
        BUNDLE,
        bundle=_checkpoint(lambda note: note.partition("\n\n")[0] + "\n\n"),
    ),
    _case(
        Step.LOG,
        "the checkpoint is of another log",
        SECOND,
        bundle=_checkpoint(lambda note: note.replace("second.rekor", "third.rekor")),
    ),
    _case(
        Step.LOG, "the entry is not where its proof is", SECOND, bundle=_set(*_ENTRY, "logIndex", to="999999")
    ),
    _case(Step.LOG, "a promise without a proof", BUNDLE, bundle=_drop(*_ENTRY, "inclusionProof")),
    _case(Step.LOG, "neither promise nor proof", FIRST_BUNDLE, bundle=_unproved, askable=False),
    # 8
    _case(Step.ENTRY, "the entry is about something else", BUNDLE, body=_another_payload),
    _case(Step.ENTRY, "the entry is about something else", SIMPLE, body=_another_payload),
    _case(Step.ENTRY, "the entry is about another signature", SIMPLE, body=_another_logged_signature),
    _case(Step.ENTRY, "the entry is about another signer", BUNDLE, body=_another_certificate),
    _case(Step.ENTRY, "the entry is about another key", LOGGED_KEY, policy=by_logged_key, body=_another_key),
    _case(Step.ENTRY, "the entry does not tell what was signed", BUNDLE, kind="intoto 0.0.1"),
    _case(Step.ENTRY, "an entry of a kind that nobody writes", SECOND, kind="dsse 0.0.2"),
    _case(Step.ENTRY, "an entry of a kind that is for layers", BUNDLE, kind="hashedrekord 0.0.1"),
    _case(Step.ENTRY, "an entry of a kind that is for envelopes", SIMPLE, kind="dsse 0.0.1"),
    _case(
        Step.ENTRY,
        "the entry is said to be another kind",
        BUNDLE,
        bundle=_set(*_ENTRY, "kindVersion", "kind", to="hashedrekord"),
    ),
    # 9
    _case(Step.TIME, "nobody says when", BUNDLE, bundle=_drop(*_ENTRY, "inclusionPromise")),
    _case(Step.TIME, "nobody says when", SECOND, stamped=False),
    _case(
        Step.TIME,
        "a timestamp that nobody trusts",
        SECOND,
        stamp=lambda shop, signature, at: shop.foreign_stamper.stamp(signature, at),
    ),
    _case(
        Step.TIME,
        "a timestamp of another signature",
        SECOND,
        stamp=lambda shop, _, at: shop.stamper.stamp(b"another", at),
    ),
    _case(
        Step.TIME,
        "a timestamp of somebody who may not make any",
        SECOND,
        stamp=lambda shop, signature, at: shop.careless_stamper.stamp(signature, at),
    ),
    _case(
        Step.TIME,
        "a timestamp of somebody whose authority is for code",
        SECOND,
        stamp=lambda shop, signature, at: shop.misused_stamper.stamp(signature, at),
    ),
    _case(
        Step.TIME,
        "a timestamp below a root that is for code, and is listed alone",
        SECOND,
        root=_drop("timestampAuthorities", 2, "certChain", "certificates", 0),
        stamp=lambda shop, signature, at: shop.misused_stamper.stamp(signature, at),
    ),
    _case(
        Step.TIME,
        "a timestamp that brings an issuer for code",
        dataclasses.replace(
            SECOND, stamp=lambda shop, signature, at: shop.distant_stamper.stamp(signature, at)
        ),
        stamp=lambda shop, signature, at: shop.deceitful_stamper.stamp(signature, at),
    ),
    _case(
        Step.TIME,
        "a timestamp that was refused",
        SECOND,
        stamp=lambda shop, signature, at: shop.stamper.stamp(signature, at, status=2),
    ),
    _case(
        Step.TIME,
        "a timestamp whose certificate has no version",
        SECOND,
        stamp=lambda shop, signature, at: _swap(_VERSION_3, _VERSION_NONE)(shop.stamper.stamp(signature, at)),
    ),
    _case(Step.TIME, "a timestamp that is none", SECOND, stamp=lambda *_: b"yesterday"),
    _case(
        Step.TIME,
        "a timestamp when nobody is trusted for them",
        SECOND,
        root=_set("timestampAuthorities", to=[]),
    ),
    _case(Step.TIME, "the timestamp authority had ended", SECOND, root=_ended("timestampAuthorities", 0)),
    _case(Step.TIME, "the log's key had ended", BUNDLE, root=_ended("tlogs", 0, "publicKey")),
    _case(Step.TIME, "the log's key had ended", SIMPLE, root=_ended("tlogs", 0, "publicKey")),
    # 10
    _case(Step.CERTIFICATE, "issued by nobody who is trusted", BUNDLE, leaf=_leaf(foreign_authority=True)),
    _case(Step.CERTIFICATE, "issued by nobody who is trusted", SIMPLE, leaf=_leaf(foreign_authority=True)),
    _case(Step.CERTIFICATE, "used after it had expired", BUNDLE, logged_at=60),
    _case(Step.CERTIFICATE, "used after it had expired", SIMPLE, logged_at=60),
    _case(Step.CERTIFICATE, "used before it was issued", BUNDLE, leaf=_leaf(begins=30), logged_at=1),
    _case(Step.CERTIFICATE, "expired by the timestamp, not by the log", STAMPED, stamped_at=60),
    _case(Step.CERTIFICATE, "expired by the log, not by the timestamp", STAMPED, logged_at=60),
    _case(
        Step.CERTIFICATE,
        "for servers, not for code",
        BUNDLE,
        leaf=_leaf(purposes=(ExtendedKeyUsageOID.SERVER_AUTH,)),
    ),
    _case(Step.CERTIFICATE, "for nothing in particular", SIMPLE, leaf=_leaf(purposes=())),
    _case(
        Step.CERTIFICATE,
        "by an authority for servers, not for code",
        BUNDLE,
        leaf=_leaf(careless_authority=True),
    ),
    _case(Step.CERTIFICATE, "not for signatures", BUNDLE, leaf=_leaf(may_sign=False)),
    _case(Step.CERTIFICATE, "the authority had ended", BUNDLE, root=_ended("certificateAuthorities", 0)),
    _case(Step.CERTIFICATE, "the authority had ended", SIMPLE, root=_ended("certificateAuthorities", 0)),
    # 11
    _case(Step.ISSUANCE, "issued in secret", BUNDLE, leaf=_leaf(logged=False)),
    _case(Step.ISSUANCE, "issued in secret", SIMPLE, leaf=_leaf(logged=False)),
    _case(Step.ISSUANCE, "logged where nobody looks", BUNDLE, leaf=_leaf(foreign_log=True)),
    _case(Step.ISSUANCE, "another certificate was logged", BUNDLE, leaf=_leaf(log_of_another=True)),
    _case(Step.ISSUANCE, "the certificate log had ended", BUNDLE, root=_ended("ctlogs", 0, "publicKey")),
    # 12
    _case(Step.SIGNATURE, "signed with another key", BUNDLE, signed_with="other"),
    _case(Step.SIGNATURE, "signed with another key", SIMPLE, signed_with="other"),
    _case(Step.SIGNATURE, "signed with another key", KEY_BUNDLE, signed_with="other"),
    _case(Step.SIGNATURE, "signed with another key", KEY_SIMPLE, signed_with="other"),
    _case(Step.SIGNATURE, "a signature of nothing", BUNDLE, signature_bytes=lambda _: b""),
    _case(
        Step.SIGNATURE,
        "a signature that was changed",
        KEY_SIMPLE,
        signature_bytes=lambda one: one[:-1] + bytes([one[-1] ^ 1]),
    ),
    _case(
        Step.SIGNATURE,
        "what was signed was changed",
        KEY_SIMPLE,
        raw=_swap(b'"optional":null', b'"optional":{}'),
    ),
    _case(
        Step.SIGNATURE,
        "a signature of zeros",
        Recipe(leaf=None, entry=None, key="ed25519"),
        signature_bytes=lambda _: b"\0" * 64,
    ),
    _case(Step.SIGNATURE, "a hash signed, where the log saw all of it", WHOLE, prehashed=True),
    *(
        # cosign does not verify such signatures before their defect either
        _case(Step.SIGNATURE, f"a hash signed, {how}", good, askable=False, **defect)
        for how, good, defect in (
            ("with another key", PREHASHED, {"signed_with": "other ed25519"}),
            ("with another key", PREHASHED_KEY, {"signed_with": "other ed25519"}),
            ("says the log alone", PREHASHED, {"prehashed": False}),
            ("with zeros", PREHASHED_KEY, {"signature_bytes": lambda _: b"\0" * 64}),
            ("with a number that stands for the same", PREHASHED_KEY, {"signature_bytes": _larger_number}),
        )
    ),
    # 13
    _case(Step.SIGNER, "somebody else", BUNDLE, **_of(f"{IDENTITY}-fork")),
    _case(Step.SIGNER, "somebody else", SIMPLE, **_of("someone@rig.test")),
    _case(
        Step.SIGNER, "the same name in upper case", BUNDLE, **_of(IDENTITY.upper().replace("HTTPS", "https"))
    ),
    _case(
        Step.SIGNER,
        "a name that only contains the wanted one",
        BUNDLE,
        policy=by_expression,
        **_of(f"https://evil.test/{IDENTITY}/x"),
    ),
    _case(
        Step.SIGNER,
        "a name that only contains the wanted one",
        SIMPLE,
        policy=by_expression,
        **_of(f"https://evil.test/{IDENTITY}/x"),
    ),
    _case(
        Step.SIGNER,
        "a name that begins like the wanted one",
        BUNDLE,
        policy=by_expression,
        **_of(f"{IDENTITY}.evil"),
    ),
    _case(
        Step.SIGNER,
        "vouched for by somebody else",
        BUNDLE,
        leaf=_leaf(issuer_text="https://evil.test", issuer_der="https://evil.test"),
    ),
    _case(Step.SIGNER, "vouched for in two voices", BUNDLE, leaf=_leaf(issuer_text="https://evil.test")),
    _case(Step.SIGNER, "vouched for by nobody", BUNDLE, leaf=_leaf(issuer_text=None, issuer_der=None)),
    _case(Step.SIGNER, "two names in one certificate", BUNDLE, **_of(IDENTITY, "https://evil.test/")),
    _case(Step.SIGNER, "a host, not a person or workflow", SIMPLE, **_of("forge.rig.test")),
    *(
        _case(Step.SIGNER, name, good, policy=policy, askable=False, leaf=leaf)
        for name, good, policy, leaf in (
            ("called by a stranger", _from(CALLED), by_owner, _theirs(CALLED)),
            ("called by a stranger", _from(CALLED, simple=True), by_owner, _theirs(CALLED)),
            ("called for another repository", _from(CALLED), by_repository, _theirs(CALLED)),
            (
                "called for a repository that begins like the wanted one",
                _from(CALLED),
                by_repository,
                dataclasses.replace(CALLED, repository=f"{OWNER}/rusty2"),
            ),
            ("called by nobody knows whom", _from(CALLED), by_owner, Leaf()),
            ("called in two voices", _from(OURS), by_default, _theirs(OURS, repository_text="schedkit/x")),
            (
                "our owner, for the repository of a stranger",
                _from(OURS),
                by_default,
                dataclasses.replace(OURS, repository_text="stranger/x"),
            ),
            ("our workflow, called by a stranger", _from(OURS), by_default, _theirs(OURS)),
            (
                "our workflow, called by a stranger, long ago",
                _from(OURS_BEFORE),
                by_default,
                dataclasses.replace(OURS_BEFORE, repository_text="stranger/schedkit"),
            ),
            (
                "our workflow, called by an owner of two parts",
                _from(OURS_BEFORE),
                by_default,
                dataclasses.replace(OURS_BEFORE, repository_text="schedkit/x/y"),
            ),
            (
                "called by our name, on another forge",
                _from(dataclasses.replace(OURS, names=(IDENTITY,), issuer_text=ISSUER, issuer_der=ISSUER)),
                by_our_owner,
                Leaf(repository_text="schedkit/plumbing"),
            ),
            (
                "our workflow, called by nobody knows whom",
                _from(OURS),
                by_default,
                dataclasses.replace(OURS_BEFORE, repository_text=None),
            ),
        )
    ),
    _case(Step.SIGNER, "a key, where people are trusted", BUNDLE, leaf=None, entry=None, askable=False),
    _case(
        Step.SIGNER, "a person, where keys are trusted", KEY_BUNDLE, leaf=Leaf(), entry="v1", askable=False
    ),
)
