"""Logins that other tools left: auth.json of Podman, config.json of Docker, and their helper programs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from schedkit.model.images import strictjson
from schedkit.model.images.references import DEFAULT_REGISTRY, Repository, canonical_prefix
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import Unauthorized
from schedkit.oci.registry.challenges import Login
from schedkit.oci.registry.mirrors import longest_prefix

T = TypeVar("T")

_LARGEST_FILE = 1024 * 1024
# Docker's own name for its registry, from a time before there were others
_DOCKER_KEY = "https://index.docker.io/v1/"
_OWN_KEYS = (_DOCKER_KEY, DEFAULT_REGISTRY)
_HELPER_NAME = re.compile(r"[a-zA-Z0-9][-._a-zA-Z0-9]{0,63}")
_TOKEN_USER = "<token>"  # noqa: S105  # the name under which helpers hand out identity tokens


class _Entry(msgspec.Struct, frozen=True):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _File(msgspec.Struct, frozen=True, rename="camel"):
    auths: dict[str, _Entry] = {}
    cred_helpers: dict[str, str] = {}
    creds_store: str = ""


class CredentialFiles(msgspec.Struct, frozen=True):
    """Looks into each file in turn; the first that knows a login for the repository decides."""

    files: tuple[Path, ...]

    def find(self, repository: Repository) -> Login | None:
        """The login for that repository, or None; `Unauthorized` if a file or helper does not work."""
        for path in self.files:
            content = _read(path)
            login = _find(content, repository) if content else None
            if login is not None:
                return login
        return None


def files_of(environment: Mapping[str, str], *, uid: int) -> CredentialFiles:
    """The files that Podman and Docker would use for that user; REGISTRY_AUTH_FILE replaces them all."""
    chosen = environment.get("REGISTRY_AUTH_FILE")
    return CredentialFiles((Path(chosen),) if chosen else tuple(_usual_files(environment, uid)))


def _usual_files(environment: Mapping[str, str], uid: int) -> Iterator[Path]:
    runtime = environment.get("XDG_RUNTIME_DIR")
    yield (Path(runtime, "containers") if runtime else Path(f"/run/containers/{uid}")) / "auth.json"
    home = environment.get("HOME")
    config = environment.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
    if config:
        yield Path(config, "containers/auth.json")
    docker = environment.get("DOCKER_CONFIG") or (home and f"{home}/.docker")
    if docker:
        yield Path(docker, "config.json")


def _read(path: Path) -> _File | None:
    """The file, or None if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unauthorized(f"the logins in {path} cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST_FILE:
        raise Unauthorized(f"{path} has more than {_LARGEST_FILE} bytes: it is not a file of logins")
    try:
        return strictjson.decode(data, _File, what=str(path))
    except InvalidDocument as error:
        raise Unauthorized(f"{error}. Correct the file, or log in again") from error


def _find(file: _File, repository: Repository) -> Login | None:
    """A helper for this registry, then the entry with the longest prefix, then the helper for all others."""
    helper = _by_name(file.cred_helpers).get(repository.registry)
    if helper is not None:
        return _ask_helper(helper, repository.registry)
    entries = _by_name(file.auths)
    prefix = longest_prefix(str(repository), entries)
    login = _parse_entry(entries[prefix], prefix) if prefix else None
    if login is None and file.creds_store:
        return _ask_helper(file.creds_store, repository.registry)
    return login


def _by_name(found: Mapping[str, T]) -> dict[str, T]:
    """By prefix of repositories; of several names of Docker's registry, what stands under its own counts."""
    return {_normal(key): found[key] for key in sorted(found, key=_OWN_KEYS.__contains__)}


def _normal(key: str) -> str:
    """A file's key as a prefix of repositories: Docker writes URLs, and an odd name for its own registry."""
    if key == _DOCKER_KEY:
        return DEFAULT_REGISTRY
    scheme, separator, rest = key.partition("://")
    return canonical_prefix(rest.partition("/")[0] if separator else scheme.rstrip("/"))


def _parse_entry(entry: _Entry, key: str) -> Login | None:
    """The entry's login; None for the empty ones that Docker leaves beside a helper."""
    if entry.identitytoken:
        return Login(identity_token=entry.identitytoken)
    if entry.username:
        return Login(entry.username, entry.password)
    if not entry.auth:
        return None
    try:
        username, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except ValueError:  # no base64, no ASCII, or no UTF-8 behind it
        username = colon = password = ""
    if not colon:
        raise Unauthorized(f"the login for {key} is not the base64 of name:password: log in again")
    return Login(username, password.rstrip("\0"))


def _ask_helper(name: str, registry: str) -> Login | None:
    from schedkit.oci.registry import login_helpers  # noqa: PLC0415 - to run programs takes much that a file does not

    if not _HELPER_NAME.fullmatch(name):
        raise Unauthorized(f"{name[:64]!r} cannot be a credential helper: correct the file, or log in again")
    server = _DOCKER_KEY if registry == DEFAULT_REGISTRY else registry
    found = login_helpers.ask(f"docker-credential-{name}", server)
    if found is None:
        return None
    if found.username == _TOKEN_USER:
        return Login(identity_token=found.secret)
    return Login(found.username, found.secret)
