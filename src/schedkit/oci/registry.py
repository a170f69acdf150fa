"""Registries that speak the OCI distribution API, read through their mirrors."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

from schedkit.model import documents, manifests
from schedkit.model.documents import InvalidDocument
from schedkit.model.images import DEFAULT_REGISTRY, Descriptor, Digest, Reference, Repository
from schedkit.oci.authentication import Credentials, NoCredentials, host_name
from schedkit.oci.connections import Answer, Ask, Connection, Patience, join_address, refuse_encoded
from schedkit.oci.contents import read_index, read_manifest, verified
from schedkit.oci.errors import NotFound, Refused, TooLarge
from schedkit.oci.proxies import Proxies, is_loopback
from schedkit.oci.sources import Content
from schedkit.oci.transport import Transport

_MOST_TAGS = 50_000
_MOST_PAGES = 200
_LARGEST_PAGE = manifests.LARGEST_MANIFEST
_ACCEPTED = ", ".join((*manifests.MANIFEST_TYPES, *manifests.INDEX_TYPES))
# what registries without the referrers API answer; the specification says 404
_NO_REFERRERS_API = frozenset({400, 404, 405, 406, 501})
_LINK = re.compile(r'<([^<>]*)>\s*;\s*rel="?next"?')
_HOSTS = {DEFAULT_REGISTRY: "registry-1.docker.io"}  # the one registry whose name is not its host


@dataclass(frozen=True, slots=True)
class Settings:
    """How registries are reached."""

    insecure: frozenset[str] = frozenset()  # hosts that may be asked over plain HTTP; loopback always may
    ca_file: Path | None = None  # authorities to trust beside the system's
    proxies: Proxies = field(default_factory=Proxies)
    patience: Patience = field(default_factory=Patience)


class Registry:
    """A `Source` of every registry there is; close it when done."""

    def __init__(self, settings: Settings | None = None, credentials: Credentials | None = None) -> None:
        self._settings = settings or Settings()
        self._credentials = credentials or NoCredentials()
        tls = _tls(self._settings.ca_file)
        self._transport = Transport(tls=tls, proxies=self._settings.proxies)
        self._connections: dict[str, Connection] = {}

    def close(self) -> None:
        """End all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resolve(self, reference: Reference) -> Content:
        """The manifest or index of that name; a digest in the name is binding, a tag beside it is ignored."""
        return self._manifest(reference.repository, reference.identifier, reference.digest)

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        """The manifest or index of that digest."""
        return self._manifest(repository, digest, digest)

    def blob(self, repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        """The whole blob; `TooLarge`, and nothing fetched, if it has more bytes than the limit."""
        if descriptor.size > limit:
            raise TooLarge(
                f"{repository}@{descriptor.digest} has {descriptor.size} bytes; {limit} is the most"
            )
        return b"".join(self.stream(repository, descriptor))

    def stream(self, repository: Repository, descriptor: Descriptor) -> Iterator[bytes]:
        """The blob in pieces, never more than its size; raises after the last if the digest is another."""
        ask = Ask(repository, f"blobs/{descriptor.digest}")
        with self._connection(repository).open(ask, size=descriptor.size) as response:
            refuse_encoded(response)
            yield from verified(response.pieces(), descriptor, what=f"{repository}@{descriptor.digest}")

    def referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What claims to refer to that digest; only each one's own manifest says whether it does."""
        return self._listed_referrers(repository, digest) or self._tagged_referrers(repository, digest)

    def tags(self, repository: Repository) -> tuple[str, ...]:
        """All tags, sorted."""
        found: set[str] = set()
        for page in self._pages(Ask(repository, "tags/list?n=1000")):
            found.update(_read_tags(page, repository))
            if len(found) > _MOST_TAGS:
                raise TooLarge(f"{repository} has more than {_MOST_TAGS} tags")
        return tuple(sorted(found))

    def _manifest(self, repository: Repository, identifier: str, digest: Digest | None) -> Content:
        ask = Ask(repository, f"manifests/{identifier}", headers={"Accept": _ACCEPTED})
        answer = self._connection(repository).read(ask, limit=manifests.LARGEST_MANIFEST)
        what = f"{repository}{'@' if digest else ':'}{identifier}"
        return read_manifest(answer.body, served_as=_content_type(answer), expected=digest, what=what)

    def _listed_referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What the referrers API says; nothing where there is none."""
        headers = {"Accept": manifests.IMAGE_INDEX}
        ask = Ask(repository, f"referrers/{digest}", headers=headers, tolerated=_NO_REFERRERS_API)
        found: list[Descriptor] = []
        for page in self._pages(ask):
            if page.status in _NO_REFERRERS_API or _content_type(page) != manifests.IMAGE_INDEX:
                return ()
            found += read_index(page.body, what=f"the list of referrers of {repository}@{digest}").manifests
            if len(found) > manifests.MOST_ENTRIES:
                raise TooLarge(f"{repository}@{digest} has more than {manifests.MOST_ENTRIES} referrers")
        return tuple(found)

    def _tagged_referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What the fallback tag lists; nothing where there is none."""
        try:
            content = self._manifest(repository, digest.fallback_tag, None)
        except NotFound:
            return ()
        return read_index(content.data, what=f"{repository}:{digest.fallback_tag}").manifests

    def _pages(self, ask: Ask) -> Iterator[Answer]:
        """A list, page by page; the next one is looked for nowhere but on the same host."""
        for _ in range(_MOST_PAGES):
            page = self._connection(ask.repository).read(ask, limit=_LARGEST_PAGE)
            yield page
            following = _next_page(page, ask)
            if following is None:
                return
            ask = following
        raise TooLarge(f"{ask.repository} has lists of more than {_MOST_PAGES} pages")

    def _connection(self, repository: Repository) -> Connection:
        host = _HOSTS.get(repository.registry, repository.registry)
        if host not in self._connections:
            plain = host in self._settings.insecure or is_loopback(host_name(host))
            self._connections[host] = Connection(
                host,
                self._transport,
                self._credentials,
                plain_allowed=plain,
                patience=self._settings.patience,
            )
        return self._connections[host]


class _Tags(msgspec.Struct):
    tags: tuple[str, ...] = ()


def _read_tags(page: Answer, repository: Repository) -> tuple[str, ...]:
    try:
        return documents.decode(page.body, _Tags, what=f"the list of tags of {repository}").tags
    except InvalidDocument as error:
        raise Refused(str(error)) from error


def _next_page(page: Answer, ask: Ask) -> Ask | None:
    """The question for what follows, from the Link header; None: that was all."""
    link = page.headers.get("link", "")
    if not link:
        return None
    matched = _LINK.match(link)
    if matched is None:
        raise Refused(f"{ask.repository} continues its list at {link[:80]!r}, which is no usable address")
    target = join_address(page.url, matched[1])
    here, there = urlsplit(page.url), urlsplit(target)
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise Refused(f"{ask.repository} continues its list on another host: {there.netloc[:80]!r}")
    return replace(ask, path=target)


def _content_type(answer: Answer) -> str | None:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() or None


def _tls(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context
