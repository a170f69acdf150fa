"""A token server for registries that demand tokens: signs what anyone with the right password asks for."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from rig.base.certificates import Authority
from rig.registries.hostile import Request, Server, answer

ISSUER, SERVICE = "rig-tokens", "rig-registry"
USER, PASSWORD = "ada", "open sesame"
# of the password above; docker-registry reads no other kind of hash
HTPASSWD = f"{USER}:$2b$04$zKMrMKdGhiB.aYVIkCna7u6I4qdzgqaprgkUwQbRCBQzaAG4hiEEy\n"


class TokenServer:
    """Runs until it is left; `demand` is what a registry's settings need to send its clients here."""

    def __init__(self, authority: Authority) -> None:
        self._pair = authority.issue("tokens", common_name=ISSUER, sans=["127.0.0.1"])
        self._authority = authority
        self.server = Server({"/token": self._give}, self._pair)

    @property
    def demand(self) -> dict[str, object]:
        realm = f"{self.server.url}/token"
        bundle = str(self._authority.ca_file)
        return {"token": {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": bundle}}

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def _give(self, request: Request) -> list[bytes]:
        if request.headers.get("authorization") != _basic(USER, PASSWORD):
            return [answer(401)]
        scopes = parse_qs(urlsplit(request.target).query).get("scope", [])
        return [answer(200, json.dumps({"token": self._token(scopes)}).encode())]

    def _token(self, scopes: list[str]) -> str:
        now = int(time.time())
        grants = [scope.split(":") for scope in scopes]
        access = [{"type": kind, "name": name, "actions": acts.split(",")} for kind, name, acts in grants]
        claims: dict[str, object] = {"iss": ISSUER, "sub": USER, "aud": SERVICE, "jti": "1", "access": access}
        claims |= {"nbf": now - 60, "iat": now, "exp": now + 600}
        leaf = x509.load_pem_x509_certificate(self._pair.cert.read_bytes())
        chain = [base64.b64encode(leaf.public_bytes(serialization.Encoding.DER)).decode()]
        signed = f"{_encoded({'typ': 'JWT', 'alg': 'ES256', 'x5c': chain})}.{_encoded(claims)}"
        return f"{signed}.{_urlsafe(_signature(self._pair.key, signed.encode()))}"


def htpasswd_demand(folder: Path) -> dict[str, object]:
    """What a registry's settings need to demand the password with every request."""
    file = folder / "htpasswd"
    file.write_text(HTPASSWD)
    return {"htpasswd": {"realm": "rig", "path": str(file)}}


def _signature(key_file: Path, signed: bytes) -> bytes:
    key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _encoded(value: object) -> str:
    return _urlsafe(json.dumps(value).encode())


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _basic(username: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"
