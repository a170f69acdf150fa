"""Whose word counts: certificate authorities, logs and timestamp authorities, each for its time.

Read from the TrustedRoot document that Sigstore's tools share.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, TypeVar

import msgspec
from cryptography import x509

from schedkit.model.images import strictjson
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.sigstore import keys
from schedkit.oci.sigstore.keys import PublicKey, is_signed
from schedkit.oci.sigstore.strict import UNREADABLE, quiet

MEDIA_TYPES: Final = (
    "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
    "application/vnd.dev.sigstore.trustedroot.v0.2+json",
)
P = TypeVar("P")
T = TypeVar("T")

_MAX_DOCUMENT: Final = 1 << 20
_PREHASHED: Final = ("PKIX_ED25519_PH", 8)
_REMEDY: Final = "compare it with what `cosign trusted-root create` writes"
_HOST: Final = re.compile(r"[a-z]+://([^/:]+)")


class InvalidRoot(ValueError):  # noqa: N818 - named after what is wrong
    """A trusted root that cannot be used, and why."""


class Period(msgspec.Struct, frozen=True):
    """From when until when something is good."""

    start: dt.datetime
    end: dt.datetime | None = None
    """None: it still is."""

    def covers(self, moment: dt.datetime) -> bool:
        """Whether the moment is within, borders included."""
        return self.start <= moment and (self.end is None or moment <= self.end)


class Authority(msgspec.Struct, frozen=True):
    """Certificates from the nearest to the root; the last one is what is trusted."""

    certificates: tuple[x509.Certificate, ...]
    valid: Period


class Log(msgspec.Struct, frozen=True):
    """A log and the key by which its word is known."""

    log_id: bytes
    key: PublicKey
    valid: Period
    host: str
    prehashed: bool = False
    """Whether the key, an Ed25519, signs hashes (Ed25519ph)."""

    def has_signed(self, signature: bytes, message: bytes) -> bool:
        """Whether this log signed the message."""
        return is_signed(self.key, signature, message, prehashed=self.prehashed)


class TrustedRoot(msgspec.Struct, frozen=True, dict=True):
    """Everybody whose word counts in a keyless signature."""

    authorities: tuple[Authority, ...]
    logs: tuple[Log, ...]
    certificate_logs: tuple[Log, ...]
    timestampers: tuple[Authority, ...]
    document: bytes

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the document."""
        return hashlib.sha256(self.document).hexdigest()

    def logs_below(self, host: str | None) -> tuple[Log, ...]:
        """The logs at that host or below its name; all of them for None."""
        return tuple(log for log in self.logs if host is None or f".{log.host}".endswith(f".{host}"))


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """JSON names are those of the document. An unknown one may be a known one misspelt, and a limit lost."""


class _Period(_Part, frozen=True):
    start: dt.datetime | None = None
    end: dt.datetime | None = None


_Enum = str | int | None  # protobuf's JSON has its name or its number


class _Key(_Part, frozen=True):
    raw_bytes: bytes
    key_details: _Enum = None
    valid_for: _Period | None = None


class _LogId(_Part, frozen=True):
    key_id: bytes


class _Log(_Part, frozen=True):
    public_key: _Key
    log_id: _LogId
    base_url: str = ""  # cosign 2 writes none
    hash_algorithm: _Enum = None
    checkpoint_key_id: _LogId | None = None
    operator: str | None = None


class _Certificate(_Part, frozen=True):
    raw_bytes: bytes


class _Chain(_Part, frozen=True):
    certificates: list[_Certificate]


class _Subject(_Part, frozen=True):
    organization: str | None = None
    common_name: str | None = None


class _Authority(_Part, frozen=True):
    cert_chain: _Chain
    subject: _Subject | None = None
    uri: str | None = None
    valid_for: _Period | None = None
    operator: str | None = None


class _Root(_Part, frozen=True):
    media_type: str
    tlogs: list[_Log] = []
    certificate_authorities: list[_Authority] = []
    ctlogs: list[_Log] = []
    timestamp_authorities: list[_Authority] = []


def parse_root(document: bytes) -> TrustedRoot:
    """The trusted root in a document; `InvalidRoot` says what is wrong with it, and where."""
    if len(document) > _MAX_DOCUMENT:
        raise InvalidRoot(f"it has {len(document)} bytes; at most {_MAX_DOCUMENT} are read")
    try:
        with quiet():
            return _root(strictjson.decode(document, _Root, what="it"), document)
    except InvalidRoot:
        raise
    except InvalidDocument as error:
        raise InvalidRoot(f"it is not a trusted root: {error}; {_REMEDY}") from error


def _root(root: _Root, document: bytes) -> TrustedRoot:
    if root.media_type not in MEDIA_TYPES:
        raise InvalidRoot(f"it is of the unknown kind {root.media_type[:80]!r}")
    return TrustedRoot(
        _each(root.certificate_authorities, "certificateAuthorities", _authority),
        _each(root.tlogs, "tlogs", _log),
        _each(root.ctlogs, "ctlogs", _log),
        _each(root.timestamp_authorities, "timestampAuthorities", _authority),
        document,
    )


def _each(parts: Sequence[P], name: str, read: Callable[[P, str], T]) -> tuple[T, ...]:
    return tuple(_read(part, f"{name}[{at}]", read) for at, part in enumerate(parts))


def _read(part: P, where: str, read: Callable[[P, str], T]) -> T:
    try:
        return read(part, where)
    except InvalidRoot:
        raise
    except UNREADABLE as error:
        raise InvalidRoot(f"{where} cannot be read: {error}; {_REMEDY}") from error


def _authority(authority: _Authority, where: str) -> Authority:
    chain = tuple(x509.load_der_x509_certificate(one.raw_bytes) for one in authority.cert_chain.certificates)
    if not chain:
        raise InvalidRoot(f"{where} is an authority without a certificate")
    return Authority(chain, _period(authority.valid_for, where))


def _log(log: _Log, where: str) -> Log:
    key = keys.load_der(log.public_key.raw_bytes)
    host = _HOST.match(log.base_url)
    name = host[1].lower() if host else log.base_url.lower()
    period = _period(log.public_key.valid_for, f"{where}.publicKey")
    return Log(log.log_id.key_id, key, period, name, log.public_key.key_details in _PREHASHED)


def _period(period: _Period | None, where: str) -> Period:
    """Nobody is trusted since ever: a period that lost its beginning would make an old key good again."""
    start = _in_utc(period.start, where) if period is not None else None
    if period is None or start is None:
        raise InvalidRoot(f"{where} has no validFor.start; write the time from which it is trusted")
    return Period(start, _in_utc(period.end, where))


def _in_utc(moment: dt.datetime | None, where: str) -> dt.datetime | None:
    """A time without a zone would make comparisons fail later on."""
    if moment is not None and moment.tzinfo is None:
        raise InvalidRoot(f"{where} has the time {moment.isoformat()} without a zone; write it with Z")
    return moment
