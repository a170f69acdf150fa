"""The certificate with which metrics are served: a mounted one, or one that is made at every start."""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
from pathlib import Path

import structlog

from schedkit.kube.errors import ConfigError

_log = structlog.get_logger()
_LOOK_S = 30.0
_MAKING_S = 60


async def self_signed() -> ssl.SSLContext:
    """TLS with a certificate that nobody vouches for: it keeps tokens from being read on the way.

    It is made by a process of its own: the library for it would stay in this one's memory for good.
    """
    maker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schedkit.sked.selfsigned", stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_MAKING_S):
        pem, _ = await maker.communicate()
    if maker.returncode:
        raise ConfigError("a certificate for metrics could not be made: give one with --metrics-cert-path")
    with tempfile.NamedTemporaryFile() as file:  # readable by its owner alone; ssl reads keys from files only
        file.write(pem)
        file.flush()
        return _serving(Path(file.name), Path(file.name))


class Mounted:
    """A certificate in a folder, in which somebody replaces it before it expires."""

    def __init__(self, folder: Path) -> None:
        self._certificate, self._key = folder / "tls.crt", folder / "tls.key"
        self._seen = self._times()
        self.tls = _serving(self._certificate, self._key)

    async def run(self) -> None:
        """Show a new certificate on new connections, soon after it is there; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Take the files as they are now; the old ones stay good while new ones do not fit together."""
        try:
            seen = self._times()
            if seen != self._seen:
                self.tls.load_cert_chain(self._certificate, self._key)
                self._seen = seen
                _log.info("certificate_replaced", file=str(self._certificate))
        except (OSError, ssl.SSLError, ConfigError) as error:
            _log.warning("certificate_not_replaced", file=str(self._certificate), reason=str(error))

    def _times(self) -> tuple[int, int]:
        try:
            return self._certificate.stat().st_mtime_ns, self._key.stat().st_mtime_ns
        except OSError as error:
            raise ConfigError(f"--metrics-cert-path needs tls.crt and tls.key: {error}") from error


def _serving(certificate: Path, key: Path) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.set_alpn_protocols(["http/1.1"])
    try:
        tls.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(f"{certificate} and {key} do not work together: {error}") from error
    return tls
