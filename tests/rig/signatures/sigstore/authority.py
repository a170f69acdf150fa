"""The certificate authority and its CT log: short-lived certificates that bind a key to an identity."""

from __future__ import annotations

import datetime as dt
import struct

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from rig.base import certificates
from rig.signatures.sigstore import encoding

ORGANIZATION = "rig.test"
_LEAF_LIFETIME = dt.timedelta(minutes=10)

# Sigstore writes the issuer of the identity twice: as bare text, and as it should have been from the start.
_ISSUER_V1 = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_EMBEDDED_SCTS = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


class CertificateLog:
    """A CT log that keeps nothing: its signed timestamps are all that verifiers look at."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())

    def timestamps(self, tbs: bytes, issuer_key: ec.EllipticCurvePrivateKey, at: dt.datetime) -> bytes:
        """The signed timestamps (RFC 6962, section 3.3) for a certificate that lacks them so far."""
        moment = int(at.timestamp() * 1000)
        entry = encoding.key_id(issuer_key) + len(tbs).to_bytes(3, "big") + tbs
        signed = struct.pack("!BBQH", 0, 0, moment, 1) + entry + struct.pack("!H", 0)
        signature = encoding.sign(self.key, signed)
        algorithm = struct.pack("!BBH", 4, 3, len(signature))  # SHA-256, ECDSA
        one = struct.pack("!B32sQH", 0, encoding.key_id(self.key), moment, 0) + algorithm + signature
        return struct.pack("!HH", len(one) + 2, len(one)) + one


class CertificateAuthority:
    """A root, an intermediate for one `purpose`, and leaves that live for ten minutes."""

    def __init__(
        self, ct_log: CertificateLog, *, purpose: ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING
    ) -> None:
        self._ct_log = ct_log
        self._root_key = ec.generate_private_key(ec.SECP384R1())
        self.key = ec.generate_private_key(ec.SECP384R1())
        self.root = _ca_certificate("root", self._root_key, None, purpose)
        self.intermediate = _ca_certificate("intermediate", self.key, (self.root, self._root_key), purpose)

    @property
    def chain(self) -> tuple[x509.Certificate, x509.Certificate]:
        """What a leaf needs to be believed, nearest first."""
        return (self.intermediate, self.root)

    def issue(
        self,
        key: ec.EllipticCurvePublicKey,
        identity: str,
        issuer: str,
        at: dt.datetime,
        *,
        logged: bool = True,
    ) -> x509.Certificate:
        """A certificate for the key; one that is not `logged` lacks the CT log's timestamp."""
        builder = _leaf(key, self.intermediate, identity, issuer, at)
        certificate = builder.sign(self.key, hashes.SHA384())
        if not logged:
            return certificate
        scts = self._ct_log.timestamps(certificate.tbs_certificate_bytes, self.key, at)
        extension = x509.UnrecognizedExtension(_EMBEDDED_SCTS, encoding.der_octet_string(scts))
        return builder.add_extension(extension, critical=False).sign(self.key, hashes.SHA384())


def _leaf(
    key: ec.EllipticCurvePublicKey, issuer: x509.Certificate, identity: str, oidc_issuer: str, at: dt.datetime
) -> x509.CertificateBuilder:
    start = at.replace(microsecond=0)
    builder = x509.CertificateBuilder(
        subject_name=x509.Name([]),
        issuer_name=issuer.subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=start,
        not_valid_after=start + _LEAF_LIFETIME,
    )
    parent = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (certificates.key_usage(authority=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(parent), False),
        (x509.SubjectAlternativeName([_name(identity)]), True),
        (x509.UnrecognizedExtension(_ISSUER_V1, oidc_issuer.encode()), False),
        (x509.UnrecognizedExtension(_ISSUER_V2, encoding.der_utf8_string(oidc_issuer)), False),
    ]
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder


def _name(identity: str) -> x509.GeneralName:
    is_email = "@" in identity and "://" not in identity
    return x509.RFC822Name(identity) if is_email else x509.UniformResourceIdentifier(identity)


def _ca_certificate(
    role: str,
    key: ec.EllipticCurvePrivateKey,
    parent: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
    purpose: ObjectIdentifier,
) -> x509.Certificate:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, f"rig sigstore {role}"),
        ]
    )
    issuer, issuer_key = (parent[0].subject, parent[1]) if parent else (subject, key)
    builder = certificates.begin(subject, issuer, key)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=True, path_length=0 if parent else 1), critical=True
    )
    builder = builder.add_extension(certificates.key_usage(authority=True), critical=True)
    if parent is not None:
        # a code-signing intermediate under a root for anything, as in the real one
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    return builder.sign(issuer_key, hashes.SHA384())
