"""The signer's certificate: who issued it (step 10), that it was logged (11), whom it names (13)."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from schedkit.model.trust.policy import GITHUB_ACTIONS, SourceRepository
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.sigstore.strict import UNREADABLE
from schedkit.oci.sigstore.trusted_root import Authority, Log

E = TypeVar("E", bound=x509.ExtensionType)

# Sigstore writes the issuer of the identity twice: as bare text, and later as DER
_ISSUER_TEXT: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_DER: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
# what a workflow ran for: as DER, and in older certificates as bare text, owner/name on GitHub
_SOURCE_REPOSITORY: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.12")
_SOURCE_OWNER: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.16")
_OLD_REPOSITORY: Final = ObjectIdentifier("1.3.6.1.4.1.57264.1.5")
_GITHUB: Final = "https://github.com"
_MAX_SCTS: Final = 8
_NO_TEXT: Final = "a name in the certificate is not text"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def issuer_of(
    certificate: x509.Certificate, times: Sequence[dt.datetime], authorities: Sequence[Authority]
) -> x509.Certificate:
    """Step 10: whoever issued the certificate, trusted and valid at each of the times."""
    _check_usage(certificate)
    found = [_issuer_at(certificate, moment, authorities) for moment in times]
    return found[0]


def _check_usage(certificate: x509.Certificate) -> None:
    usage = _extension(certificate, x509.KeyUsage)
    purposes = _extension(certificate, x509.ExtendedKeyUsage)
    if usage is None or not usage.digital_signature:
        raise Refusal(Step.CERTIFICATE, "the certificate is not for signing")
    if purposes is None or ExtendedKeyUsageOID.CODE_SIGNING not in purposes:
        raise Refusal(Step.CERTIFICATE, "the certificate is not for signing code")


def _issuer_at(
    certificate: x509.Certificate, moment: dt.datetime, authorities: Sequence[Authority]
) -> x509.Certificate:
    current = [authority for authority in authorities if authority.valid.covers(moment)]
    for authority in current:
        chain = _chain(certificate, moment, authority)
        if chain is not None and all(may_issue(one, ExtendedKeyUsageOID.CODE_SIGNING) for one in chain[1:]):
            return chain[1]
    why = "the certificate was not issued by a trusted authority, or was not valid when it was used"
    raise Refusal(Step.CERTIFICATE, f"{why}, at {moment.isoformat()}")


def _chain(
    certificate: x509.Certificate, moment: dt.datetime, authority: Authority
) -> list[x509.Certificate] | None:
    """The way from the certificate to the authority's root (RFC 5280), if there is one at that moment."""
    policy = verification.ExtensionPolicy
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store([authority.certificates[-1]]))
        .time(moment)
        # a client's certificate for the library; what it and its issuers are for is checked here
        .extension_policies(
            ca_policy=_any_purpose(policy.webpki_defaults_ca()),
            ee_policy=_any_purpose(policy.webpki_defaults_ee()),
        )
        .build_client_verifier()
    )
    try:
        chain = verifier.verify(certificate, list(authority.certificates[:-1])).chain
    except (verification.VerificationError, *UNREADABLE):
        return None
    return chain if len(chain) > 1 else None


def _any_purpose(policy: verification.ExtensionPolicy) -> verification.ExtensionPolicy:
    return policy.may_be_present(x509.ExtendedKeyUsage, verification.Criticality.AGNOSTIC, None)


def may_issue(issuer: x509.Certificate, purpose: ObjectIdentifier) -> bool:
    """Whether certificates for that purpose are good from this issuer; one that names none is for all."""
    try:
        purposes = _extension(issuer, x509.ExtendedKeyUsage)
    except Refusal:  # nobody knows what it is for
        return False
    return purposes is None or not {purpose, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}.isdisjoint(purposes)


def check_issuance(certificate: x509.Certificate, issuer: x509.Certificate, logs: Sequence[Log]) -> None:
    """Step 11: a trusted log has signed that it got the certificate when it was issued (RFC 6962)."""
    scts = _extension(certificate, x509.PrecertificateSignedCertificateTimestamps, Step.ISSUANCE)
    if scts is None:
        raise Refusal(Step.ISSUANCE, "the certificate has no timestamp from a certificate log")
    entry = _precertificate(certificate, issuer)
    if not any(_is_logged(sct, entry, logs) for sct in islice(scts, _MAX_SCTS)):
        raise Refusal(Step.ISSUANCE, "no trusted certificate log has signed the certificate's timestamp")


def _precertificate(certificate: x509.Certificate, issuer: x509.Certificate) -> bytes:
    try:
        tbs = certificate.tbs_precertificate_bytes
        key = issuer.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    except UNREADABLE as error:
        raise Refusal(Step.ISSUANCE, f"the certificate cannot have been logged: {error}") from error
    return hashlib.sha256(key).digest() + len(tbs).to_bytes(3, "big") + tbs


def _is_logged(
    sct: x509.certificate_transparency.SignedCertificateTimestamp, entry: bytes, logs: Sequence[Log]
) -> bool:
    """Whether one of the logs signed this timestamp; one that cannot be read, nobody did."""
    try:
        moment = sct.timestamp.replace(tzinfo=dt.UTC)
        is_usual = isinstance(sct.signature_hash_algorithm, hashes.SHA256)
    except UNREADABLE:
        return False
    milliseconds = (moment - _EPOCH) // dt.timedelta(milliseconds=1)
    extensions = sct.extension_bytes
    signed = (
        struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + struct.pack("!H", len(extensions)) + extensions
    )
    return is_usual and any(
        log.log_id == sct.log_id and log.valid.covers(moment) and log.has_signed(sct.signature, signed)
        for log in logs
    )


class Named(msgspec.Struct, frozen=True):
    """Whom a certificate names."""

    subject: str
    issuer: str
    source: SourceRepository


def named_in(certificate: x509.Certificate) -> Named:
    """Step 13, first half: the one identity in the certificate, and who vouched for it."""
    names = _extension(certificate, x509.SubjectAlternativeName, Step.SIGNER)
    found = [str(name.value) for name in names or ()]
    kinds = (x509.UniformResourceIdentifier, x509.RFC822Name)
    if len(found) != 1 or not all(isinstance(name, kinds) for name in names or ()):
        raise Refusal(Step.SIGNER, "the certificate does not name exactly one signer, by e-mail or URL")
    issuer = _oidc_issuer(certificate)
    return Named(found[0], issuer, _source(certificate, issuer))


def _source(certificate: x509.Certificate, issuer: str) -> SourceRepository:
    """What the certificate says in one voice; what cannot be read, nobody said. Nobody is refused here."""
    try:
        repository, owner = (_der_claim(certificate, oid) for oid in (_SOURCE_REPOSITORY, _SOURCE_OWNER))
        old = _raw(certificate, _OLD_REPOSITORY)
        path = _utf8(old) if old is not None else None
    except Refusal:
        return SourceRepository()
    if repository is None and owner is None:
        return _older_source(path or "", issuer)
    in_one_voice = path is None or (_agrees(repository, path) and _agrees(owner, path.partition("/")[0]))
    return SourceRepository(repository, owner) if in_one_voice else SourceRepository()


def _older_source(path: str, issuer: str) -> SourceRepository:
    """Only GitHub's certificates had a repository when it had no address."""
    owner, slash, name = path.partition("/")
    if issuer != GITHUB_ACTIONS or not (owner and slash and name) or "/" in name:
        return SourceRepository()
    return SourceRepository(f"{_GITHUB}/{path}", f"{_GITHUB}/{owner}")


def _agrees(url: str | None, path: str) -> bool:
    """Whether the newer field, if there is one, says the same as the older."""
    return url is None or url.endswith(f"/{path}")


def _der_claim(certificate: x509.Certificate, oid: ObjectIdentifier) -> str | None:
    der = _raw(certificate, oid)
    return _utf8_string(der) if der is not None else None


def _oidc_issuer(certificate: x509.Certificate) -> str:
    der, text = (_raw(certificate, oid) for oid in (_ISSUER_DER, _ISSUER_TEXT))
    issuers = {_utf8(text)} if text is not None else set()
    issuers |= {_utf8_string(der)} if der is not None else set()
    if len(issuers) != 1:
        raise Refusal(Step.SIGNER, "the certificate does not name exactly one issuer for the signer")
    return issuers.pop()


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except ValueError as error:
        raise Refusal(Step.SIGNER, _NO_TEXT) from error


def _utf8_string(der: bytes) -> str:
    """The text in a DER UTF8String."""
    for header in (2, 3, 4):
        octets = len(der) - header
        if octets >= 0 and der[:header] == b"\x0c" + _length(octets):
            return _utf8(der[header:])
    raise Refusal(Step.SIGNER, _NO_TEXT)


def _length(octets: int) -> bytes:
    if octets < 0x80:
        return bytes([octets])
    return b"\x81" + bytes([octets]) if octets < 0x100 else b"\x82" + (octets & 0xFFFF).to_bytes(2, "big")


def _raw(certificate: x509.Certificate, oid: ObjectIdentifier) -> bytes | None:
    try:
        value = certificate.extensions.get_extension_for_oid(oid).value
    except x509.ExtensionNotFound:
        return None
    return value.value if isinstance(value, x509.UnrecognizedExtension) else None


def _extension(certificate: x509.Certificate, kind: type[E], step: Step = Step.CERTIFICATE) -> E | None:
    """An extension of that kind; None when the certificate has none."""
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None
    except UNREADABLE as error:
        raise Refusal(step, f"the certificate cannot be read: {error}") from error
