"""All parts of the stand-in put together, with the files that tools read."""

from __future__ import annotations

import datetime as dt
import json
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from rig.base.errors import RigError
from rig.signatures.sigstore import documents, encoding
from rig.signatures.sigstore.authority import CertificateAuthority, CertificateLog
from rig.signatures.sigstore.identity import IdentityProvider
from rig.signatures.sigstore.services import Services, server
from rig.signatures.sigstore.transparency import TransparencyLog


class Trust:
    """What a verifier believes, as the files that tools read."""

    def __init__(
        self, folder: Path, authority: CertificateAuthority, ct_log: CertificateLog, log: TransparencyLog
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.trusted_root = folder / "trusted_root.json"
        self.chain_file = folder / "chain.pem"
        self.log_key_file = folder / "rekor.pub"
        self.ct_key_file = folder / "ctfe.pub"
        root = documents.trusted_root(authority, ct_log.key, log.key, _yesterday())
        self.trusted_root.write_text(json.dumps(root, indent=2))
        self.chain_file.write_text("".join(map(encoding.certificate_pem, authority.chain)))
        self.log_key_file.write_bytes(encoding.public_pem(log.key))
        self.ct_key_file.write_bytes(encoding.public_pem(ct_log.key))


class Sigstore:
    """A whole Sigstore of one's own; another instance is another, unrelated one."""

    def __init__(self, folder: Path) -> None:
        self.ct_log = CertificateLog()
        self.authority = CertificateAuthority(self.ct_log)
        self.provider = IdentityProvider()
        self.log = TransparencyLog()
        self.trust = Trust(folder, self.authority, self.ct_log, self.log)
        self.signing_config = folder / "signing_config.json"
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Certificate authority, identity provider and log, all at one address."""
        if self._server is None:
            raise RigError("this Sigstore has no address yet: start it first")
        return f"http://127.0.0.1:{self._server.server_port}"

    def identity_token(self, identity: str, issuer: str) -> str:
        """What a signer shows to get a certificate for `identity`, an e-mail address or a URL."""
        return self.provider.token(identity, issuer, dt.datetime.now(dt.UTC))

    def start(self) -> None:
        """Serve at a free port, and tell signers where in `signing_config`."""
        self._server = server(Services(self.authority, self.provider, self.log))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.signing_config.write_text(json.dumps(documents.signing_config(self.url, _yesterday()), indent=2))

    def stop(self) -> None:
        """Close the services; the files stay good for verifying."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _yesterday() -> dt.datetime:
    """Keys are valid since then, so that a clock that is a little behind does not matter."""
    return dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
