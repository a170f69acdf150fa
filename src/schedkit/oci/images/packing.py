"""Making images without a container engine: one program, what it needs to start, and labels.

The same input gives the same bytes: no time, no user and no file name of the machine gets into an image.
Layers are compressed by zlib itself, whose header carries neither.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schedkit.model.images import strictjson
from schedkit.model.images.content import Content, digest_of
from schedkit.model.images.manifests import IMAGE_INDEX, IMAGE_MANIFEST, render_index, render_manifest
from schedkit.model.images.references import Descriptor, Platform, Reference
from schedkit.oci.images.ports import Target

_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_EPOCH: Final = "1970-01-01T00:00:00Z"
_GZIP: Final = 31  # zlib's word for its largest window in a gzip wrapper
# what runtimes mount over, so that a read-only root needs no new folder
_FOLDERS: Final = ("boot", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "usr/bin", "usr/lib", "var")
_LIBRARIES: Final = "/usr/lib"


@dataclass(frozen=True, slots=True)
class Contents:
    """What one platform's image is made of."""

    name: str
    program: bytes
    platform: Platform
    labels: Mapping[str, str]
    arguments: Sequence[str] = ()
    libraries: Mapping[str, bytes] = field(default_factory=dict)  # by the name that the interpreter looks for
    interpreter: tuple[str, bytes] | None = None  # where the kernel looks for it; None: there is none

    @property
    def entrypoint(self) -> str:
        """Where the program lies in the image."""
        return f"/usr/bin/{self.name}"


@dataclass(frozen=True, slots=True)
class Packed:
    """An image: all its parts, and at the end what is pulled."""

    blobs: tuple[Content, ...]
    manifests: tuple[Content, ...]  # the last is the top

    @property
    def top(self) -> Content:
        """The manifest, or the index over several platforms."""
        return self.manifests[-1]

    @property
    def platforms(self) -> tuple[str, ...]:
        """What it runs on, sorted."""
        return tuple(str(each.descriptor.platform) for each in self.manifests if each.descriptor.platform)


def pack(images: Sequence[Contents]) -> Packed:
    """One image, or an index over several platforms, which are sorted."""
    packed = [_pack_one(each) for each in sorted(images, key=lambda each: each.platform)]
    blobs = tuple(blob for one in packed for blob in one.blobs)
    manifests = tuple(one.top for one in packed)
    if len(packed) == 1:
        return Packed(blobs, manifests)
    return Packed(blobs, (*manifests, _index(manifests)))


def _pack_one(contents: Contents) -> Packed:
    tree = _root(contents)
    layer = _content(_LAYER, zlib.compress(tree, 9, wbits=_GZIP))
    config = _content(_CONFIG, strictjson.encode(_configuration(contents, digest_of(tree))))
    body = render_manifest(config=config.descriptor, layers=[layer.descriptor])
    manifest = _content(IMAGE_MANIFEST, body, contents.platform)
    return Packed((config, layer), (manifest,))


def _index(manifests: Sequence[Content]) -> Content:
    return _content(IMAGE_INDEX, render_index(manifest.descriptor for manifest in manifests))


def _content(media_type: str, data: bytes, platform: Platform | None = None) -> Content:
    return Content(Descriptor(media_type, digest_of(data), len(data), platform=platform), data)


def _configuration(contents: Contents, diff_id: str) -> dict[str, Any]:
    environment = ["PATH=/usr/bin"]
    if contents.libraries:
        # interpreters differ in where they look by themselves
        environment.append(f"LD_LIBRARY_PATH={_LIBRARIES}")
    run: dict[str, Any] = {"Entrypoint": [contents.entrypoint], "Env": environment, "WorkingDir": "/"}
    run |= {"Cmd": list(contents.arguments)} if contents.arguments else {}
    platform = contents.platform
    variant = {"variant": platform.variant} if platform.variant else {}
    return {
        "created": _EPOCH,
        "architecture": platform.architecture,
        "os": platform.os,
        **variant,
        "config": {**run, "Labels": dict(sorted(contents.labels.items()))},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": _EPOCH, "created_by": f"schedctl package {contents.name}"}],
    }


def _root(contents: Contents) -> bytes:
    """The image's whole root as an uncompressed archive."""
    files = {contents.entrypoint: contents.program}
    files |= {f"{_LIBRARIES}/{name}": library for name, library in contents.libraries.items()}
    if contents.interpreter is not None:
        place, program = contents.interpreter
        files[place] = program
    folders = sorted({*_FOLDERS, *_parents(files)})
    link = tarfile.TarInfo("var/run")
    link.type, link.linkname = tarfile.SYMTYPE, "../run"
    entries = [_folder(name) for name in folders]
    return _archive([*entries, (link, b""), *(_file(name, files[name]) for name in sorted(files))])


def _parents(files: Iterable[str]) -> set[str]:
    found = set()
    for file in files:
        folders = file.strip("/").split("/")[:-1]
        found |= {"/".join(folders[: count + 1]) for count in range(len(folders))}
    return found


def _folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    return entry, b""


def _file(name: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name.strip("/"))
    entry.size, entry.mode = len(content), 0o755
    return entry, content


def _archive(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """TarInfo's own defaults are root, and the beginning of time: the same on every machine."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def push(target: Target, packed: Packed, reference: Reference) -> None:
    """Store all parts, and last what is pulled, under the reference's tag."""
    for blob in packed.blobs:
        _push_blob(target, reference, blob)
    for manifest in packed.manifests[:-1]:
        target.push_manifest(reference.repository, manifest)
    target.push_manifest(reference.repository, packed.top, tag=reference.tag)


def _push_blob(target: Target, reference: Reference, blob: Content) -> None:
    target.push_blob(reference.repository, blob.descriptor, lambda: (blob.data,))
