"""Identity tokens: the OpenID provider whose word the certificate authority takes."""

from __future__ import annotations

import base64
import datetime as dt
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

_LIFETIME_S = 3600


class IdentityProvider:
    """Signs tokens, and recognises the ones it signed."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    def token(self, identity: str, issuer: str, at: dt.datetime) -> str:
        """A token for one hour that says who its bearer is."""
        issued = int(at.timestamp())
        claims: dict[str, Any] = {"iss": issuer, "sub": identity, "aud": "sigstore"}
        claims |= {"iat": issued, "exp": issued + _LIFETIME_S}
        if "://" not in identity:
            claims |= {"email": identity, "email_verified": True}
        signed = f"{_encode({'alg': 'ES256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{signed}.{_text(self._sign(signed.encode()))}"

    def read(self, token: str, at: dt.datetime) -> tuple[str, str]:
        """(identity, issuer) of a token; `ValueError` if we did not sign it or it has expired."""
        signed, _, signature = token.rpartition(".")
        raw = _bytes(signature)
        numbers = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        try:
            self._key.public_key().verify(numbers, signed.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as error:
            raise ValueError("the identity token was not signed by this provider") from error
        claims = json.loads(_bytes(signed.split(".")[1]))
        if claims["exp"] < at.timestamp():
            raise ValueError("the identity token has expired")
        return claims.get("email") or claims["sub"], claims["iss"]

    def _sign(self, message: bytes) -> bytes:
        """JSON web signatures are two bare numbers, not DER."""
        r, s = utils.decode_dss_signature(self._key.sign(message, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _encode(value: dict[str, Any]) -> str:
    return _text(json.dumps(value).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
