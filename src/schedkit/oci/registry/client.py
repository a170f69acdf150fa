"""Registries that speak the OCI distribution API, read through their mirrors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from schedkit.model.images import grammar, manifests, strictjson
from schedkit.model.images.content import Content
from schedkit.model.images.references import (
    DEFAULT_REGISTRY,
    Descriptor,
    Digest,
    Reference,
    Repository,
    brief,
    canonical_registry,
)
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unreachable
from schedkit.oci.http.bodies import refuse_unfit
from schedkit.oci.http.proxies import Proxies, is_loopback
from schedkit.oci.http.tls import system_authorities
from schedkit.oci.http.transport import Transport
from schedkit.oci.http.urls import join_address
from schedkit.oci.images.digests import index_of, read_index, read_manifest, verified
from schedkit.oci.images.ports import Reader
from schedkit.oci.registry import uploads
from schedkit.oci.registry.challenges import Credentials, NoCredentials, host_name
from schedkit.oci.registry.host import Answer, Ask, Connection, Patience
from schedkit.oci.registry.mirrors import Mirrors

T = TypeVar("T")

_MOST_TAGS = 50_000
_MOST_PAGES = 100
_LARGEST_PAGE = manifests.LARGEST_MANIFEST
_LARGEST_LIST = 8 * 1024 * 1024  # of all its pages
_TAG = re.compile(grammar.TAG)
_ACCEPTED = ", ".join((*manifests.MANIFEST_TYPES, *manifests.INDEX_TYPES))
# what registries without the referrers API answer; the specification says 404
_NO_REFERRERS_API = frozenset({400, 404, 405, 406, 501})
_LINK = re.compile(r'<([^<>]*)>\s*;\s*rel="?next"?')
_HOSTS = {DEFAULT_REGISTRY: "registry-1.docker.io"}  # the one registry whose name is not its host


class Settings(msgspec.Struct, frozen=True):
    """How registries are reached."""

    insecure: frozenset[str] = frozenset()  # hosts that may be asked over plain HTTP; loopback always may
    ca_file: Path | None = None  # authorities to trust beside the system's
    proxies: Proxies = Proxies()
    mirrors: Mirrors = Mirrors()
    patience: Patience = Patience()


class Registry:
    """A `Source` of every registry there is; close it when done."""

    def __init__(self, settings: Settings | None = None, credentials: Credentials | None = None) -> None:
        self._settings = settings or Settings()
        self._credentials = credentials or NoCredentials()
        self._insecure = {canonical_registry(host) for host in self._settings.insecure}
        self._connections: dict[str, Connection] = {}

    def close(self) -> None:
        """End all connections."""
        if "_transport" in self.__dict__:
            self._transport.close()

    @cached_property
    def _transport(self) -> Transport:
        """Made on first use: reading the system's authorities takes a tenth of a second."""
        return Transport(tls=system_authorities(self._settings.ca_file), proxies=self._settings.proxies)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resolve(self, reference: Reference) -> Content:
        """The manifest or index of that name; a digest in the name is binding, a tag beside it is ignored."""

        def read(place: Repository) -> Content:
            return self._manifest(place, reference.identifier, reference.digest)

        return self._anywhere(reference.repository, read)

    def manifest(self, repository: Repository, digest: Digest) -> Content:
        """The manifest or index of that digest."""
        return self._anywhere(repository, lambda place: self._manifest(place, digest, digest))

    def blob(self, repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        """The whole blob; `TooLarge`, and nothing fetched, if it has more bytes than the limit."""
        if descriptor.size > limit:
            raise TooLarge(
                f"{repository}@{descriptor.digest} has {descriptor.size} bytes; the limit is {limit}"
            )
        return self._anywhere(repository, lambda place: self._blob(place, descriptor))

    def stream(self, repository: Repository, descriptor: Descriptor) -> Iterator[bytes]:
        """The blob in pieces, never more than its size; raises after the last if the digest is another.

        Where a transfer breaks off it is continued. A mirror that serves something else is found out only at
        the end, when it is too late to ask another.
        """
        ends = self._settings.patience.ends(time.monotonic(), size=descriptor.size)

        def begin(place: Repository) -> Iterator[bytes]:
            pieces = self._pieces(place, descriptor, ends)
            return chain((next(pieces, b""),), pieces)

        pieces = self._anywhere(repository, begin)
        return verified(pieces, descriptor, what=f"{repository}@{descriptor.digest}")

    def referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What claims to refer to that digest; only each one's own manifest says whether it does.

        Mirrors often hold an image without what refers to it: an empty list sends us on to the next place. If
        that is the origin, and it is away, the mirror's word is all there is.
        """
        answered: list[Repository] = []

        def read(place: Repository) -> tuple[Descriptor, ...]:
            found = self._listed_referrers(place, digest) or self._tagged_referrers(place, digest)
            answered.append(place)
            if not found and place != repository:
                raise NotFound(f"{place} lists no document that refers to {digest}")
            return found

        try:
            return self._anywhere(repository, read)
        except Unreachable:
            if answered:
                return ()
            raise

    def tags(self, repository: Repository) -> tuple[str, ...]:
        """All tags, sorted; names that no reference could have are left out."""
        return self._anywhere(repository, self._tags)

    def push_blob(
        self,
        repository: Repository,
        descriptor: Descriptor,
        read: Reader,
        *,
        mount_from: Repository | None = None,
    ) -> bool:
        """Store a blob unless it is there; whether it was read. `mount_from` names where else it may be."""
        return uploads.push_blob(self._connection(repository), repository, descriptor, read, mount_from)

    def push_manifest(self, repository: Repository, content: Content, *, tag: str | None = None) -> None:
        """Store a manifest, whose parts are there, under its digest and the tag; list it as a referrer."""
        connection = self._connection(repository)
        answer = uploads.push_manifest(connection, repository, content, tag or content.descriptor.digest)
        manifest = manifests.parse(content.data, content.descriptor.media_type)
        if manifest.subject is not None and "oci-subject" not in answer.headers:
            entry = manifests.referrer_entry(content.descriptor, manifest)
            self._list_referrer(repository, manifest.subject.digest, entry)

    def _list_referrer(self, repository: Repository, subject: Digest, entry: Descriptor) -> None:
        """Add to the fallback tag, for a registry that did not say it listed the manifest by itself."""
        others = self._tagged_referrers(repository, subject)
        if entry.digest in {other.digest for other in others}:
            return
        index = index_of([*others, entry])
        uploads.push_manifest(self._connection(repository), repository, index, subject.fallback_tag)

    def _anywhere(self, repository: Repository, read: Callable[[Repository], T]) -> T:
        """What the first place that can answer says; if none can, the origin's error tells all of it."""
        *mirrors, origin = self._settings.mirrors.places(repository)
        failures = []
        for mirror in mirrors:
            try:
                return read(mirror)
            except RegistryError as error:
                failures.append(str(error))
        try:
            return read(origin)
        except RegistryError as error:
            if failures:
                said = brief("; ".join(failures))
                error.args = (f"{error} (before that, its mirrors failed: {said})",)
            raise

    def _manifest(self, place: Repository, identifier: str, digest: Digest | None) -> Content:
        ask = Ask(place, f"manifests/{identifier}", headers={"Accept": _ACCEPTED})
        answer = self._connection(place).read(ask, limit=manifests.LARGEST_MANIFEST)
        what = f"{place}{'@' if digest else ':'}{identifier}"
        return read_manifest(answer.body, served_as=_content_type(answer), expected=digest, what=what)

    def _blob(self, place: Repository, descriptor: Descriptor) -> bytes:
        ask = Ask(place, f"blobs/{descriptor.digest}")
        ends = self._settings.patience.ends(time.monotonic(), size=descriptor.size)
        answer = self._connection(place).read(ask, limit=descriptor.size, ends=ends)
        return b"".join(verified((answer.body,), descriptor, what=f"{place}@{descriptor.digest}"))

    def _pieces(self, place: Repository, descriptor: Descriptor, ends: float) -> Iterator[bytes]:
        """The blob as it comes; continued where it broke off, as often as anything else is tried again."""
        received = 0
        for attempts_left in reversed(range(self._settings.patience.attempts)):
            headers = {"Range": f"bytes={received}-"} if received else {}
            ask = Ask(place, f"blobs/{descriptor.digest}", headers=headers)
            with self._connection(place).open(ask, ends=ends) as response:
                refuse_unfit(response, descriptor.size, begins=received)
                try:
                    for piece in response.pieces():
                        received += len(piece)
                        yield piece
                except Unreachable:
                    if not attempts_left:
                        raise
                else:
                    return

    def _tags(self, place: Repository) -> tuple[str, ...]:
        found: set[str] = set()
        for page in self._pages(Ask(place, "tags/list?n=1000")):
            found.update(read_tags(page, place))
            if len(found) > _MOST_TAGS:
                raise TooLarge(f"{place} has more than {_MOST_TAGS} tags")
        return tuple(sorted(found))

    def _listed_referrers(self, place: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What the referrers API says; nothing where there is none."""
        headers = {"Accept": manifests.IMAGE_INDEX}
        ask = Ask(place, f"referrers/{digest}", headers=headers, tolerated=_NO_REFERRERS_API)
        found: list[Descriptor] = []
        for page in self._pages(ask):
            if page.status in _NO_REFERRERS_API or _content_type(page) != manifests.IMAGE_INDEX:
                return ()
            index = read_index(page.body, what=f"the list of referrers of {place}@{digest}")
            found += map(manifests.bare_entry, index.manifests)
            if len(found) > manifests.MOST_ENTRIES:
                raise TooLarge(f"{place}@{digest} has more than {manifests.MOST_ENTRIES} referrers")
        return tuple(found)

    def _tagged_referrers(self, place: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What the fallback tag lists; nothing where there is none."""
        try:
            content = self._manifest(place, digest.fallback_tag, None)
        except NotFound:
            return ()
        index = read_index(content.data, what=f"{place}:{digest.fallback_tag}")
        return tuple(map(manifests.bare_entry, index.manifests))

    def _pages(self, ask: Ask) -> Iterator[Answer]:
        """A list, page by page; the next one is looked for nowhere but on the same host."""
        ends = self._settings.patience.ends(time.monotonic())
        left = _LARGEST_LIST
        for _ in range(_MOST_PAGES):
            page = self._connection(ask.repository).read(ask, limit=min(_LARGEST_PAGE, left), ends=ends)
            left -= len(page.body)
            yield page
            following = next_page(page, ask)
            if following is None:
                return
            ask = following
        raise TooLarge(f"{ask.repository} has a list of more than {_MOST_PAGES} pages")

    def _connection(self, repository: Repository) -> Connection:
        host = _HOSTS.get(repository.registry, repository.registry)
        if host not in self._connections:
            plain = repository.registry in self._insecure or is_loopback(host_name(host))
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


def read_tags(page: Answer, repository: Repository) -> tuple[str, ...]:
    """The tags on one page of a list; `Refused` if it is none."""
    try:
        tags = strictjson.decode(page.body, _Tags, what=f"the list of tags of {repository}").tags
    except InvalidDocument as error:
        raise Refused(str(error)) from error
    return tuple(tag for tag in tags if _TAG.fullmatch(tag))


def next_page(page: Answer, ask: Ask) -> Ask | None:
    """The question for what follows, from the Link header; None: that was all."""
    link = page.headers.get("link", "")
    if not link:
        return None
    matched = _LINK.search(link)
    if matched is None:
        raise Refused(f"{ask.repository} continues its list at {link[:80]!r}, which is not a usable address")
    target = join_address(page.url, matched[1])
    here, there = urlsplit(page.url), urlsplit(target)
    if (here.scheme, here.netloc) != (there.scheme, there.netloc):
        raise Refused(f"{ask.repository} continues its list on another host: {there.netloc[:80]!r}")
    return msgspec.structs.replace(ask, path=target)


def _content_type(answer: Answer) -> str | None:
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() or None
