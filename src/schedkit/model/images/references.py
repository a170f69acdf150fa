"""What an image is called, and what an image is made of: digests, references, platforms, descriptors."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Self

import msgspec

from schedkit.model.images import grammar

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
_ALIASES = dict.fromkeys(
    ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"), DEFAULT_REGISTRY
)
_USUAL_PORT = ":443"
_SHORT_NAMES = "library"  # where Docker's registry keeps what has a name of one part
_LONGEST_NAME = 255
_LONGEST_TEXT = 1024

_REGISTRY = re.compile(grammar.REGISTRY)
_PATH = re.compile(grammar.PATH)
_TAG = re.compile(grammar.TAG)
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}")


class InvalidReference(ValueError):  # noqa: N818  # it says what the reference is
    """Text that names no image; the message says why, and what to write instead."""


class Digest(str):
    """`sha256:` and 64 hexadecimal digits: the name of exactly one sequence of bytes."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Raises `InvalidReference` for any other text."""
        if not _DIGEST.fullmatch(text):
            raise InvalidReference(
                f"{shown(text)} is not a digest: write sha256: and 64 digits of 0-9 and a-f"
            )
        return super().__new__(cls, text)

    @property
    def encoded(self) -> str:
        """The 64 digits alone."""
        return self.partition(":")[2]

    @property
    def fallback_tag(self) -> str:
        """The tag that lists what refers to this, in registries that do not know the referrers API."""
        return f"sha256-{self.encoded}"


class Repository(msgspec.Struct, frozen=True, order=True):
    """A place for images that belong together: a registry's host, and a path in it."""

    registry: str  # host or host:port, as `canonical_registry` writes it
    path: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.path}"


class Reference(msgspec.Struct, frozen=True):
    """The name of an image. With a digest it always means the same one, whatever tag stands beside it."""

    repository: Repository
    tag: str | None = None
    digest: Digest | None = None

    def __post_init__(self) -> None:
        """Raises `InvalidReference` for a tag that would be read as something else in a URL or a name."""
        if self.tag is not None and not _TAG.fullmatch(self.tag):
            raise InvalidReference(f"{shown(self.tag)} is not a tag: {_TAG_FORM}")

    @property
    def identifier(self) -> str:
        """What a registry is asked for: the digest if there is one, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    def pinned(self, digest: Digest) -> Reference:
        """The same name, bound to that digest."""
        return msgspec.structs.replace(self, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


def parse_reference(text: str) -> Reference:
    """Read `[registry/]path[:tag][@digest]` as container runtimes do; no registry means Docker's."""
    scheme, separator, _ = text.partition("://")
    if separator:
        raise InvalidReference(f"{shown(text)} has a scheme: remove {shown(scheme + separator)}")
    name, at, digest = text.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise InvalidReference(f"{shown(text)} has no valid tag after its last colon: {_TAG_FORM}")
    repository = parse_repository(name.removesuffix(colon + tag), whole=text)
    return Reference(repository, tag=tag if colon else None, digest=Digest(digest) if at else None)


def parse_repository(text: str, *, whole: str | None = None) -> Repository:
    """Read `[registry/]path`; `whole` is what errors quote."""
    said = shown(whole or text)
    first, slash, rest = text[:_LONGEST_TEXT].partition("/")
    named = bool(slash) and bool(_REGISTRY.fullmatch(first))
    registry, path = (canonical_registry(first), rest) if named else (DEFAULT_REGISTRY, text)
    if len(text) > _LONGEST_TEXT or not _PATH.fullmatch(path):
        raise InvalidReference(f"{said} is not an image reference: {_FORM}")
    if named and not _can_be_asked(first):
        raise InvalidReference(f"{said} has no IPv6 address in its brackets: write it as in [::1]")
    if len(path) > _LONGEST_NAME:
        raise InvalidReference(f"{said} has a path of more than {_LONGEST_NAME} characters: shorten it")
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"{_SHORT_NAMES}/{path}"
    return Repository(registry, path)


def _can_be_asked(registry: str) -> bool:
    """Whether brackets hold an address: the grammar, which has to fit into CEL, takes any digits."""
    address, bracket, _ = registry.removeprefix("[").partition("]")
    if not bracket:
        return True
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return True


def canonical_registry(name: str) -> str:
    """The one way to write that host: rules and logins for it must not be missed for another spelling."""
    host = name.lower().removesuffix(_USUAL_PORT)
    return _ALIASES.get(host, host)


def canonical_prefix(text: str) -> str:
    """A registry, a folder in it or a repository, as `str(Repository)` begins; its path may be empty."""
    registry, slash, path = text.partition("/")
    return f"{canonical_registry(registry)}{slash}{path}"


def whole_name(repository: str) -> str:
    """With the folder that Docker's registry has for names of one part, which people leave out."""
    registry, _, path = repository.partition("/")
    is_short = registry == DEFAULT_REGISTRY and path and "/" not in path
    return f"{registry}/{_SHORT_NAMES}/{path}" if is_short else repository


_FORM = "write registry/path:tag or registry/path@sha256:…, with a path in lower case"
_TAG_FORM = "a tag has at most 128 letters, digits, '_', '.' and '-', and does not begin with '.' or '-'"


def shown(text: str) -> str:
    """The text in quotes for a message: escaped, and short."""
    return repr(text if len(text) <= 80 else text[:79] + "…")


def brief(message: str, *, most: int = 500) -> str:
    """A message that quotes strangers, who may have written megabytes: its beginning, and its end."""
    if len(message) <= most:
        return message
    return f"{message[: most - 151]}…{message[-150:]}"


class Platform(msgspec.Struct, frozen=True, order=True):
    """What a program runs on, in Go's names: linux, amd64."""

    os: str = ""
    architecture: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


MediaType = Annotated[
    str, msgspec.Meta(pattern=r"^[a-zA-Z0-9][-a-zA-Z0-9!#$&^_.+]*/[-a-zA-Z0-9!#$&^_.+]+\Z", max_length=255)
]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Descriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How one piece of content points at another, as in OCI documents."""

    media_type: MediaType
    digest: Digest
    size: Size
    platform: Platform | None = None
    artifact_type: str | None = None
    annotations: dict[str, str] | None = None
