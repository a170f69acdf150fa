"""An OCI image layout: a folder with images in it, for places without a registry.

Names in its index are whole references, so that one folder holds many repositories; a layout of another tool,
whose names are tags alone, reads the same for every repository. What refers to an image is listed under the
fallback tag, as in a registry that does not know the referrers API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedkit.disk import whole
from schedkit.model.images import manifests, strictjson
from schedkit.model.images.content import Content
from schedkit.model.images.references import DEFAULT_TAG, Descriptor, Digest, Reference, Repository, shown
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unreachable
from schedkit.oci.images.digests import index_of, read_index, read_manifest, verified
from schedkit.oci.images.ports import Reader

_NAME = "org.opencontainers.image.ref.name"
_CONTAINERD_NAME = "io.containerd.image.name"  # by which `ctr images import` names what it finds
_VERSION = "1.0.0"
_BLOBS = ("blobs", "sha256")


class Layout:
    """A `Source` and a `Target` in one folder; writing makes it if it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, reference: Reference) -> Content:
        """The manifest or index of that name; a digest in the name is binding, a tag beside it is ignored."""
        if reference.digest is not None:
            return self.manifest(reference.repository, reference.digest)
        entry = self._entry(reference.repository, reference.tag or DEFAULT_TAG)
        return self._manifest(entry.digest, served_as=entry.media_type)

    def manifest(self, repository: Repository, digest: Digest) -> Content:  # noqa: ARG002  # one for all
        """The manifest or index of that digest, whichever repository it was stored for."""
        self._entries()
        return self._manifest(digest, served_as=None)

    def blob(self, repository: Repository, descriptor: Descriptor, *, limit: int) -> bytes:
        """The whole blob; `TooLarge`, and nothing read, if it has more bytes than the limit."""
        if descriptor.size > limit:
            raise TooLarge(f"{descriptor.digest} has {descriptor.size} bytes; the limit is {limit}")
        return b"".join(self.stream(repository, descriptor))

    def stream(self, repository: Repository, descriptor: Descriptor) -> Iterator[bytes]:  # noqa: ARG002  # as above
        """The blob in pieces, never more than its size; raises after the last if the digest is another."""
        what = f"{self._folder}: {descriptor.digest}"
        return verified(self._pieces(descriptor.digest), descriptor, what=what)

    def referrers(self, repository: Repository, digest: Digest) -> tuple[Descriptor, ...]:
        """What claims to refer to that digest; only each one's own manifest says whether it does."""
        try:
            content = self.resolve(Reference(repository, tag=digest.fallback_tag))
        except NotFound:
            return ()
        index = read_index(content.data, what=f"{self._folder}: {digest.fallback_tag}")
        return tuple(map(manifests.bare_entry, index.manifests))

    def tags(self, repository: Repository) -> tuple[str, ...]:
        """All tags, sorted."""
        names = (_name(entry) for entry in self._entries())
        prefix = f"{repository}:"
        mine = {name.removeprefix(prefix) for name in names if name.startswith(prefix) or _is_tag(name)}
        return tuple(sorted(mine))

    def push_blob(
        self,
        repository: Repository,  # noqa: ARG002  # one folder for all
        descriptor: Descriptor,
        read: Reader,
        *,
        mount_from: Repository | None = None,  # noqa: ARG002  # as above
    ) -> bool:
        """Store a blob unless it is there; whether it was read."""
        self._prepare()
        if self._holds(descriptor):
            return False
        pieces = verified(read(), descriptor, what=str(descriptor.digest))
        with _written(self._path(descriptor.digest)), whole.opened(self._folder, *_BLOBS, make=True) as blobs:
            whole.write_in(blobs, descriptor.digest.encoded, pieces)
        return True

    def _holds(self, descriptor: Descriptor) -> bool:
        """Whether those very bytes are there: of a file that somebody handed over, a size says nothing."""
        try:
            for _ in verified(self._pieces(descriptor.digest), descriptor, what=str(descriptor.digest)):
                pass
        except RegistryError:
            return False
        return True

    def push_manifest(self, repository: Repository, content: Content, *, tag: str | None = None) -> None:
        """Store a manifest, whose parts are there, under its digest and the tag; list it as a referrer."""
        self.push_blob(repository, content.descriptor, lambda: (content.data,))
        manifest = manifests.parse(content.data, content.descriptor.media_type)
        if manifest.subject is not None:
            entry = manifests.referrer_entry(content.descriptor, manifest)
            self._list_referrer(repository, manifest.subject.digest, entry)
        if tag is not None:
            self._set_tag(repository, tag, content.descriptor)

    def _list_referrer(self, repository: Repository, subject: Digest, entry: Descriptor) -> None:
        with self._changing():
            others = [other for other in self.referrers(repository, subject) if other.digest != entry.digest]
            index = index_of([*others, entry])
            self.push_blob(repository, index.descriptor, lambda: (index.data,))
            self._write_entry(repository, subject.fallback_tag, index.descriptor)

    def _set_tag(self, repository: Repository, tag: str, descriptor: Descriptor) -> None:
        with self._changing():
            self._write_entry(repository, tag, descriptor)

    def _write_entry(self, repository: Repository, tag: str, descriptor: Descriptor) -> None:
        name = f"{repository}:{tag}"
        names = {_NAME: name, _CONTAINERD_NAME: name}
        entry = Descriptor(descriptor.media_type, descriptor.digest, descriptor.size, annotations=names)
        others = [other for other in self._entries() if _name(other) != name]
        index = self._folder / "index.json"
        with _written(index):
            whole.write_whole(index, (index_of([*others, entry]).data,))

    def _entry(self, repository: Repository, tag: str) -> Descriptor:
        wanted = (f"{repository}:{tag}", tag)
        entries = self._entries()
        found = [entry for name in wanted for entry in entries if _name(entry) == name]
        if found:
            return found[0]
        names = sorted(filter(None, map(_name, entries)))
        offer = f"it has {', '.join(map(shown, names[:10]))}" if names else "no image in it has a name"
        raise NotFound(f"{self._folder} has no {wanted[0]}: {offer}")

    def _entries(self) -> tuple[Descriptor, ...]:
        """What the folder's index lists; `NotFound` if it is no layout."""
        mark = self._document("oci-layout")
        try:
            version = strictjson.read_object(mark, what=f"{self._folder}/oci-layout").get(
                "imageLayoutVersion"
            )
        except InvalidDocument as error:
            raise Refused(str(error)) from error
        if version != _VERSION:
            raise Refused(
                f"{self._folder} is a layout of version {shown(str(version))}; only {_VERSION} is supported"
            )
        return read_index(self._document("index.json"), what=f"{self._folder}/index.json").manifests

    def _document(self, name: str) -> bytes:
        missing = f"{self._folder} is not an image layout: it has no {name}"
        return _bounded(_file_pieces(self._folder / name), self._folder / name, missing=missing)

    def _manifest(self, digest: Digest, *, served_as: str | None) -> Content:
        missing = f"{self._folder} does not hold {digest}"
        data = _bounded(self._pieces(digest), self._path(digest), missing=missing)
        return read_manifest(data, served_as=served_as, expected=digest, what=f"{self._folder}: {digest}")

    def _pieces(self, digest: Digest) -> Iterator[bytes]:
        with _read(self._path(digest)):
            with whole.opened(self._folder, *_BLOBS) as blobs:
                file = whole.open_in(blobs, digest.encoded)
            yield from whole.pieces_of(file)

    def _path(self, digest: Digest) -> Path:
        """For messages: what is there is reached through folders that are open."""
        return self._folder.joinpath(*_BLOBS, digest.encoded)

    def _prepare(self) -> None:
        """Make an empty layout where there is none; its mark comes last."""
        mark = self._folder / "oci-layout"
        if mark.exists():
            return
        with _written(mark):
            self._folder.mkdir(parents=True, exist_ok=True)
            with whole.opened(self._folder, *_BLOBS, make=True), whole.locked(self._folder / ".lock"):
                if not mark.exists():
                    whole.write_whole(self._folder / "index.json", (index_of(()).data,))
                    whole.write_whole(mark, (strictjson.encode({"imageLayoutVersion": _VERSION}),))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._prepare()
        with _written(self._folder / ".lock"), whole.locked(self._folder / ".lock"):
            yield


def _name(entry: Descriptor) -> str:
    return (entry.annotations or {}).get(_NAME, "")


def _is_tag(name: str) -> bool:
    return bool(name) and "/" not in name and ":" not in name


def _file_pieces(path: Path) -> Iterator[bytes]:
    with _read(path):
        yield from whole.read_pieces(path)


def _bounded(pieces: Iterable[bytes], path: Path, *, missing: str) -> bytes:
    data = bytearray()
    try:
        for piece in pieces:
            data += piece
            if len(data) > manifests.LARGEST_MANIFEST:
                raise TooLarge(f"{path} has more than {manifests.LARGEST_MANIFEST} bytes")
    except NotFound as error:
        raise NotFound(missing) from error
    return bytes(data)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreachable(f"{path} cannot be written: {error}") from error


@contextmanager
def _read(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{path} does not exist") from error
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error}") from error
