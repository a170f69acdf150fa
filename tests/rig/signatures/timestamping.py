"""A timestamp authority (RFC 3161) in process: it signs that it saw a message at any time one likes."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from rig.base import certificates

_DER = serialization.Encoding.DER
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_TIME = "1.2.840.113549.1.9.5"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
_SHA256 = "2.16.840.1.101.3.4.2.1"
_ECDSA_SHA256 = "1.2.840.10045.4.3.2"
_POLICY = "1.2.3.4.1"
_Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


class TimestampAuthority:
    """A root and a leaf that may sign timestamps; `issues` spoils the root, the first two the leaf.

    With `between` an issuer for that stands between the two and comes with each timestamp; the root is
    listed alone.
    """

    def __init__(
        self,
        *,
        purpose: ObjectIdentifier = ExtendedKeyUsageOID.TIME_STAMPING,
        critical: bool = True,
        issues: ObjectIdentifier | None = None,
        between: ObjectIdentifier | None = None,
    ) -> None:
        self._root_key = ec.generate_private_key(ec.SECP256R1())
        self._key = ec.generate_private_key(ec.SECP256R1())
        purposes = x509.ExtendedKeyUsage([issues]) if issues else None
        self.root = _certificate("root", self._root_key, None, purposes, critical=False)
        parent = (self.root, self._root_key)
        self._between = _between(parent, between) if between else None
        self.leaf = _certificate(
            "signer",
            self._key,
            self._between or parent,
            x509.ExtendedKeyUsage([purpose]),
            critical=critical,
        )

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.root,) if self._between else (self.leaf, self.root)

    def _brought(self, beside: Sequence[x509.Certificate]) -> bytes:
        brought = [self.leaf, *([self._between[0]] if self._between else []), *beside]
        return b"".join(sorted(one.public_bytes(_DER) for one in brought))

    def stamp(
        self,
        message: bytes,
        at: dt.datetime,
        *,
        status: int = 0,
        beside: Sequence[x509.Certificate] = (),
    ) -> bytes:
        """A whole response: this message existed at that time; `beside` are certificates it needs not."""
        info = _sequence(
            _integer(1),
            _oid(_POLICY),
            _sequence(_algorithm(_SHA256), _octets(hashlib.sha256(message).digest())),
            _integer(int(at.timestamp())),
            _time(at),
            _sequence(_integer(1)),  # accurate to a second
        )
        signed = _sequence(
            _integer(3),
            _set(_algorithm(_SHA256)),
            _sequence(_oid(_TST_INFO), _tagged(0, _octets(info))),
            _tagged(0, self._brought(beside)),
            _set(self._signer_info(info, at)),
        )
        token = _sequence(_oid(_SIGNED_DATA), _tagged(0, signed))
        return _sequence(_sequence(_integer(status)), token)

    def _signer_info(self, info: bytes, at: dt.datetime) -> bytes:
        hashed = _octets(hashlib.sha256(self.leaf.public_bytes(_DER)).digest())
        attributes = sorted(
            (
                _attribute(_CONTENT_TYPE, _oid(_TST_INFO)),
                _attribute(_SIGNING_TIME, _tlv(0x17, at.strftime("%y%m%d%H%M%SZ").encode())),
                _attribute(_MESSAGE_DIGEST, _octets(hashlib.sha256(info).digest())),
                _attribute(_SIGNING_CERTIFICATE, _sequence(_sequence(_sequence(hashed)))),
            )
        )
        content = b"".join(attributes)
        signature = self._key.sign(_tlv(0x31, content), ec.ECDSA(hashes.SHA256()))
        return _sequence(
            _integer(1),
            _sequence(self.leaf.issuer.public_bytes(), _integer(self.leaf.serial_number)),
            _algorithm(_SHA256),
            _tlv(0xA0, content),
            _sequence(_oid(_ECDSA_SHA256)),
            _octets(signature),
        )


def puzzling() -> x509.Certificate:
    """Nobody can read what it is for."""
    unreadable = x509.UnrecognizedExtension(x509.ExtendedKeyUsage.oid, b"?")
    return _certificate("riddle", ec.generate_private_key(ec.SECP256R1()), None, unreadable)


def _between(parent: _Issuer, purpose: ObjectIdentifier) -> _Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    purposes = x509.ExtendedKeyUsage([purpose])
    return _certificate("issuer", key, parent, purposes, critical=False, issues=True), key


def _certificate(
    role: str,
    key: ec.EllipticCurvePrivateKey,
    parent: _Issuer | None,
    purpose: x509.ExtensionType | None,
    *,
    critical: bool = True,
    issues: bool = False,
) -> x509.Certificate:
    """Without a parent it is a root, which issues as well."""
    issues = issues or parent is None
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"rig timestamp {role}")])
    issuer, issuer_key = (parent[0].subject, parent[1]) if parent else (name, key)
    builder = certificates.begin(name, issuer, key)
    builder = builder.add_extension(x509.BasicConstraints(ca=issues, path_length=None), critical=True)
    builder = builder.add_extension(certificates.key_usage(authority=issues), critical=True)
    if purpose is not None:
        builder = builder.add_extension(purpose, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _tlv(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def _sequence(*parts: bytes) -> bytes:
    return _tlv(0x30, b"".join(parts))


def _set(*parts: bytes) -> bytes:
    return _tlv(0x31, b"".join(sorted(parts)))


def _tagged(number: int, content: bytes) -> bytes:
    return _tlv(0xA0 | number, content)


def _octets(content: bytes) -> bytes:
    return _tlv(0x04, content)


def _integer(value: int) -> bytes:
    return _tlv(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _algorithm(oid: str) -> bytes:
    return _sequence(_oid(oid), b"\x05\x00")


def _attribute(oid: str, value: bytes) -> bytes:
    return _sequence(_oid(oid), _set(value))


def _time(at: dt.datetime) -> bytes:
    return _tlv(0x18, at.strftime("%Y%m%d%H%M%SZ").encode())


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    return _tlv(0x06, b"".join(_base128(number) for number in (first * 40 + second, *rest)))


def _base128(number: int) -> bytes:
    octets = [number & 0x7F]
    while number := number >> 7:
        octets.append(0x80 | number & 0x7F)
    return bytes(reversed(octets))
