"""What a log entry says was signed, by whom, and with which signature (step 8).

An entry that is genuine but about something else would lend its time and its publicity to a forgery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.sigstore import keys
from schedkit.oci.sigstore.statements import LogEntry, SignedStatement
from schedkit.oci.sigstore.strict import (
    UNREADABLE,
    base64_bytes,
    hex_bytes,
    json_document,
    json_part,
    malformed,
    quiet,
)

T = TypeVar("T")

_HASHES: Final = {"sha256": 32, "sha384": 48, "sha512": 64}
_LONG_NAMES: Final = {"SHA2_256": "sha256", "SHA2_384": "sha384", "SHA2_512": "sha512"}


class Covered(StrEnum):
    """What the hash in an entry is of."""

    MESSAGE = "message"  # the bytes under the signature
    PAYLOAD = "payload"


class Recorded(msgspec.Struct, frozen=True):
    """One signing, as a log has it."""

    algorithm: str
    digest: bytes
    covers: Covered
    signature: bytes
    verifier: bytes
    """The certificate or the public key, in DER."""

    @property
    def prehashed(self) -> bool:
        """Whether an Ed25519 in it is an Ed25519ph: a log that saw only this hash could verify no other."""
        return self.covers is Covered.MESSAGE and self.algorithm == "sha512"


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    spec: dict[str, Any]


class _Hash(msgspec.Struct, frozen=True):
    algorithm: str
    value: str


class _Data(msgspec.Struct, frozen=True):
    hash: _Hash


class _Content(msgspec.Struct, frozen=True):
    content: str


class _Signature(msgspec.Struct, frozen=True, rename="camel"):
    content: str
    public_key: _Content


class _HashedRekord(msgspec.Struct, frozen=True):
    data: _Data
    signature: _Signature


class _DsseSignature(msgspec.Struct, frozen=True):
    signature: str
    verifier: str


class _Dsse(msgspec.Struct, frozen=True, rename="camel"):
    payload_hash: _Hash
    signatures: list[_DsseSignature]


class _InTotoSignature(msgspec.Struct, frozen=True, rename="camel"):
    public_key: str
    sig: str


class _InTotoEnvelope(msgspec.Struct, frozen=True):
    signatures: list[_InTotoSignature]


class _InTotoContent(msgspec.Struct, frozen=True, rename="camel"):
    envelope: _InTotoEnvelope
    payload_hash: _Hash


class _InToto(msgspec.Struct, frozen=True):
    content: _InTotoContent


class _RawBytes(msgspec.Struct, frozen=True, rename="camel"):
    raw_bytes: str


class _Verifier(msgspec.Struct, frozen=True, rename="camel"):
    x509_certificate: _RawBytes | None = None
    public_key: _RawBytes | None = None


class _SecondSignature(msgspec.Struct, frozen=True):
    content: str
    verifier: _Verifier


class _SecondHash(msgspec.Struct, frozen=True):
    algorithm: str
    digest: str


class _SecondHashedRekord(msgspec.Struct, frozen=True):
    data: _SecondHash
    signature: _SecondSignature


class _SecondHashedRekordSpec(msgspec.Struct, frozen=True):
    entry: _SecondHashedRekord = msgspec.field(name="hashedRekordV002")


def check_entry(entry: LogEntry, signed: SignedStatement) -> Recorded:
    """Step 8: the entry is about this signature; returns what it says."""
    recorded = _recorded(entry, enveloped=signed.enveloped)
    content = signed.message if recorded.covers is Covered.MESSAGE else signed.payload
    if recorded.digest != hashlib.new(recorded.algorithm, content).digest():
        raise Refusal(Step.ENTRY, "the log entry is about another signed text")
    if recorded.signature != signed.signature:
        raise Refusal(Step.ENTRY, "the log entry is about another signature")
    certificate = signed.certificate
    if certificate is not None and recorded.verifier != certificate.public_bytes(Encoding.DER):
        raise Refusal(Step.ENTRY, "the log entry is about another signer's certificate")
    return recorded


def _recorded(entry: LogEntry, *, enveloped: bool) -> Recorded:
    body = json_document(entry.body, _Body, "the log entry")
    kind = f"{body.kind} {body.api_version}"
    if entry.kind not in (None, kind):
        raise Refusal(Step.ENTRY, f"the log entry is announced as {entry.kind!r}, but is {kind[:80]!r}")
    readers = _ENVELOPE_READERS if enveloped else _LAYER_READERS
    if kind not in readers:
        what = "an envelope" if enveloped else "a layer"
        why = f"log entries of the kind {kind[:80]!r} are not accepted for {what}"
        raise Refusal(Step.ENTRY, f"{why}; the accepted kinds are {', '.join(readers)}")
    return readers[kind](body.spec)


def _hashedrekord(spec: object) -> Recorded:
    found = json_part(spec, _HashedRekord, "the log entry")
    signature = found.signature
    return _first(found.data.hash, Covered.MESSAGE, signature.content, signature.public_key.content)


def _dsse(spec: object) -> Recorded:
    found = json_part(spec, _Dsse, "the log entry")
    only = _only(found.signatures)
    return _first(found.payload_hash, Covered.PAYLOAD, only.signature, only.verifier)


def _in_toto(spec: object) -> Recorded:
    """This kind wraps the signature, which is text already, into base64 once more."""
    content = json_part(spec, _InToto, "the log entry").content
    only = _only(content.envelope.signatures)
    text = base64_bytes(only.sig, "the logged signature").decode("ascii", errors="replace")
    return _first(content.payload_hash, Covered.PAYLOAD, text, only.public_key)


def _first(of: _Hash, covers: Covered, signature: str, verifier: str) -> Recorded:
    """From the parts that all kinds of the first logs have: a hash in hex, a signature, a key in PEM."""
    algorithm, digest = _hash(of)
    signed = base64_bytes(signature, "the logged signature")
    return Recorded(algorithm, digest, covers, signed, _pem(verifier))


def _second_hashedrekord(spec: object) -> Recorded:
    found = json_part(spec, _SecondHashedRekordSpec, "the log entry").entry
    data, signature = found.data, found.signature
    algorithm = _LONG_NAMES.get(data.algorithm)
    if algorithm is None:
        raise malformed(f"the log entry's hash is of the unknown kind {data.algorithm[:80]!r}")
    given = signature.verifier.x509_certificate or signature.verifier.public_key
    if given is None:
        raise malformed("the log entry names neither a certificate nor a key")
    return Recorded(
        algorithm,
        base64_bytes(data.digest, "the log entry's hash", limit=64),
        Covered.MESSAGE,
        base64_bytes(signature.content, "the logged signature"),
        base64_bytes(given.raw_bytes, "the logged certificate or key"),
    )


def _hash(found: _Hash) -> tuple[str, bytes]:
    digest = hex_bytes(found.value, "the log entry's hash")
    if _HASHES.get(found.algorithm) != len(digest):
        raise malformed(f"the log entry's hash is of the unknown kind {found.algorithm[:80]!r}")
    return found.algorithm, digest


def _only(items: list[T]) -> T:
    if len(items) != 1:
        raise malformed(f"the log entry has {len(items)} signatures; exactly one is accepted")
    return items[0]


def _pem(text: str) -> bytes:
    """The DER behind the PEM of a certificate or of a public key."""
    pem = base64_bytes(text, "the logged certificate or key")
    try:
        if b"BEGIN CERTIFICATE" in pem:
            with quiet():
                return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
        return keys.der_of(keys.load_pem(pem))
    except UNREADABLE as error:
        raise malformed(f"the logged certificate or key cannot be read: {error}") from error


_Readers = dict[str, Callable[[object], Recorded]]
# those that signers write; others that would do are refused until somebody writes them
_ENVELOPE_READERS: Final[_Readers] = {
    "hashedrekord 0.0.2": _second_hashedrekord,
    "dsse 0.0.1": _dsse,
    "intoto 0.0.2": _in_toto,
}
_LAYER_READERS: Final[_Readers] = {
    "hashedrekord 0.0.1": _hashedrekord,
    "hashedrekord 0.0.2": _second_hashedrekord,
}
