"""Ed25519ph: the vector of RFC 8032, others' signatures, and plain Ed25519 beside the library's."""

from __future__ import annotations

import hashlib
import random

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from rig.signatures.prehashing import PrehashingKey
from schedkit.oci.sigstore import ed25519ph, keys

_P = 2**255 - 19
# RFC 8032, section 7.3: the message is "abc"
PUBLIC = bytes.fromhex("ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf")
SIGNATURE = bytes.fromhex(
    "98a70222f0b8121aa9d30f813d683f809e462b469c7ff87639499bb94e6dae41"
    "31f85042463c2a355a2003d062adf5aaa10b8c61e636062aaad11c2a26083406"
)


def test_the_vector_of_the_rfc_is_verified() -> None:
    assert ed25519ph.is_signed(PUBLIC, SIGNATURE, b"abc")
    assert not ed25519ph.is_signed(PUBLIC, SIGNATURE, b"abd")


@pytest.mark.parametrize("bit", range(0, 512, 37))
def test_no_bit_of_the_signature_may_be_another(bit: int) -> None:
    changed = bytearray(SIGNATURE)
    changed[bit // 8] ^= 1 << bit % 8

    assert not ed25519ph.is_signed(PUBLIC, bytes(changed), b"abc")


def test_of_one_key_neither_kind_of_signature_is_the_other() -> None:
    private = Ed25519PrivateKey.generate()
    key, message = private.public_key(), b"a scheduler"
    made = {False: private.sign(message), True: PrehashingKey(private).sign(message)}

    verified = {
        (signed, asked): keys.is_signed(key, signature, message, prehashed=asked)
        for signed, signature in made.items()
        for asked in (False, True)
    }

    assert verified == {pair: pair[0] == pair[1] for pair in verified}
    assert not keys.is_signed(key, private.sign(hashlib.sha512(message).digest()), message, prehashed=True)


def test_the_equation_agrees_with_the_library_about_plain_signatures_right_and_wrong() -> None:
    """The two kinds differ in what is hashed, and in nothing else."""
    chance = random.Random(8032)
    for length in range(60):
        private = Ed25519PrivateKey.from_private_bytes(chance.randbytes(32))
        message = chance.randbytes(length)
        parts = [private.public_key().public_bytes_raw(), private.sign(message), message]
        broken = bytearray(parts[length % 2])
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        for public, signature in ((parts[0], parts[1]), _with(parts, length % 2, bytes(broken))):
            assert ed25519ph.holds(public, signature, message) is _library(public, signature, message)


def _with(parts: list[bytes], at: int, value: bytes) -> tuple[bytes, bytes]:
    return (value, parts[1]) if at == 0 else (parts[0], value)


def _library(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


@pytest.mark.parametrize(
    "public",
    [
        pytest.param((1 + _P).to_bytes(32, "little"), id="a number of the point that is too large"),
        pytest.param((1 | 1 << 255).to_bytes(32, "little"), id="the negative of zero"),
        pytest.param((2).to_bytes(32, "little"), id="no point of the curve"),
        pytest.param(b"\xff" * 32, id="all ones"),
        pytest.param(PUBLIC[:-1], id="too short"),
        pytest.param(PUBLIC + b"\0", id="too long"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_what_is_no_key_verifies_nothing(public: bytes) -> None:
    """A key whose multiples are few would let nearly any signature pass, so each is written in one way."""
    neutral = (1).to_bytes(32, "little") + bytes(32)

    assert not ed25519ph.is_signed(public, neutral, b"abc")
    assert not ed25519ph.is_signed(public, SIGNATURE, b"abc")


@pytest.mark.parametrize("signature", [b"", SIGNATURE[:-1], SIGNATURE + b"\0", b"\xff" * 64, bytes(64)])
def test_what_is_no_signature_is_none(signature: bytes) -> None:
    assert not ed25519ph.is_signed(PUBLIC, signature, b"abc")


def test_a_number_that_stands_for_the_same_is_another_signature() -> None:
    order = 2**252 + 27742317777372353535851937790883648493
    larger = int.from_bytes(SIGNATURE[32:], "little") + order

    assert not ed25519ph.is_signed(PUBLIC, SIGNATURE[:32] + larger.to_bytes(32, "little"), b"abc")


SMALL_HEIGHTS = (0, 1, _P - 1, 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826)


@pytest.mark.parametrize("height", [*SMALL_HEIGHTS, _P, _P + 1], ids=hex)
def test_nobody_signs_with_a_key_for_which_everybody_could(height: int) -> None:
    """The same in another spelling included. Of so many signatures by nobody, the library takes some."""
    key = Ed25519PublicKey.from_public_bytes(height.to_bytes(32, "little"))
    chance = random.Random(1)
    neutral = (1).to_bytes(32, "little")
    taken = [
        keys.is_signed(key, neutral + bytes(32), chance.randbytes(8), prehashed=prehashed)
        for _ in range(40)
        for prehashed in (False, True)
    ]

    assert not any(taken)


def test_the_library_alone_would_let_anybody_sign_with_such_a_key() -> None:
    """The sabotage of the test above."""
    key = Ed25519PublicKey.from_public_bytes((1).to_bytes(32, "little"))

    key.verify((1).to_bytes(32, "little") + bytes(32), b"whatever")
