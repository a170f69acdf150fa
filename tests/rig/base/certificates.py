"""A small certificate authority for the rigs: registries, the control plane and its nodes.

Each certificate is good for both ends of a connection. Nothing is ever revoked or renewed: an authority
lives in a run folder and ends with it.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# The guest of a VM starts with whatever its clock says; a day of tolerance is harmless here.
_CLOCK_TOLERANCE = dt.timedelta(days=1)
_LIFETIME = dt.timedelta(days=365)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """A root of trust in a folder: made on first use, read back when the folder already has one."""

    def __init__(self, folder: Path, *, common_name: str = "rig") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_file = folder / "ca.crt"
        self.ca_key_file = folder / "ca.key"
        if not self.ca_file.exists():
            self._create(common_name)
        self._certificate = x509.load_pem_x509_certificate(self.ca_file.read_bytes())
        key = serialization.load_pem_private_key(self.ca_key_file.read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def issue(
        self, name: str, *, common_name: str, organization: str | None = None, sans: Sequence[str] = ()
    ) -> KeyPair:
        """A new key with a certificate for it, in `name.crt` and `name.key` of the folder."""
        pair = KeyPair(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        key = ec.generate_private_key(ec.SECP256R1())
        builder = begin(_subject(common_name, organization), self._certificate.subject, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(key_usage(authority=False), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_id, critical=False)
        if sans:
            names = x509.SubjectAlternativeName([_general_name(san) for san in sans])
            builder = builder.add_extension(names, critical=False)
        _write_certificate(pair.cert, builder.sign(self._key, hashes.SHA256()))
        write_private_key(pair.key, key)
        return pair

    def _create(self, common_name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(common_name, None)
        builder = begin(subject, subject, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(key_usage(authority=True), critical=True)
        write_private_key(self.ca_key_file, key)
        _write_certificate(self.ca_file, builder.sign(key, hashes.SHA256()))


def write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write the key as PKCS 8 PEM that only its owner can read, from the first byte on."""
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(pem)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    """A certificate for the key that lasts longer than any run; its purpose is still to be added."""
    now = dt.datetime.now(dt.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_TOLERANCE,
        not_valid_after=now + _LIFETIME,
    ).add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _subject(common_name: str, organization: str | None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def key_usage(*, authority: bool) -> x509.KeyUsage:
    """What the key may sign: certificates, or anything else."""
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
