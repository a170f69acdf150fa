"""Signs with Ed25519ph (RFC 8032), whose points are computed by `cryptography` and by nothing of ours.

The nonce is the secret number of a throw-away key: the point that belongs to it is that key's public half.
"""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_ORDER = 2**252 + 27742317777372353535851937790883648493
_PREHASHED = b"SigEd25519 no Ed25519 collisions\x01\x00"


class PrehashingKey:
    """An Ed25519 key that signs the hash of a message."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self.key = key

    def sign(self, message: bytes) -> bytes:
        """The signature with a nonce that is used once."""
        nonce = Ed25519PrivateKey.generate()
        commitment, public = (one.public_key().public_bytes_raw() for one in (nonce, self.key))
        hashed = hashlib.sha512(_PREHASHED + commitment + public + hashlib.sha512(message).digest()).digest()
        response = (_number(nonce) + int.from_bytes(hashed, "little") * _number(self.key)) % _ORDER
        return commitment + response.to_bytes(32, "little")


def _number(key: Ed25519PrivateKey) -> int:
    """The secret number of a key (section 5.1.5)."""
    half = int.from_bytes(hashlib.sha512(key.private_bytes_raw()).digest()[:32], "little")
    return (half & ~7 & ((1 << 255) - 1)) | (1 << 254)
