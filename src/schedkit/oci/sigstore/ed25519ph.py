"""Ed25519ph (RFC 8032): Ed25519 over the hash of a message, which is all that a log sees of it.

`cryptography` verifies plain Ed25519 alone. All that is read here is public, so that no time of execution can
tell a secret; nothing here signs.
"""

from __future__ import annotations

import hashlib
from typing import Final

# the curve -x² + y² = 1 + d x² y² over the integers modulo p, and the order of its base point
_P: Final = 2**255 - 19
_L: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE: Final = pow(2, (_P - 1) // 4, _P)
_SIGN: Final = 1 << 255
_PREHASHED: Final = b"SigEd25519 no Ed25519 collisions\x01\x00"  # dom2(1, ""): prehashed, and no context

# (X, Y, Z, T) stands for x = X/Z, y = Y/Z, with T = xy Z
_Point = tuple[int, int, int, int]
_NEUTRAL: Final[_Point] = (0, 1, 1, 0)


def is_signed(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the owner of the raw key signed the hash of the message."""
    return holds(public_key, signature, hashlib.sha512(message).digest(), prefix=_PREHASHED)


def holds(public_key: bytes, signature: bytes, signed: bytes, *, prefix: bytes = b"") -> bool:
    """Whether the equation of RFC 8032, section 5.1.7, holds; without a prefix it is that of plain Ed25519.

    As in Go and OpenSSL, it has to hold as it stands, and not only when multiplied by the cofactor.
    """
    if len(public_key) != 32 or len(signature) != 64:
        return False
    commitment, response = signature[:32], int.from_bytes(signature[32:], "little")
    point = _decoded(public_key)
    if point is None or response >= _L:
        return False
    hashed = hashlib.sha512(prefix + commitment + public_key + signed).digest()
    challenge = int.from_bytes(hashed, "little") % _L
    difference = _sum(_times(response, _BASE), _times(challenge, _negative(point)))
    return _encoded(difference) == commitment


def _decoded(data: bytes) -> _Point | None:
    """The point in 32 bytes, which have to be written in the one way there is (section 5.1.3)."""
    number = int.from_bytes(data, "little")
    y, is_odd = number % _SIGN, number >= _SIGN
    x = _root_of((y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P) if y < _P else None
    if x is None or (x == 0 and is_odd):
        return None
    x = _P - x if x % 2 != is_odd else x
    return (x, y, 1, x * y % _P)


def _root_of(square: int) -> int | None:
    root = pow(square, (_P + 3) // 8, _P)
    if root * root % _P != square:
        root = root * _ROOT_OF_MINUS_ONE % _P
    return root if root * root % _P == square else None


def _encoded(point: _Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, -1, _P)
    return (y * inverse % _P + _SIGN * (x * inverse % _P % 2)).to_bytes(32, "little")


def _negative(point: _Point) -> _Point:
    x, y, z, t = point
    return (_P - x, y, z, _P - t)


def _sum(one: _Point, other: _Point) -> _Point:
    """Good for any two points, the same one included (section 5.1.4)."""
    (x1, y1, z1, t1), (x2, y2, z2, t2) = one, other
    a, b = (y1 - x1) * (y2 - x2) % _P, (y1 + x1) * (y2 + x2) % _P
    c, d = 2 * t1 * t2 * _D % _P, 2 * z1 * z2 % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _times(factor: int, point: _Point) -> _Point:
    total = _NEUTRAL
    while factor:
        if factor & 1:
            total = _sum(total, point)
        point, factor = _sum(point, point), factor >> 1
    return total


def _base() -> _Point:
    """The point with y = 4/5 and an even x."""
    point = _decoded((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    if point is None:
        raise ArithmeticError("the base point is not on the curve")
    return point


_BASE: Final = _base()
