"""Signatures made by hand, right or wrong in exactly one respect, with the keys of a Sigstore of one's own.

A `Recipe` says how a signature is made; its defaults make a good one. `Workshop.make` follows it and puts
image and signature on a `Shelf`, from which verification reads as it would from a registry. Everything
happens in this process: a forgery takes a few milliseconds.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from rig.base import certificates
from rig.registries.distribution import IMAGE_INDEX, IMAGE_MANIFEST, digest_of
from rig.signatures.prehashing import PrehashingKey
from rig.signatures.sigstore import documents, encoding, merkle
from rig.signatures.sigstore.authority import CertificateAuthority, CertificateLog
from rig.signatures.sigstore.transparency import TransparencyLog
from rig.signatures.timestamping import TimestampAuthority
from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Digest, Reference, Repository, parse_repository
from schedkit.oci.errors import NotFound, Refused, TooLarge

IDENTITY = "https://forge.rig.test/schedulers/.build.yml@refs/heads/main"
ISSUER = "https://issuer.rig.test"
PREDICATE = "https://sigstore.dev/cosign/sign/v1"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
OLD_BUNDLE = "application/vnd.dev.sigstore.bundle+json;version="
SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"
REPOSITORY = parse_repository("registry.rig.test/rig/image")
SECOND_HOST = "second.rekor.rig.test"
_EMPTY = "application/vnd.oci.empty.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_ISSUER_TEXT = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_DER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_SOURCE_REPOSITORY = ObjectIdentifier("1.3.6.1.4.1.57264.1.12")
_SOURCE_OWNER = ObjectIdentifier("1.3.6.1.4.1.57264.1.16")
_OLD_REPOSITORY = ObjectIdentifier("1.3.6.1.4.1.57264.1.5")
_SCTS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_DER = serialization.Encoding.DER

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Edit = Callable[[Any], None]


def _nothing(_: Any) -> None:
    """Leave it as it is."""


def _same(data: bytes) -> bytes:
    return data


@dataclass(frozen=True)
class Leaf:
    """The signer's certificate; times are minutes from the moment of signing."""

    names: tuple[str, ...] = (IDENTITY,)
    issuer_text: str | None = ISSUER
    issuer_der: str | None = ISSUER
    repository: str | None = None
    """The address of what the workflow ran for."""
    owner: str | None = None
    repository_text: str | None = None
    """As older certificates have it."""
    begins: float = 0
    lasts: float = 10
    purposes: tuple[ObjectIdentifier, ...] = (ExtendedKeyUsageOID.CODE_SIGNING,)
    may_sign: bool = True
    logged: bool = True
    foreign_authority: bool = False
    careless_authority: bool = False
    foreign_log: bool = False
    log_of_another: bool = False
    """The log's timestamp was given to another certificate."""


@dataclass(frozen=True)
class Recipe:
    """How to make one signature; the defaults make a good one, as cosign 3 does."""

    simple: bool = False
    """As cosign 2 stores it, instead of a bundle."""
    version: str = BUNDLE
    index: bool = False
    """The image is an index of several platforms."""
    leaf: Leaf | None = field(default_factory=Leaf)
    """None: signed with a key."""
    key: str = "p256"
    prehashed: bool = False
    """Sign with Ed25519ph; the key is an Ed25519."""
    log_hash: str = "sha256"
    """Of what was signed, in the log."""
    signed_with: str | None = None
    """Sign with this key instead of the one in the certificate, or in the policy."""
    payload_type: str = "application/vnd.in-toto+json"
    statement: Edit = _nothing
    """Change what is signed, before it is."""
    payload_bytes: Callable[[bytes], bytes] = _same
    signature_bytes: Callable[[bytes], bytes] = _same
    entry: str | None = "v1"
    """Which log has it: v1, v2 (with timestamp), foreign, or none at all."""
    kind: str | None = None
    """The kind of log entry, where another than the usual one is wanted."""
    body: Edit = _nothing
    """Change what the log has, before the log signs it."""
    logged_at: float = 1
    """Minutes from the moment of signing."""
    stamped: bool | None = None
    """With a timestamp; None: if the log gives no time itself."""
    stamped_at: float = 1
    stamp: Callable[[Workshop, bytes, dt.datetime], bytes] | None = None
    bundle: Edit = _nothing
    """Change the finished bundle, or the annotations of the layer."""
    raw: Callable[[bytes], bytes] = _same
    """Change the bytes of the finished bundle, or payload."""
    manifest: Edit = _nothing
    """Change the manifest that holds the signature."""
    shelf: Callable[[Shelf, Made], None] = lambda _shelf, _made: None
    """Change what the registry has."""
    root: Edit = _nothing
    """Change the trusted root."""

    @property
    def changes_root(self) -> bool:
        return self.root is not _nothing


class Shelf:
    """An image source in memory; it keeps the promises of the port."""

    def __init__(self) -> None:
        self.manifests: dict[str, Content] = {}
        self.blobs: dict[str, bytes] = {}
        self.named: dict[str, str] = {}
        self.referring: dict[str, list[Descriptor]] = {}

    def put_manifest(self, data: bytes, media_type: str, tag: str | None = None) -> Descriptor:
        descriptor = Descriptor(media_type, Digest(digest_of(data)), len(data))
        self.manifests[descriptor.digest] = Content(descriptor, data)
        if tag is not None:
            self.named[tag] = descriptor.digest
        return descriptor

    def put_blob(self, data: bytes) -> str:
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    def resolve(self, reference: Reference) -> Content:
        digest = reference.digest or self.named.get(reference.identifier)
        if digest not in self.manifests:
            raise NotFound(f"{reference} is not there")
        return self.manifests[digest]

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        return self.resolve(Reference(repository, digest=digest))

    def blob(self, _repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        if descriptor.size > limit:
            raise TooLarge(f"{descriptor.digest} has {descriptor.size} bytes")
        data = self.blobs.get(descriptor.digest)
        if data is None:
            raise NotFound(f"{descriptor.digest} is not there")
        if len(data) != descriptor.size or digest_of(data) != descriptor.digest:
            raise Refused(f"the bytes are not those of {descriptor.digest}")
        return data

    def stream(self, repository: Repository, descriptor: Descriptor) -> Iterator[bytes]:
        yield self.blob(repository, descriptor, limit=1 << 30)

    def referrers(self, _repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        return tuple(self.referring.get(digest, ()))

    def tags(self, _repository: Repository) -> tuple[str, ...]:
        return tuple(sorted(self.named))


@dataclass(frozen=True)
class Made:
    """An image with a signature, and what a verifier needs to judge it."""

    shelf: Shelf
    digest: Digest
    signature: Digest
    """The manifest that holds the signature."""
    root: bytes
    public_key: bytes
    document: bytes
    """The finished bundle, or the payload of the layer."""

    @property
    def reference(self) -> Reference:
        return Reference(REPOSITORY, tag="v1")


_NEW_KEYS: dict[str, Callable[[], PrivateKey]] = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "other": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "other ed25519": ed25519.Ed25519PrivateKey.generate,
}


class SecondLog:
    """A log of Rekor's second version: no promise and no time, an Ed25519 key, checkpoints with its name."""

    def __init__(self, host: str = SECOND_HOST) -> None:
        self.host = host
        self.key = ed25519.Ed25519PrivateKey.generate()
        self.signer: ed25519.Ed25519PrivateKey | PrehashingKey = self.key
        self.bodies: list[bytes] = []

    @property
    def log_id(self) -> bytes:
        return hashlib.sha256(f"{self.host}\n\x01".encode() + _raw(self.key)).digest()

    def append(self, body: bytes) -> dict[str, Any]:
        """The entry as bundles have it; zeros and empty lists are left out, as protobuf writers do."""
        self.bodies.append(body)
        index, root = len(self.bodies) - 1, merkle.root_hash(self.bodies)
        note = f"{self.host}\n{len(self.bodies)}\n{encoding.b64(root)}\n"
        signature = encoding.b64(self.log_id[:4] + self.signer.sign(note.encode()))
        proof: dict[str, Any] = {
            "rootHash": encoding.b64(root),
            "treeSize": str(len(self.bodies)),
            "checkpoint": {"envelope": f"{note}\n— {self.host} {signature}\n"},
        }
        path = merkle.inclusion_path(index, self.bodies)
        proof |= {"hashes": [encoding.b64(one) for one in path]} if path else {}
        proof |= {"logIndex": str(index)} if index else {}
        entry = {"logId": {"keyId": encoding.b64(self.log_id)}, "inclusionProof": proof}
        return entry | ({"logIndex": str(index)} if index else {})

    def described(self, since: dt.datetime) -> dict[str, Any]:
        """The log as trusted roots have it."""
        return {
            "baseUrl": f"https://{self.host}",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": encoding.b64(_spki(self.key)),
                "keyDetails": "PKIX_ED25519",
                "validFor": {"start": _text(since)},
            },
            "logId": {"keyId": encoding.b64(self.log_id)},
        }


class Workshop:
    """All the keys: authority, logs, timestamps, signers; and a second set that nobody trusts."""

    def __init__(self, *, now: dt.datetime | None = None) -> None:
        # some hours ago: everything short-lived has expired since, as it has when somebody verifies
        self.now = now or dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(hours=5)
        self.ct_log, self.foreign_ct_log = CertificateLog(), CertificateLog()
        self.authority = CertificateAuthority(self.ct_log)
        self.foreign_authority = CertificateAuthority(self.ct_log)
        # trusted by mistake: what it issues is for servers
        self.careless_authority = CertificateAuthority(self.ct_log, purpose=ExtendedKeyUsageOID.SERVER_AUTH)
        self.log, self.foreign_log = TransparencyLog(), TransparencyLog()
        self.second_log = SecondLog()
        self.stamper, self.foreign_stamper = TimestampAuthority(), TimestampAuthority()
        # trusted by mistake: its certificate is not for timestamps
        self.careless_stamper = TimestampAuthority(purpose=ExtendedKeyUsageOID.CODE_SIGNING)
        self.misused_stamper = TimestampAuthority(issues=ExtendedKeyUsageOID.CODE_SIGNING)
        # listed by their roots alone: who issued their certificates comes with the timestamps
        self.distant_stamper = TimestampAuthority(between=ExtendedKeyUsageOID.TIME_STAMPING)
        self.deceitful_stamper = TimestampAuthority(between=ExtendedKeyUsageOID.CODE_SIGNING)
        self._keys: dict[str, PrivateKey] = {}

    def key(self, name: str) -> PrivateKey:
        """The signer's key of that name, always the same one."""
        if name not in self._keys:
            self._keys[name] = _NEW_KEYS[name]()
        return self._keys[name]

    def moment(self, minutes: float) -> dt.datetime:
        return self.now + dt.timedelta(minutes=minutes)

    def make(self, recipe: Recipe) -> Made:
        """Follow the recipe."""
        shelf = Shelf()
        image = self._index(shelf) if recipe.index else self._image(shelf)
        certificate = self.certificate(recipe.leaf, self.key(recipe.key)) if recipe.leaf else None
        payload = recipe.payload_bytes(self._payload(recipe, image.digest))
        message = payload if recipe.simple else _encoding(recipe.payload_type, payload)
        signature = recipe.signature_bytes(self._sign(recipe, message))
        act = _Act(recipe, payload, message, signature, certificate, _spki(self.key(recipe.key)))
        document, holder = self._stored(act, shelf, image)
        root = self.trusted_root()
        recipe.root(root)
        public = _pem(self.key(recipe.key))
        made = Made(shelf, image.digest, holder, json.dumps(root).encode(), public, document)
        recipe.shelf(shelf, made)
        return made

    def _sign(self, recipe: Recipe, message: bytes) -> bytes:
        key = self.key(recipe.signed_with or recipe.key)
        if recipe.prehashed and isinstance(key, ed25519.Ed25519PrivateKey):
            return PrehashingKey(key).sign(message)
        return _sign(key, message)

    def trusted_root(self) -> dict[str, Any]:
        """Everybody of this workshop but the foreign ones."""
        since = self.now - dt.timedelta(days=1)
        root = documents.trusted_root(self.authority, self.ct_log.key, self.log.key, since)
        root["tlogs"].append(self.second_log.described(since))
        careless = documents.trusted_root(self.careless_authority, self.ct_log.key, self.log.key, since)
        root["certificateAuthorities"] += careless["certificateAuthorities"]
        stampers = (
            self.stamper,
            self.careless_stamper,
            self.misused_stamper,
            self.distant_stamper,
            self.deceitful_stamper,
        )
        root["timestampAuthorities"] = [_described(stamper, since) for stamper in stampers]
        return root

    def certificate(self, leaf: Leaf, key: PrivateKey) -> x509.Certificate:
        """A certificate for the key, as the leaf wants it."""
        authority = self._authority(leaf)
        builder = _builder(leaf, key, authority, self.moment(leaf.begins))
        plain = builder.sign(authority.key, hashes.SHA384())
        if not leaf.logged:
            return plain
        log = self.foreign_ct_log if leaf.foreign_log else self.ct_log
        logged = b"another certificate" if leaf.log_of_another else plain.tbs_certificate_bytes
        scts = log.timestamps(logged, authority.key, self.moment(leaf.begins))
        extension = x509.UnrecognizedExtension(_SCTS, encoding.der_octet_string(scts))
        return builder.add_extension(extension, critical=False).sign(authority.key, hashes.SHA384())

    def _authority(self, leaf: Leaf) -> CertificateAuthority:
        if leaf.careless_authority:
            return self.careless_authority
        return self.foreign_authority if leaf.foreign_authority else self.authority

    def _image(self, shelf: Shelf) -> Descriptor:
        parts = [shelf.put_blob(data) for data in (b"{}", b"a scheduler")]
        manifest = {
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": parts[0], "size": 2},
            "layers": [
                {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": parts[1], "size": 11}
            ],
        }
        return shelf.put_manifest(json.dumps(manifest).encode(), IMAGE_MANIFEST, "v1")

    def _index(self, shelf: Shelf) -> Descriptor:
        image = self._image(shelf)
        entry = {"mediaType": image.media_type, "digest": image.digest, "size": image.size}
        index = {"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": [entry]}
        return shelf.put_manifest(json.dumps(index).encode(), IMAGE_INDEX, "v1")

    def _payload(self, recipe: Recipe, digest: Digest) -> bytes:
        statement = simple_statement(digest) if recipe.simple else _in_toto_statement(digest)
        recipe.statement(statement)
        return json.dumps(statement, separators=(",", ":")).encode()

    def _stored(self, act: _Act, shelf: Shelf, image: Descriptor) -> tuple[bytes, Digest]:
        """Put the signature on the shelf, under a tag or as a referrer."""
        recipe = act.recipe
        content: dict[str, Any] = self._annotations(act) if recipe.simple else self._bundle(act)
        recipe.bundle(content)
        document = recipe.raw(act.payload if recipe.simple else json.dumps(content).encode())
        media_type = SIMPLE if recipe.simple else recipe.version
        layer: dict[str, Any] = {
            "mediaType": media_type,
            "digest": shelf.put_blob(document),
            "size": len(document),
        }
        layer |= {"annotations": content} if recipe.simple else {}
        kind = _CONFIG if recipe.simple else _EMPTY
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": IMAGE_MANIFEST,
            "config": {"mediaType": kind, "digest": shelf.put_blob(b"{}"), "size": 2},
            "layers": [layer],
        }
        if not recipe.simple:
            subject = {"mediaType": image.media_type, "digest": image.digest, "size": image.size}
            manifest |= {"artifactType": recipe.version, "subject": subject}
        recipe.manifest(manifest)
        tag = f"{image.digest.fallback_tag}.sig" if recipe.simple else None
        holder = shelf.put_manifest(json.dumps(manifest).encode(), IMAGE_MANIFEST, tag)
        if not recipe.simple:
            shelf.referring[image.digest] = [holder]
        return document, holder.digest

    def _bundle(self, act: _Act) -> dict[str, Any]:
        recipe = act.recipe
        material: dict[str, Any] = {}
        if act.certificate is None:
            material["publicKey"] = {"hint": "rig"}
        elif recipe.version.startswith(OLD_BUNDLE) and not recipe.version.endswith("0.3"):
            material["x509CertificateChain"] = {"certificates": [_raw_bytes(act.certificate)]}
        else:
            material["certificate"] = _raw_bytes(act.certificate)
        if recipe.entry is not None:
            material["tlogEntries"] = [self._entry(act)]
        stamps = self._stamps(act)
        if stamps:
            stamped = [{"signedTimestamp": encoding.b64(one)} for one in stamps]
            material["timestampVerificationData"] = {"rfc3161Timestamps": stamped}
        envelope = {
            "payload": encoding.b64(act.payload),
            "payloadType": recipe.payload_type,
            "signatures": [{"sig": encoding.b64(act.signature)}],
        }
        return {"mediaType": recipe.version, "verificationMaterial": material, "dsseEnvelope": envelope}

    def _stamps(self, act: _Act) -> list[bytes]:
        recipe = act.recipe
        wanted = recipe.entry == "v2" if recipe.stamped is None else recipe.stamped
        if not wanted:
            return []
        at = self.moment(recipe.stamped_at)
        if recipe.stamp is not None:
            return [recipe.stamp(self, act.signature, at)]
        return [self.stamper.stamp(act.signature, at)]

    def _entry(self, act: _Act) -> dict[str, Any]:
        body = self._body(act)
        kind, version = body["kind"], body["apiVersion"]
        data = encoding.canonical_json(body)
        found = self._second_entry(data) if act.recipe.entry == "v2" else self._first_entry(act, data)
        return found | {
            "kindVersion": {"kind": kind, "version": version},
            "canonicalizedBody": encoding.b64(data),
        }

    def _second_entry(self, body: bytes) -> dict[str, Any]:
        return self.second_log.append(body)

    def _first_entry(self, act: _Act, body: bytes) -> dict[str, Any]:
        entry = self._log(act).append(body, self.moment(act.recipe.logged_at))
        return {
            "logIndex": str(entry.index),
            "logId": {"keyId": encoding.b64(entry.log_id)},
            "integratedTime": str(entry.integrated_time),
            "inclusionPromise": {"signedEntryTimestamp": encoding.b64(entry.promise)},
            "inclusionProof": {
                "logIndex": str(entry.index),
                "rootHash": encoding.b64(entry.root),
                "treeSize": str(entry.tree_size),
                "hashes": [encoding.b64(one) for one in entry.path],
                "checkpoint": {"envelope": entry.checkpoint},
            },
        }

    def _log(self, act: _Act) -> TransparencyLog:
        return self.foreign_log if act.recipe.entry == "foreign" else self.log

    def _body(self, act: _Act) -> dict[str, Any]:
        usual = "hashedrekord 0.0.1" if act.recipe.simple else "dsse 0.0.1"
        if act.recipe.entry == "v2":
            usual = "hashedrekord 0.0.2"
        kind, _, version = (act.recipe.kind or usual).partition(" ")
        body = {"kind": kind, "apiVersion": version, "spec": _SPECS[f"{kind} {version}"](act)}
        act.recipe.body(body)
        return body

    def _annotations(self, act: _Act) -> dict[str, Any]:
        annotations = {"dev.cosignproject.cosign/signature": encoding.b64(act.signature)}
        if act.certificate is not None:
            annotations["dev.sigstore.cosign/certificate"] = encoding.certificate_pem(act.certificate)
            chain = "".join(map(encoding.certificate_pem, self.authority.chain))
            annotations["dev.sigstore.cosign/chain"] = chain
        if act.recipe.entry is not None:
            body = encoding.canonical_json(self._body(act))
            entry = self._log(act).append(body, self.moment(act.recipe.logged_at))
            annotations["dev.sigstore.cosign/bundle"] = json.dumps(entry.promised())
        for stamp in self._stamps(act):
            stamped = {"SignedRFC3161Timestamp": encoding.b64(stamp)}
            annotations["dev.sigstore.cosign/rfc3161timestamp"] = json.dumps(stamped)
        return annotations


@dataclass(frozen=True)
class _Act:
    """One act of signing."""

    recipe: Recipe
    payload: bytes
    message: bytes
    signature: bytes
    certificate: x509.Certificate | None
    public_key: bytes

    @property
    def verifier_pem(self) -> str:
        if self.certificate is not None:
            return encoding.b64(encoding.certificate_pem(self.certificate).encode())
        key = serialization.load_der_public_key(self.public_key)
        pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return encoding.b64(pem)

    @property
    def verifier(self) -> dict[str, Any]:
        details = {"keyDetails": "PKIX_ED25519_PH" if self.recipe.prehashed else "PKIX_ECDSA_P256_SHA_256"}
        if self.certificate is not None:
            return details | {"x509Certificate": _raw_bytes(self.certificate)}
        return details | {"publicKey": {"rawBytes": encoding.b64(self.public_key)}}


def _hashedrekord(act: _Act) -> dict[str, Any]:
    signature = {"content": encoding.b64(act.signature), "publicKey": {"content": act.verifier_pem}}
    algorithm = act.recipe.log_hash
    hashed = {"algorithm": algorithm, "value": hashlib.new(algorithm, act.message).hexdigest()}
    return {"data": {"hash": hashed}, "signature": signature}


def _dsse(act: _Act) -> dict[str, Any]:
    signature = {"signature": encoding.b64(act.signature), "verifier": act.verifier_pem}
    envelope = _sha256(b"the envelope, as it was written")
    return {"payloadHash": _sha256(act.payload), "envelopeHash": envelope, "signatures": [signature]}


def _in_toto(act: _Act) -> dict[str, Any]:
    sig = encoding.b64(encoding.b64(act.signature).encode())
    envelope = {
        "payloadType": act.recipe.payload_type,
        "signatures": [{"publicKey": act.verifier_pem, "sig": sig}],
    }
    content = {"envelope": envelope, "hash": _sha256(b"the envelope"), "payloadHash": _sha256(act.payload)}
    return {"content": content}


def _second_hashedrekord(act: _Act) -> dict[str, Any]:
    algorithm = act.recipe.log_hash
    digest = encoding.b64(hashlib.new(algorithm, act.message).digest())
    signature = {"content": encoding.b64(act.signature), "verifier": act.verifier}
    data = {"algorithm": algorithm.replace("sha", "SHA2_"), "digest": digest}
    return {"hashedRekordV002": {"data": data, "signature": signature}}


def _second_dsse(act: _Act) -> dict[str, Any]:
    digest = encoding.b64(hashlib.sha256(act.payload).digest())
    signature = {"content": encoding.b64(act.signature), "verifier": act.verifier}
    entry = {"payloadHash": {"algorithm": "SHA2_256", "digest": digest}, "signatures": [signature]}
    return {"dsseV002": entry}


_SPECS: dict[str, Callable[[_Act], dict[str, Any]]] = {
    "hashedrekord 0.0.1": _hashedrekord,
    "hashedrekord 0.0.2": _second_hashedrekord,
    "dsse 0.0.1": _dsse,
    "dsse 0.0.2": _second_dsse,
    "intoto 0.0.2": _in_toto,
    "intoto 0.0.1": _in_toto,
}


def _described(stamper: TimestampAuthority, since: dt.datetime) -> dict[str, Any]:
    chain = [{"rawBytes": encoding.b64(one.public_bytes(_DER))} for one in stamper.chain]
    return {
        "subject": {"organization": "rig.test", "commonName": "rig timestamp root"},
        "uri": "https://timestamp.rig.test",
        "certChain": {"certificates": chain},
        "validFor": {"start": _text(since)},
    }


def simple_statement(digest: Digest) -> dict[str, Any]:
    """What cosign 2 signs."""
    critical = {
        "identity": {"docker-reference": str(REPOSITORY)},
        "image": {"docker-manifest-digest": str(digest)},
        "type": "cosign container image signature",
    }
    return {"critical": critical, "optional": None}


def _in_toto_statement(digest: Digest) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest.encoded}, "annotations": {}}],
        "predicateType": PREDICATE,
        "predicate": {},
    }


def _builder(
    leaf: Leaf, key: PrivateKey, authority: CertificateAuthority, begins: dt.datetime
) -> x509.CertificateBuilder:
    public = key.public_key()
    builder = x509.CertificateBuilder(
        subject_name=x509.Name([]),
        issuer_name=authority.intermediate.subject,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=begins,
        not_valid_after=begins + dt.timedelta(minutes=leaf.lasts),
    )
    parent = authority.intermediate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    usage = certificates.key_usage(authority=not leaf.may_sign)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (usage, True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(parent), False),
        (x509.SubjectAlternativeName([_name(one) for one in leaf.names]), True),
    ]
    if leaf.purposes:
        extensions.append((x509.ExtendedKeyUsage(leaf.purposes), False))
    if leaf.issuer_text is not None:
        extensions.append((x509.UnrecognizedExtension(_ISSUER_TEXT, leaf.issuer_text.encode()), False))
    if leaf.issuer_der is not None:
        der = encoding.der_utf8_string(leaf.issuer_der)
        extensions.append((x509.UnrecognizedExtension(_ISSUER_DER, der), False))
    extensions += [(one, False) for one in _sources(leaf)]
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder


def _sources(leaf: Leaf) -> Iterator[x509.UnrecognizedExtension]:
    for oid, text in ((_SOURCE_REPOSITORY, leaf.repository), (_SOURCE_OWNER, leaf.owner)):
        if text is not None:
            yield x509.UnrecognizedExtension(oid, encoding.der_utf8_string(text))
    if leaf.repository_text is not None:
        yield x509.UnrecognizedExtension(_OLD_REPOSITORY, leaf.repository_text.encode())


def _name(text: str) -> x509.GeneralName:
    if "://" in text:
        return x509.UniformResourceIdentifier(text)
    return x509.RFC822Name(text) if "@" in text else x509.DNSName(text)


def _sign(key: PrivateKey, message: bytes) -> bytes:
    match key:
        case ec.EllipticCurvePrivateKey():
            return key.sign(message, ec.ECDSA(hashes.SHA384() if key.key_size == 384 else hashes.SHA256()))
        case rsa.RSAPrivateKey():
            return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        case _:
            return key.sign(message)


def _encoding(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 " + b" ".join((str(len(kind)).encode(), kind, str(len(payload)).encode(), payload))


def _sha256(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _raw_bytes(certificate: x509.Certificate) -> dict[str, str]:
    return {"rawBytes": encoding.b64(certificate.public_bytes(_DER))}


def _spki(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(_DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _raw(key: ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _text(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
