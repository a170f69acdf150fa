"""Sigstore bundles, versions 0.1 to 0.3, as cosign 3 attaches them to an image (step 4)."""

from __future__ import annotations

import datetime as dt
from typing import Final

import msgspec
from cryptography import x509

from schedkit.oci.sigstore.statements import InclusionProof, LogEntry, SignedStatement
from schedkit.oci.sigstore.strict import (
    UNREADABLE,
    base64_bytes,
    json_document,
    malformed,
    quiet,
    whole_number,
)

_OLD: Final = "application/vnd.dev.sigstore.bundle+json;version="
_V01: Final = f"{_OLD}0.1"
_NEWEST: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
MEDIA_TYPES: Final = frozenset((_V01, f"{_OLD}0.2", f"{_OLD}0.3", _NEWEST))
_WITH_CHAIN: Final = frozenset((_V01, f"{_OLD}0.2"))

_MAX_ENTRIES: Final = 8
_MAX_TIMESTAMPS: Final = 8
_MAX_PATH: Final = 64
_MAX_CERTIFICATE: Final = 16 << 10
_MAX_SIGNATURE: Final = 2 << 10
_MAX_TIMESTAMP: Final = 32 << 10
_MAX_CHECKPOINT: Final = 16 << 10


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """JSON names are those of the bundle; what is unknown says nothing and is ignored."""


class _Certificate(_Part, frozen=True):
    raw_bytes: str


class _Chain(_Part, frozen=True):
    certificates: list[_Certificate]


class _KeyHint(_Part, frozen=True):
    hint: str = ""


class _LogId(_Part, frozen=True):
    key_id: str


class _KindVersion(_Part, frozen=True):
    kind: str
    version: str


class _Promise(_Part, frozen=True):
    signed_entry_timestamp: str


class _Checkpoint(_Part, frozen=True):
    envelope: str


class _Proof(_Part, frozen=True):
    root_hash: str
    tree_size: str
    log_index: str = "0"  # writers leave zeros and empty lists out
    hashes: list[str] = []
    checkpoint: _Checkpoint | None = None


class _Entry(_Part, frozen=True):
    log_id: _LogId
    kind_version: _KindVersion
    canonicalized_body: str
    log_index: str = "0"
    integrated_time: str = "0"
    inclusion_promise: _Promise | None = None
    inclusion_proof: _Proof | None = None


class _Timestamp(_Part, frozen=True):
    signed_timestamp: str


class _Timestamps(_Part, frozen=True):
    rfc3161_timestamps: list[_Timestamp] = []


class _Material(_Part, frozen=True):
    certificate: _Certificate | None = None
    x509_certificate_chain: _Chain | None = None
    public_key: _KeyHint | None = None
    tlog_entries: list[_Entry] = []
    timestamp_verification_data: _Timestamps | None = None


class _Signature(_Part, frozen=True):
    sig: str


class _Envelope(_Part, frozen=True):
    payload: str
    payload_type: str
    signatures: list[_Signature]


class _Bundle(_Part, frozen=True):
    media_type: str
    verification_material: _Material
    dsse_envelope: _Envelope | None = None


def parse_bundle(data: bytes, found: str) -> SignedStatement:
    """Step 4 for a bundle: everything in it is bounded, complete and of a known version."""
    bundle = json_document(data, _Bundle, "the bundle")
    if bundle.media_type not in MEDIA_TYPES:
        raise malformed(f"the bundle is of the unknown kind {bundle.media_type[:80]!r}")
    material, envelope = bundle.verification_material, bundle.dsse_envelope
    if envelope is None:
        raise malformed("the bundle has no envelope, so it says nothing about an image")
    payload = base64_bytes(envelope.payload, "the payload")
    return SignedStatement(
        found=found,
        enveloped=True,
        payload_type=envelope.payload_type,
        payload=payload,
        message=encoding_of(envelope.payload_type, payload),
        signature=_signature(envelope),
        certificate=_certificate(material, with_chain=bundle.media_type in _WITH_CHAIN),
        entries=_entries(material, proof_optional=bundle.media_type == _V01),
        timestamps=_timestamps(material),
        needs_proof=bundle.media_type != _V01,
    )


def encoding_of(payload_type: str, payload: bytes) -> bytes:
    """What an envelope's signature covers (DSSE's pre-authentication encoding)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _signature(envelope: _Envelope) -> bytes:
    if len(envelope.signatures) != 1:
        raise malformed(f"the envelope has {len(envelope.signatures)} signatures; exactly one is accepted")
    return base64_bytes(envelope.signatures[0].sig, "the signature", limit=_MAX_SIGNATURE)


def _certificate(material: _Material, *, with_chain: bool) -> x509.Certificate | None:
    """The signer's certificate; None when a key signed. A chain that comes along is not believed anyway."""
    chain = material.x509_certificate_chain
    given = [one for one in (material.certificate, chain, material.public_key) if one is not None]
    if len(given) != 1:
        raise malformed("the bundle must have exactly one certificate, certificate chain or key")
    if material.public_key is not None:
        return None
    if (chain is not None) is not with_chain:
        raise malformed("the bundle's certificate is not in the field that its version uses")
    if chain is not None and not chain.certificates:
        raise malformed("the bundle's certificate chain is empty")
    leaf = chain.certificates[0] if chain is not None else material.certificate
    return (
        load_certificate(base64_bytes(leaf.raw_bytes, "the certificate", limit=_MAX_CERTIFICATE))
        if leaf
        else None
    )


def load_certificate(der: bytes) -> x509.Certificate:
    """The certificate in these bytes."""
    try:
        with quiet():
            return x509.load_der_x509_certificate(der)
    except UNREADABLE as error:
        raise malformed(f"the certificate cannot be read: {error}") from error


def _entries(material: _Material, *, proof_optional: bool) -> tuple[LogEntry, ...]:
    if len(material.tlog_entries) > _MAX_ENTRIES:
        raise malformed(
            f"the bundle has {len(material.tlog_entries)} log entries; at most {_MAX_ENTRIES} are read"
        )
    return tuple(_entry(entry, proof_optional=proof_optional) for entry in material.tlog_entries)


def _entry(entry: _Entry, *, proof_optional: bool) -> LogEntry:
    seconds = whole_number(entry.integrated_time, "the time of the log entry")
    promise = entry.inclusion_promise
    return LogEntry(
        log_id=base64_bytes(entry.log_id.key_id, "the log's name", limit=64),
        index=whole_number(entry.log_index, "the position in the log"),
        body=base64_bytes(entry.canonicalized_body, "the log entry"),
        kind=f"{entry.kind_version.kind} {entry.kind_version.version}",
        integrated=moment(seconds) if seconds else None,
        promise=base64_bytes(promise.signed_entry_timestamp, "the log's promise", limit=_MAX_SIGNATURE)
        if promise
        else None,
        proof=_proof(entry.inclusion_proof, optional=proof_optional) if entry.inclusion_proof else None,
    )


def moment(seconds: int) -> dt.datetime:
    """A time of the log, which counts seconds since 1970."""
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise malformed(f"{seconds} seconds since 1970 is not a valid time") from error


def _proof(proof: _Proof, *, optional: bool) -> InclusionProof | None:
    if proof.checkpoint is None:
        if optional:  # the first bundles had proofs that lead nowhere
            return None
        raise malformed("the proof of inclusion has no checkpoint, so it proves nothing")
    if len(proof.hashes) > _MAX_PATH or len(proof.checkpoint.envelope) > _MAX_CHECKPOINT:
        raise malformed("the proof of inclusion is longer than any log needs")
    return InclusionProof(
        index=whole_number(proof.log_index, "the position in the tree"),
        size=whole_number(proof.tree_size, "the size of the tree"),
        root=base64_bytes(proof.root_hash, "the root of the tree", limit=64),
        path=tuple(base64_bytes(one, "a hash of the proof", limit=64) for one in proof.hashes),
        checkpoint=proof.checkpoint.envelope,
    )


def _timestamps(material: _Material) -> tuple[bytes, ...]:
    data = material.timestamp_verification_data
    given = data.rfc3161_timestamps if data else []
    if len(given) > _MAX_TIMESTAMPS:
        raise malformed(f"the bundle has {len(given)} timestamps; at most {_MAX_TIMESTAMPS} are read")
    found = [base64_bytes(one.signed_timestamp, "a timestamp", limit=_MAX_TIMESTAMP) for one in given]
    if len(set(found)) != len(found):
        raise malformed("the bundle has the same timestamp twice")
    return tuple(found)
