"""Public keys and the signatures they verify: ECDSA on NIST curves, RSA, Ed25519, plain and over a hash."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey

# cosign 2 hashes with SHA-256 whatever the curve, cosign 3 with the curve's own
_HASHES: Final[dict[str, tuple[hashes.HashAlgorithm, ...]]] = {
    "secp256r1": (hashes.SHA256(),),
    "secp384r1": (hashes.SHA384(), hashes.SHA256()),
    "secp521r1": (hashes.SHA512(), hashes.SHA256()),
}
_RSA_BITS: Final = range(2048, 8193)
# anybody can sign for a key that is one of the few points of small order, such as one of nothing but zeros
_FIELD: Final = 2**255 - 19
_ORDER_8: Final = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER: Final = frozenset({0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8})  # by their height


class UnusableKey(ValueError):  # noqa: N818 - named after what is wrong
    """A public key of a kind that is not accepted, or no public key at all."""


def load_pem(pem: bytes) -> PublicKey:
    """The public key in a PEM file."""
    try:
        return _accepted(serialization.load_pem_public_key(pem))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableKey(f"it is not a public key in PEM: {error}") from error


def load_der(der: bytes) -> PublicKey:
    """The public key in a SubjectPublicKeyInfo."""
    try:
        return _accepted(serialization.load_der_public_key(der))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableKey(f"it is not a public key in DER: {error}") from error


def _accepted(key: object) -> PublicKey:
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _HASHES:
        return key
    if isinstance(key, rsa.RSAPublicKey) and key.key_size in _RSA_BITS:
        return key
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    accepted = "ECDSA on P-256, P-384 and P-521, RSA from 2048 to 8192 bits, and Ed25519"
    raise UnusableKey(f"this kind of key is not accepted; the accepted kinds are {accepted}")


def der_of(key: PublicKey) -> bytes:
    """The key as a SubjectPublicKeyInfo, by which keys are compared."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def is_signed(key: object, signature: bytes, message: bytes, *, prehashed: bool = False) -> bool:
    """Whether the owner of the key signed the message; `prehashed`: with Ed25519ph, if the key is an Ed25519.

    No signature is good both ways: what is hashed for one begins with words that no other has, and keys for
    which anybody could sign count for nobody.
    """
    try:
        return _verifies(_accepted(key), signature, message, prehashed=prehashed)
    except UnusableKey:
        return False


def _verifies(key: PublicKey, signature: bytes, message: bytes, *, prehashed: bool) -> bool:
    match key:
        case ec.EllipticCurvePublicKey():
            return any(_ecdsa(key, signature, message, one) for one in _HASHES[key.curve.name])
        case rsa.RSAPublicKey():
            return _rsa(key, signature, message)
        case _:
            check = _ed25519ph if prehashed else _ed25519
            return not _is_of_small_order(key) and check(key, signature, message)


def _is_of_small_order(key: ed25519.Ed25519PublicKey) -> bool:
    """Such a key may stand in a policy as a placeholder: it is read, and nothing is signed by it."""
    height = int.from_bytes(key.public_bytes_raw(), "little") % 2**255  # the last bit is the side
    return height % _FIELD in _SMALL_ORDER


def _ecdsa(
    key: ec.EllipticCurvePublicKey, signature: bytes, message: bytes, algorithm: hashes.HashAlgorithm
) -> bool:
    try:
        key.verify(signature, message, ec.ECDSA(algorithm))
    except InvalidSignature:
        return False
    return True


def _rsa(key: rsa.RSAPublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _ed25519ph(key: ed25519.Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    from schedkit.oci.sigstore import ed25519ph  # noqa: PLC0415 - most signatures do without

    return ed25519ph.is_signed(key.public_bytes_raw(), signature, message)


def _ed25519(key: ed25519.Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
