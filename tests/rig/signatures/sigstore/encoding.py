"""How Sigstore writes bytes down: base64, canonical JSON, DER."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def canonical_json(value: Any) -> bytes:
    """RFC 8785 for the values that occur here: objects, lists, integers and ASCII strings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def public_der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.DER, _SPKI)


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, _SPKI)


def certificate_pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A log's identity: the hash of its public key."""
    return hashlib.sha256(public_der(key)).digest()


def sign(key: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    return key.sign(message, ec.ECDSA(hashes.SHA256()))


def der_utf8_string(text: str) -> bytes:
    return _der(0x0C, text.encode())


def der_octet_string(content: bytes) -> bytes:
    return _der(0x04, content)


def _der(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + content
