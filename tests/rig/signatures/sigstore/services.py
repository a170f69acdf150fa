"""The stand-in over HTTP, as far as `cosign sign` asks: certificates, log entries, the log's key."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from rig.signatures.sigstore import encoding, transparency
from rig.signatures.sigstore.authority import CertificateAuthority
from rig.signatures.sigstore.identity import IdentityProvider


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Services:
    """What the HTTP requests act upon."""

    authority: CertificateAuthority
    provider: IdentityProvider
    log: transparency.TransparencyLog

    def get(self, path: str) -> Reply:
        if path == "/api/v1/log/publicKey":
            return Reply(200, encoding.public_pem(self.log.key), "application/x-pem-file")
        entry = self.log.find(path.rpartition("/")[2])
        if path.startswith("/api/v1/log/entries/") and entry is not None:
            return Reply(200, json.dumps({entry.uuid: entry.answer()}).encode())
        return _refusal(404, f"nothing at {path}")

    def post(self, path: str, authorization: str, request: dict[str, Any]) -> Reply:
        now = dt.datetime.now(dt.UTC)
        match path:
            case "/api/v1/signingCert":
                chain = self._certify(request, _token(request, authorization), now)
                return Reply(201, "".join(chain).encode(), "application/pem-certificate-chain")
            case "/api/v2/signingCert":
                chain = self._certify(request, _token(request, authorization), now)
                answer = {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}
                return Reply(200, json.dumps(answer).encode())
            case "/api/v1/log/entries":
                entry = self.log.append(transparency.body_of(request), now)
                body = json.dumps({entry.uuid: entry.answer()}).encode()
                # clients find the new entry in the answer by its ETag
                return Reply(201, body, headers={"Location": f"{path}/{entry.uuid}", "ETag": entry.uuid})
        return _refusal(404, f"nothing at {path}")

    def _certify(self, request: dict[str, Any], token: str, now: dt.datetime) -> list[str]:
        """The new certificate and its chain, as PEM."""
        identity, issuer = self.provider.read(token, now)
        leaf = self.authority.issue(_possessed_key(request, identity), identity, issuer, now)
        return [encoding.certificate_pem(certificate) for certificate in (leaf, *self.authority.chain)]


def _token(request: dict[str, Any], authorization: str) -> str:
    """Clients show their token in the body or in the header, whatever the version of the API."""
    credentials = request.get("credentials") or {}
    return str(credentials.get("oidcIdentityToken") or authorization.removeprefix("Bearer "))


def _possessed_key(request: dict[str, Any], identity: str) -> ec.EllipticCurvePublicKey:
    """The public key in a request, once its owner has shown to hold the private one."""
    if csr := request.get("certificateSigningRequest"):  # clients send null for what they do not use
        return _key_of_csr(base64.b64decode(csr))
    if wrapped := request.get("publicKeyRequest"):
        pem, proof = wrapped["publicKey"]["content"].encode(), wrapped["proofOfPossession"]
    else:
        pem, proof = base64.b64decode(request["publicKey"]["content"]), request["signedEmailAddress"]
    key = serialization.load_pem_public_key(pem)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise TypeError("only ECDSA keys get certificates here")
    key.verify(base64.b64decode(proof), identity.encode(), ec.ECDSA(hashes.SHA256()))
    return key


def _key_of_csr(pem: bytes) -> ec.EllipticCurvePublicKey:
    request = x509.load_pem_x509_csr(pem)
    key = request.public_key()
    if not request.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("the certificate signing request is not signed by the ECDSA key it names")
    return key


def _refusal(status: int, message: str) -> Reply:
    return Reply(status, json.dumps({"code": status, "message": message}).encode())


def server(services: Services) -> ThreadingHTTPServer:
    """An HTTP server on a free loopback port; it serves once its loop runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(services.get(self.path))

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            try:
                request = json.loads(self.rfile.read(length))
                reply = services.post(self.path, self.headers.get("Authorization", ""), request)
            except (ValueError, KeyError, TypeError, InvalidSignature) as error:
                reply = _refusal(400, f"{type(error).__name__}: {error}")
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
            """Quiet: cosign reports what went wrong."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
