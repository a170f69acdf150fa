"""OCI images of one static program each, made from nothing but the standard library.

The same program and labels give the same bytes, so a digest is known before anything is pushed. Images are
kept as OCI layouts: folders that a registry's client pushes and `write_archive` turns into one file that
`ctr images import` and `podman load` both accept.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rig.base import cache
from rig.base.errors import RigError
from rig.build import golang
from rig.guest import schedulers
from rig.registries.distribution import IMAGE_INDEX, IMAGE_MANIFEST, digest_of

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_LAYOUT_MARK = {"imageLayoutVersion": "1.0.0"}
_EPOCH = "1970-01-01T00:00:00Z"
# what a runtime mounts over, so that a read-only root needs no new folder
_FOLDERS = ("dev", "etc", "proc", "run", "sys", "tmp", "usr", "usr/bin", "var")
PROBE_SOURCE = Path(__file__).with_name("probe")
_NOBODY = "65532:65532"


@dataclass(frozen=True)
class Image:
    """One program and how its image presents it."""

    name: str
    program: bytes
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"
    user: str = ""  # empty: root

    @property
    def entrypoint(self) -> str:
        return f"/usr/bin/{self.name}"


def scheduler(name: str, *, version: str = "") -> Path:
    """The layout of a scheduler's image; another `version` is another label, and so another digest."""
    label = f"{name}-{version or schedulers.catalog()[name].version}"
    return _kept(label, schedulers.built(), lambda: [_scheduler_image(name, version=version)])


def foreign_scheduler(name: str = "fifo") -> Path:
    """The layout of an image that exists for arm64 only."""
    return _kept(f"{name}-arm64", schedulers.built(), lambda: [_foreign_image(name)])


def multi_platform_scheduler(name: str = "fifo") -> Path:
    """The layout of an index with an image for amd64 and one for arm64."""
    both = (_scheduler_image, _foreign_image)
    return _kept(f"{name}-multi", schedulers.built(), lambda: [image(name) for image in both])


def pause() -> Path:
    """The layout of the image that holds a pod's namespaces."""
    program = schedulers.pause()
    return _kept("pause", program.parent, lambda: [Image("pause", program.read_bytes(), user=_NOBODY)])


def probe() -> Path:
    """The layout of the image that tests run in pods; probe/main.go says what it can do."""
    program = golang.build("probe", PROBE_SOURCE)
    return _kept("probe", program.parent, lambda: [Image("probe", program.read_bytes(), user=_NOBODY)])


def scheduler_labels(name: str, *, version: str = "") -> dict[str, str]:
    """The labels that users of scheduler images rely on."""
    one = schedulers.catalog()[name]
    oci = "org.opencontainers.image"
    return {
        f"{oci}.title": one.file_name,
        f"{oci}.description": f"A test scheduler that {one.does}",
        f"{oci}.documentation": f"https://schedkit.example/docs/{one.file_name}",
        f"{oci}.source": "https://schedkit.example/source",
        f"{oci}.version": version or one.version,
        "org.schedkit.scheduler.kernel.min-version": "6.12",
    }


def _scheduler_image(name: str, *, version: str = "") -> Image:
    labels = scheduler_labels(name, version=version)
    return Image(schedulers.catalog()[name].file_name, schedulers.binary(name).read_bytes(), labels)


def _foreign_image(name: str) -> Image:
    program = schedulers.foreign().read_bytes()
    return replace(_scheduler_image(name), program=program, architecture="arm64")


def _kept(label: str, built: Path, images: Callable[[], Sequence[Image]]) -> Path:
    """A layout in the cache, written once per state of the programs and of this file."""

    def fill(folder: Path) -> None:
        write_layout(images(), folder)

    key = cache.digest(built.name, Path(__file__).read_bytes())
    return cache.entry("images", f"{label}-{key}", fill)


def write_layout(images: Sequence[Image], folder: Path) -> str:
    """Write one image, or an index over several platforms; return the digest by which it is pulled."""
    manifests = [_write_image(image, folder) for image in images]
    top = manifests[0] if len(manifests) == 1 else _write_blob(_index_of(manifests), IMAGE_INDEX, folder)
    (folder / "oci-layout").write_bytes(_json(_LAYOUT_MARK))
    (folder / "index.json").write_bytes(_json(_index_of([top])))
    return str(top["digest"])


def digest(layout: Path) -> str:
    """The digest of the layout's image or index."""
    return str(_top(layout)["digest"])


def file_sizes(layout: Path) -> Iterator[int]:
    """The size of each file in each layer, unpacked."""
    manifest = json.loads((layout / "blobs" / digest(layout).replace(":", "/")).read_bytes())
    for layer in manifest["layers"]:
        with tarfile.open(layout / "blobs" / layer["digest"].replace(":", "/")) as archive:
            yield from (entry.size for entry in archive)


def write_archive(layout: Path, reference: str, archive: Path) -> None:
    """One file with the layout under that name, for `ctr images import` and `podman load`."""
    _, _, tag = _split(reference)
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag}
    top = {**_top(layout), "annotations": names}
    blobs = sorted((layout / "blobs").glob("*/*"))
    files = {str(file.relative_to(layout)): file.read_bytes() for file in (layout / "oci-layout", *blobs)}
    files["index.json"] = _json(_index_of([top]))
    if top["mediaType"] == IMAGE_MANIFEST:  # Docker's older format has no word for an index
        files["manifest.json"] = _json([_docker_entry(layout, reference)])
    archive.write_bytes(_tar([_file(name, content, 0o644) for name, content in files.items()]))


def _split(reference: str) -> tuple[str, str, str]:
    host, _, rest = reference.partition("/")
    repository, colon, tag = rest.rpartition(":")
    if not (host and repository and colon and tag):
        raise RigError(f"{reference!r} is no full reference; write host:port/repository:tag")
    return host, repository, tag


def _top(layout: Path) -> dict[str, Any]:
    top: dict[str, Any] = json.loads((layout / "index.json").read_bytes())["manifests"][0]
    return top


def _write_image(image: Image, folder: Path) -> dict[str, Any]:
    """The descriptor of the image's manifest; its blobs are in the folder."""
    tree = _layer(image)
    # no name and no time in the gzip header: they would differ between two runs
    layer = _write_blob(gzip.compress(tree, mtime=0), _LAYER, folder)
    config = _write_blob(_config(image, digest_of(tree)), _CONFIG, folder)
    manifest = {"schemaVersion": 2, "mediaType": IMAGE_MANIFEST, "config": config, "layers": [layer]}
    platform = {"architecture": image.architecture, "os": "linux"}
    return {**_write_blob(manifest, IMAGE_MANIFEST, folder), "platform": platform}


def _config(image: Image, diff_id: str) -> dict[str, Any]:
    run: dict[str, Any] = {"Entrypoint": [image.entrypoint], "Env": ["PATH=/usr/bin"], "WorkingDir": "/"}
    run |= {"Labels": dict(image.labels)} if image.labels else {}
    run |= {"User": image.user} if image.user else {}
    return {
        "created": _EPOCH,
        "architecture": image.architecture,
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": _EPOCH, "created_by": f"COPY {image.name} {image.entrypoint}"}],
    }


def _write_blob(content: bytes | dict[str, Any], media_type: str, folder: Path) -> dict[str, Any]:
    """Store it under its digest; return its descriptor."""
    body = content if isinstance(content, bytes) else _json(content)
    name = digest_of(body)
    file = folder / "blobs" / name.replace(":", "/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body)
    return {"mediaType": media_type, "digest": name, "size": len(body)}


def _index_of(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": list(manifests)}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _docker_entry(layout: Path, reference: str) -> dict[str, Any]:
    manifest = json.loads((layout / "blobs" / digest(layout).replace(":", "/")).read_bytes())
    parts = (manifest["config"], *manifest["layers"])
    paths = [f"blobs/{part['digest'].replace(':', '/')}" for part in parts]
    return {"Config": paths[0], "RepoTags": [reference], "Layers": paths[1:]}


def _layer(image: Image) -> bytes:
    """The image's whole root as an uncompressed archive."""
    folders = [_folder(name, 0o1777 if name == "tmp" else 0o755) for name in _FOLDERS]
    link = tarfile.TarInfo("var/run")
    link.type, link.linkname = tarfile.SYMTYPE, "../run"
    return _tar([*folders, (link, b""), _file(image.entrypoint.lstrip("/"), image.program, 0o755)])


def _folder(name: str, mode: int) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry, b""


def _file(name: str, content: bytes, mode: int) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    return entry, content


def _tar(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """TarInfo's own defaults are root, and the beginning of time: the same bytes on every machine."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
