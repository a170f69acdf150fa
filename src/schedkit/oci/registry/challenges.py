"""What a registry demands before it answers, and what it gets: Basic, or a token of its token server."""

from __future__ import annotations

import base64
import re
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from schedkit.model.images import strictjson
from schedkit.model.images.references import Repository
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Refused, Unauthorized
from schedkit.oci.http.proxies import is_loopback
from schedkit.oci.http.urls import split_address

_LONGEST_CHALLENGE = 4096
LARGEST_TOKEN_ANSWER = 64 * 1024
_TOKEN = re.compile(r"[\x21-\x7e]{1,32768}")
_CHALLENGE = re.compile(r"(?:^|,)\s*(basic|bearer)\b(.*)", re.DOTALL | re.IGNORECASE)
# a name is looked for at its beginning alone: from each of its letters on, it would take quadratic time
_PARAMETER = re.compile(r'(?<![a-zA-Z_])(?:([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"|([a-zA-Z_]+)=([^\s",]+))')


class Login(msgspec.Struct, frozen=True):
    """A user's name and password, or a token that stands for both."""

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        return f"Login({self.username!r}, …)"  # secrets do not end in logs

    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.username}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"


class Credentials(Protocol):
    """Knows logins; asked once per repository."""

    def find(self, repository: Repository) -> Login | None:
        """The login for that repository, or None: it is asked for without."""
        ...


class NoCredentials:
    """Asks every registry without a login."""

    def find(self, repository: Repository) -> Login | None:  # noqa: ARG002  # the port's signature
        """Nothing."""
        return None


class Challenge(msgspec.Struct, frozen=True):
    """What a 401 asks for."""

    scheme: str  # "basic" or "bearer"
    realm: str = ""
    service: str = ""


def parse_challenge(header: str, *, host: str) -> Challenge:
    """Read WWW-Authenticate; `Unauthorized` when it asks for nothing we can give."""
    matched = _CHALLENGE.search(header) if len(header) <= _LONGEST_CHALLENGE else None
    if matched is None:
        raise Unauthorized(f"{host} asks for a kind of login that is not supported: {header[:80]!r}")
    parameters: dict[str, str] = {}
    for quoted, value, bare, plain in _PARAMETER.findall(matched[2]):
        parameters.setdefault((quoted or bare).lower(), value or plain)  # a second challenge may follow
    return Challenge(matched[1].lower(), parameters.get("realm", ""), parameters.get("service", ""))


def refuse_unsafe_realm(challenge: Challenge, *, host: str, secure: bool) -> None:
    """Let a token server's address pass only if asking it is as safe as asking the registry."""
    url = split_address(challenge.realm)
    name = url.hostname or "" if url else ""
    registry = host_name(host)
    is_near = name == registry or (is_loopback(name) and is_loopback(registry))
    if url and (url.scheme == "https" or (not secure and is_near)):
        return
    raise Refused(
        f"it is not safe to send a login to the token server that {host} names: {challenge.realm[:80]!r}"
    )


def host_name(host: str) -> str:
    """The host without its port."""
    return urlsplit(f"//{host}").hostname or ""


class _TokenAnswer(msgspec.Struct):
    token: str = ""
    access_token: str = ""


def parse_token(body: bytes, *, host: str) -> str:
    """The token in a token server's answer; `Refused` if it could not stand in a header."""
    try:
        answer = strictjson.decode(body, _TokenAnswer, what=f"the token for {host}")
    except InvalidDocument as error:
        raise Refused(str(error)) from error
    token = answer.token or answer.access_token
    if not _TOKEN.fullmatch(token):
        raise Refused(f"the token server of {host} gave no usable token")
    return token
