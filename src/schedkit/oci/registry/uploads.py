"""Pushing to one registry: skip what is there, mount what is next door, send the rest once."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from schedkit.model.images.content import Content
from schedkit.model.images.references import Descriptor, Repository
from schedkit.oci.errors import Refused
from schedkit.oci.http.urls import join_address
from schedkit.oci.images.digests import verified
from schedkit.oci.images.ports import Reader
from schedkit.oci.registry.host import Answer, Ask, Connection

_WRITE = "pull,push"
_MISSING = frozenset({404})
_EMPTY = {"Content-Length": "0"}


def push_blob(
    connection: Connection,
    repository: Repository,
    descriptor: Descriptor,
    read: Reader,
    mount_from: Repository | None,
) -> bool:
    """Store a blob unless it is there; whether it was read."""
    if _has_blob(connection, repository, descriptor):
        return False
    begun = _begin(connection, repository, descriptor, mount_from)
    if begun.status == 201:
        return False
    _send(connection, repository, descriptor, read, begun)
    return True


def push_manifest(connection: Connection, repository: Repository, content: Content, name: str) -> Answer:
    """Store a manifest under a tag or its digest."""
    headers = {"Content-Type": content.descriptor.media_type, "Content-Length": str(len(content.data))}
    ask = Ask(repository, f"manifests/{name}", "PUT", headers, content.data, actions=_WRITE)
    return connection.read(ask, limit=64 * 1024)


def _has_blob(connection: Connection, repository: Repository, descriptor: Descriptor) -> bool:
    path = f"blobs/{descriptor.digest}"
    ask = Ask(repository, path, "HEAD", actions=_WRITE, tolerated=_MISSING)
    return connection.read(ask, limit=0).status == 200


def _begin(
    connection: Connection, repository: Repository, descriptor: Descriptor, mount_from: Repository | None
) -> Answer:
    """An upload's beginning, or its end: 201 if the registry could take the blob from its neighbour."""
    neighbour = mount_from.path if mount_from and mount_from.registry == repository.registry else ""
    query = f"?mount={descriptor.digest}&from={quote(neighbour)}" if neighbour else ""
    ask = Ask(repository, f"blobs/uploads/{query}", "POST", _EMPTY, b"", actions=_WRITE, also_pulls=neighbour)
    return connection.read(ask, limit=64 * 1024)


def _send(
    connection: Connection, repository: Repository, descriptor: Descriptor, read: Reader, begun: Answer
) -> None:
    location = join_address(begun.url, begun.headers.get("location", ""))
    if urlsplit(begun.url).scheme == "https" and urlsplit(location).scheme != "https":
        raise Refused(f"{repository.registry} wants the upload over plain HTTP: {location[:80]!r}")
    address = f"{location}{'&' if urlsplit(location).query else '?'}digest={quote(descriptor.digest)}"
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(descriptor.size)}
    pieces = verified(read(), descriptor, what=f"the upload to {repository}")
    ask = Ask(repository, address, "PUT", headers, pieces, actions=_WRITE)
    connection.send_once(ask, size=descriptor.size)
