"""Signatures as cosign 2 stores them: a layer with the statement, the rest in its annotations (step 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from cryptography import x509

from schedkit.oci.sigstore.bundles import moment
from schedkit.oci.sigstore.statements import LogEntry, SignedStatement
from schedkit.oci.sigstore.strict import (
    UNREADABLE,
    base64_bytes,
    hex_bytes,
    json_document,
    malformed,
    quiet,
    typed_base64_bytes,
)

MEDIA_TYPE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE: Final = "dev.cosignproject.cosign/signature"
_CERTIFICATE: Final = "dev.sigstore.cosign/certificate"
_BUNDLE: Final = "dev.sigstore.cosign/bundle"
_TIMESTAMP: Final = "dev.sigstore.cosign/rfc3161timestamp"
_MAX_ANNOTATION: Final = 128 << 10
_MAX_SIGNATURE: Final = 2 << 10
_MAX_TIMESTAMP: Final = 32 << 10


class _Payload(msgspec.Struct, frozen=True):
    body: str
    integrated_time: int = msgspec.field(name="integratedTime")
    log_index: int = msgspec.field(name="logIndex")
    log_id: str = msgspec.field(name="logID")


class _Promise(msgspec.Struct, frozen=True):
    promise: str = msgspec.field(name="SignedEntryTimestamp")
    payload: _Payload = msgspec.field(name="Payload")


class _Timestamp(msgspec.Struct, frozen=True):
    timestamp: str = msgspec.field(name="SignedRFC3161Timestamp")


def parse_layer(payload: bytes, annotations: Mapping[str, str], found: str) -> SignedStatement:
    """Step 4 for a layer: its annotations are bounded and complete. Its payload is read in step 5."""
    if _SIGNATURE not in annotations:
        raise malformed(f"the layer has no annotation {_SIGNATURE}, so it is not signed")
    if any(len(value) > _MAX_ANNOTATION for value in annotations.values()):
        raise malformed("an annotation of the layer is longer than any signature needs")
    return SignedStatement(
        found=found,
        enveloped=False,
        payload_type=MEDIA_TYPE,
        payload=payload,
        message=payload,
        # `cosign attach signature --signature FILE` puts the file here, with the end of its line
        signature=typed_base64_bytes(annotations[_SIGNATURE], "the signature", limit=_MAX_SIGNATURE),
        certificate=_certificate(annotations[_CERTIFICATE]) if annotations.get(_CERTIFICATE) else None,
        entries=_entries(annotations[_BUNDLE]) if annotations.get(_BUNDLE) else (),
        timestamps=_timestamps(annotations[_TIMESTAMP]) if annotations.get(_TIMESTAMP) else (),
        needs_proof=False,
    )


def _certificate(pem: str) -> x509.Certificate:
    try:
        with quiet():
            found = x509.load_pem_x509_certificates(pem.encode())
    except UNREADABLE as error:
        raise malformed(f"the certificate cannot be read: {error}") from error
    if len(found) != 1:
        raise malformed(f"there are {len(found)} certificates; there must be exactly one, the signer's")
    return found[0]


def _entries(text: str) -> tuple[LogEntry, ...]:
    given = json_document(text.encode(), _Promise, "the log's promise")
    payload = given.payload
    if payload.integrated_time <= 0 or not 0 <= payload.log_index < 1 << 63:
        raise malformed("the log entry's time or position is not a number that a log would give")
    entry = LogEntry(
        log_id=hex_bytes(payload.log_id, "the log's name"),
        index=payload.log_index,
        body=base64_bytes(payload.body, "the log entry"),
        kind=None,
        integrated=moment(payload.integrated_time),
        promise=base64_bytes(given.promise, "the log's promise", limit=_MAX_SIGNATURE),
        proof=None,
    )
    return (entry,)


def _timestamps(text: str) -> tuple[bytes, ...]:
    given = json_document(text.encode(), _Timestamp, "the timestamp")
    return (base64_bytes(given.timestamp, "the timestamp", limit=_MAX_TIMESTAMP),)
