"""Prints a new key with a certificate for it that it signed itself; run as a program, so that it ends."""

from __future__ import annotations

import datetime as dt
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NAMES = ("sked-controller-manager-metrics-service.sked-system.svc", "localhost")
_LASTS = dt.timedelta(days=3650)  # as long as any pod; it is another one after a restart


def make(now: dt.datetime, *names: str) -> bytes:
    """Key and certificate, one after the other; without names, for the manager."""
    key = ec.generate_private_key(ec.SECP256R1())
    common = names[0] if names else "sked-controller-manager"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LASTS)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in names or _NAMES]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


if __name__ == "__main__":
    sys.stdout.buffer.write(make(dt.datetime.now(dt.UTC), *sys.argv[1:]))
