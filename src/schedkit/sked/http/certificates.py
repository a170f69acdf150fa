"""The certificate with which metrics are served: a mounted one, or one that is made at every start."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from pathlib import Path

import structlog

from schedkit.kube.errors import ConfigError

_log = structlog.get_logger()
_LOOK_S = 30.0
_MAKING_S = 300  # a second, unless the machine is emulated or very busy


async def self_signed(*names: str) -> ssl.SSLContext:
    """TLS with a certificate that nobody vouches for: it keeps tokens from being read on the way.

    It is made by a process of its own: the library for it would stay in this one's memory for good.
    """
    maker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schedkit.sked.http.selfsigned", *names, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_MAKING_S):
            pem, _ = await maker.communicate()
    except TimeoutError as error:
        maker.kill()
        late = f"no certificate for metrics was made within {_MAKING_S} s: this machine is too busy"
        raise ConfigError(f"{late}; give a certificate with --metrics-cert-path") from error
    if maker.returncode:
        failed = "no certificate for metrics could be made"
        raise ConfigError(f"{failed}; give a certificate with --metrics-cert-path")
    return _serving_from_memory(pem)


def _serving_from_memory(pem: bytes) -> ssl.SSLContext:
    """As `_serving`; ssl reads keys from files only, and a pod has no folder that it may write to."""
    with os.fdopen(os.memfd_create("certificate"), "wb") as file:
        file.write(pem)
        file.flush()
        here = Path(f"/proc/self/fd/{file.fileno()}")
        return _serving(here, here)


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
                _serving(
                    self._certificate, self._key
                )  # a pair that does not fit would take the old key along
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
