"""What was signed: a statement that this image is meant (steps 5 and 6), in either of its two forms."""

from __future__ import annotations

import datetime as dt
from typing import Final

import msgspec
from cryptography import x509

from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.sigstore.strict import json_document

IN_TOTO: Final = "application/vnd.in-toto+json"
SIGNATURE_PREDICATE: Final = "https://sigstore.dev/cosign/sign/v1"
_STATEMENTS: Final = ("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")
_SIMPLE_KINDS: Final = ("cosign container image signature", SIGNATURE_PREDICATE)  # cosign 2, and 3
_MAX_SUBJECTS: Final = 64


class _Subject(msgspec.Struct, frozen=True):
    digest: dict[str, str]


class _Statement(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = msgspec.field(name="_type")
    predicate_type: str
    subject: list[_Subject]


class _Image(msgspec.Struct, frozen=True):
    digest: str = msgspec.field(name="docker-manifest-digest")


class _Critical(msgspec.Struct, frozen=True):
    image: _Image
    kind: str = msgspec.field(name="type")


class _Simple(msgspec.Struct, frozen=True):
    critical: _Critical


def check_statement(signed: SignedStatement, digest: str, predicates: tuple[str, ...]) -> None:
    """Steps 5 and 6: it is a signature of an image, and of this image."""
    if not signed.enveloped:
        _check_simple(signed, digest)
    elif signed.payload_type == IN_TOTO:
        _check_in_toto(signed, digest, predicates)
    else:
        raise Refusal(
            Step.STATEMENT,
            f"the signed text is of type {signed.payload_type[:80]!r}; it must be {IN_TOTO}",
        )


def _check_simple(signed: SignedStatement, digest: str) -> None:
    critical = json_document(signed.payload, _Simple, "the signed statement").critical
    if critical.kind not in _SIMPLE_KINDS:  # step 5
        raise Refusal(Step.STATEMENT, f"the signed text calls itself {critical.kind[:80]!r}, not a signature")
    if critical.image.digest != digest:  # step 6
        raise Refusal(Step.SUBJECT, f"the signature is for {critical.image.digest[:80]}, not for {digest}")


def _check_in_toto(signed: SignedStatement, digest: str, predicates: tuple[str, ...]) -> None:
    statement = json_document(signed.payload, _Statement, "the signed statement")
    if statement.kind not in _STATEMENTS:  # step 5
        raise Refusal(
            Step.STATEMENT, f"the signed text calls itself {statement.kind[:80]!r}, not a statement"
        )
    if statement.predicate_type not in predicates:
        why = f"the signed text is a {statement.predicate_type[:80]!r}"
        raise Refusal(Step.STATEMENT, f"{why}: a statement about the image, but not a signature of it")
    if not 0 < len(statement.subject) <= _MAX_SUBJECTS:  # step 6
        raise Refusal(
            Step.SUBJECT,
            f"the statement has {len(statement.subject)} subjects; 1 to {_MAX_SUBJECTS} are read",
        )
    algorithm, _, value = digest.partition(":")
    if not any(subject.digest.get(algorithm) == value for subject in statement.subject):
        raise Refusal(Step.SUBJECT, f"the signature is for another image, not for {digest}")


class InclusionProof(msgspec.Struct, frozen=True):
    """The way from an entry to the root that the log has signed."""

    index: int
    size: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: str


class LogEntry(msgspec.Struct, frozen=True):
    """A line of a transparency log, with the log's promise or proof that it is there."""

    log_id: bytes
    index: int
    body: bytes
    kind: str | None
    """What the entry says it is, kind and version; None when only its body does."""
    integrated: dt.datetime | None
    """When the log says it took the entry: worth something with the promise only."""
    promise: bytes | None
    proof: InclusionProof | None


class SignedStatement(msgspec.Struct, frozen=True):
    """What was signed, by whom, and the evidence about it."""

    found: str
    """Where it was found, for people."""
    enveloped: bool
    """Whether the payload came in an envelope, which says what it is; cosign 2's layers have none."""
    payload_type: str
    payload: bytes
    message: bytes
    """The bytes under the signature: the payload, or the envelope's encoding of it."""
    signature: bytes
    certificate: x509.Certificate | None
    """None: signed with a key that has to be known."""
    entries: tuple[LogEntry, ...]
    timestamps: tuple[bytes, ...]
    needs_proof: bool
    """Whether a promise alone does not do."""
