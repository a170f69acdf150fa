"""How requests prove who sends them: tokens that are given, read from files, or made by a program."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from schedkit.kube.errors import ConfigError

_EXEC_LIMIT_S = 60
# A token is renewed a little early: it has to last until the server has read it.
_EARLY = dt.timedelta(seconds=30)


class Credentials(Protocol):
    """Where the token of a request comes from."""

    async def token(self) -> str | None:
        """The token to send now; None sends none, and a client certificate may speak instead."""

    def refused(self) -> bool:
        """The server did not accept it; whether the next `token` may be another one."""


@dataclass(frozen=True)
class FixedToken:
    """A token that never changes, or none."""

    value: str | None = None

    async def token(self) -> str | None:
        """Always the same."""
        return self.value

    def refused(self) -> bool:
        """There is no other."""
        return False


@dataclass
class TokenFile:
    """A token in a file that somebody else replaces, as the kubelet does in a pod."""

    path: Path
    _seen: tuple[int, int] | None = None  # inode and time of the file that was read; None: read it anew
    _value: str = field(default="", repr=False)

    async def token(self) -> str | None:
        """The file's content; it is read again when the file is another one."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns)
            if seen != self._seen:
                self._value = self.path.read_text().strip()
                self._seen = seen
        except OSError as error:
            raise ConfigError(f"the token cannot be read: {error}; is it mounted there?") from error
        return self._value

    def refused(self) -> bool:
        """The file may have been replaced since."""
        self._seen = None
        return True


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    expiration_timestamp: dt.datetime | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _ExecCredential(msgspec.Struct):
    status: _ExecStatus | None = None


@dataclass
class ExecPlugin:
    """A program of the user's that prints an ExecCredential; it is asked again when that expires."""

    argv: tuple[str, ...]
    api_version: str
    env: Mapping[str, str]
    tls: ssl.SSLContext | None  # takes the certificate, if that is what the program prints
    cluster_info: Mapping[str, object] | None = None  # None: the program does not want to know
    hint: str = ""
    _status: _ExecStatus | None = field(default=None, repr=False)  # None: it has to be asked
    _running: asyncio.Task[_ExecStatus] | None = field(default=None, repr=False)

    async def token(self) -> str | None:
        """What the program said last, or says now if that has expired.

        It runs once for all who wait, and goes on when one of them gives up: a program that takes longer than
        a request has time for would otherwise never come to its end.
        """
        if self._status is not None and not self._has_expired(self._status):
            return self._status.token
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._renew())
            self._running.add_done_callback(_read_outcome)
        return (await asyncio.shield(self._running)).token

    def refused(self) -> bool:
        """The program may have another."""
        self._status = None
        return True

    @staticmethod
    def _has_expired(status: _ExecStatus) -> bool:
        ends = status.expiration_timestamp
        return ends is not None and dt.datetime.now(dt.UTC) >= ends - _EARLY

    async def _renew(self) -> _ExecStatus:
        self._status = await self._ask()
        self._present_certificate(self._status)
        return self._status

    async def _ask(self) -> _ExecStatus:
        # standard input stays closed: nobody sits in front of a controller
        try:
            program = await asyncio.create_subprocess_exec(
                *self.argv,
                env={**os.environ, **self.env, "KUBERNETES_EXEC_INFO": self._info()},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(f"it cannot be started: {error}") from error
        said, complained = await self._finish(program)
        if program.returncode != 0:
            raise self._failed(f"it ended with {program.returncode}: {complained.decode(errors='replace')}")
        return self._parse(said)

    async def _finish(self, program: asyncio.subprocess.Process) -> tuple[bytes, bytes]:
        try:
            return await asyncio.wait_for(program.communicate(), _EXEC_LIMIT_S)
        except TimeoutError as error:
            raise self._failed(f"it did not answer for {_EXEC_LIMIT_S} s") from error
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()

    def _parse(self, said: bytes) -> _ExecStatus:
        try:
            status = msgspec.json.decode(said, type=_ExecCredential).status
        except msgspec.MsgspecError as error:
            raise self._failed(f"it printed no ExecCredential: {error}") from error
        if status is None or (status.token is None and status.client_certificate_data is None):
            raise self._failed("it printed neither a token nor a certificate")
        return status

    def _info(self) -> str:
        spec: dict[str, object] = {"interactive": False}
        if self.cluster_info is not None:
            spec["cluster"] = self.cluster_info
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _present_certificate(self, status: _ExecStatus) -> None:
        if status.client_certificate_data is None or self.tls is None:
            return
        key = (status.client_key_data or "").encode()
        load_client_certificate(self.tls, status.client_certificate_data.encode(), key)

    def _failed(self, why: str) -> ConfigError:
        hint = f"; {self.hint}" if self.hint else ""
        return ConfigError(f"the credential program {self.argv[0]!r} gave no credential: {why.strip()}{hint}")


def _read_outcome(ended: asyncio.Task[_ExecStatus]) -> None:
    """Also if nobody waits any more: asyncio would complain on stderr."""
    if not ended.cancelled():
        ended.exception()


def load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show that certificate on new connections; the ssl module reads keys from files only."""
    with tempfile.NamedTemporaryFile() as pem:  # readable by its owner alone
        pem.write(certificate + b"\n" + key)
        pem.flush()
        try:
            tls.load_cert_chain(pem.name)
        except ssl.SSLError as error:
            raise ConfigError(f"the client certificate and its key do not work together: {error}") from error
