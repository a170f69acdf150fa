"""Images in containerd: verified bytes in, unpacked layers out."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from schedkit.model.images.content import digest_of
from schedkit.model.images.references import Descriptor
from schedkit.runtimes.containerd.calls import CallError, Calls
from schedkit.runtimes.errors import BrokenImageError, ContainerRuntimeError
from schedkit.runtimes.image_content import ImageContent, Meter, whole_layer

SNAPSHOTTER = "overlayfs"
_UNPACK_TIMEOUT_S = 600
# a lease of a killed schedctl must not keep half an image for ever
_LEASE = timedelta(hours=1)
_STAT, _WRITE, _COMMIT = range(3)


@contextmanager
def lease(rpc: Calls) -> Iterator[str]:
    """Nothing made under this lease is collected before the end of the block."""
    name = f"schedkit-{secrets.token_hex(8)}"
    until = (datetime.now(UTC) + _LEASE).strftime("%Y-%m-%dT%H:%M:%SZ")
    rpc.call("Leases.Create", id=name, labels={"containerd.io/gc.expire": until})
    try:
        yield name
    finally:
        with suppress(CallError, ContainerRuntimeError):  # it expires by itself
            rpc.call("Leases.Delete", id=name)


def load(rpc: Calls, image: ImageContent, meter: Meter) -> None:
    """Store, unpack and name the image."""
    with lease(rpc) as held:
        done, chain = 0, ""
        for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
            labels = {"containerd.io/uncompressed": diff_id}
            _store(rpc, layer, meter.count(whole_layer(image, layer)), labels, held)
            chain = _unpack(rpc, layer, diff_id, chain, held)
            done += layer.size
            meter.reach(done)  # also when containerd had the layer already
        snapshot = {f"containerd.io/gc.ref.snapshot.{SNAPSHOTTER}": chain}
        _store(rpc, image.config.descriptor, [image.config.data], snapshot, held)
        _store(rpc, image.manifest.descriptor, [image.manifest.data], _references(image), held)
        _name(rpc, image.reference, image.manifest.descriptor, held)


def chain_id(diff_ids: tuple[str, ...]) -> str:
    """The name of the snapshot in which these layers lie over each other."""
    chain = diff_ids[0]
    for diff_id in diff_ids[1:]:
        chain = digest_of(f"{chain} {diff_id}".encode())
    return chain


def config_of(rpc: Calls, reference: str) -> tuple[bytes, str]:
    """The configuration of an image that was loaded, and the name of the snapshot with its layers."""
    target = rpc.call("Images.Get", name=reference).image.target.digest
    try:
        config = _read(rpc, json.loads(_read(rpc, target))["config"]["digest"])
        return config, chain_id(tuple(json.loads(config)["rootfs"]["diff_ids"]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        problem = f"containerd's {reference} is not an image for one platform"
        raise BrokenImageError(problem, "load it with schedctl, by the digest of its manifest") from error


def _read(rpc: Calls, digest: str) -> bytes:
    return b"".join(answer.data for answer in rpc.read("Content.Read", digest=digest))


def _store(
    rpc: Calls, blob: Descriptor, pieces: Iterable[bytes], labels: Mapping[str, str], held: str
) -> None:
    """Write a blob unless it is there; with these labels in either case."""
    ingest = f"{held}-{blob.digest}"
    try:
        rpc.converse("Content.Write", _writes(rpc, ingest, blob, pieces, labels), lease=held)
    except CallError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        info = rpc.message("ContentInfo", digest=blob.digest, labels=labels)
        changed = {"paths": [f"labels.{name}" for name in labels]}
        rpc.call("Content.Update", info=info, update_mask=changed, lease=held)
    finally:
        with suppress(CallError, ContainerRuntimeError):  # there is nothing to abort once it is written
            rpc.call("Content.Abort", ref=ingest)


def _writes(
    rpc: Calls, ingest: str, blob: Descriptor, pieces: Iterable[bytes], labels: Mapping[str, str]
) -> Iterator[Any]:
    """First a question, so that nothing is fetched that is there; then the bytes; then the end."""
    offset, same = 0, {"ref": ingest, "total": blob.size, "expected": blob.digest}
    yield rpc.message("WriteContent", action=_STAT, **same)
    for piece in pieces:
        yield rpc.message("WriteContent", action=_WRITE, offset=offset, data=piece, **same)
        offset += len(piece)
    yield rpc.message("WriteContent", action=_COMMIT, offset=offset, labels=labels, **same)


def _unpack(rpc: Calls, layer: Descriptor, diff_id: str, parent: str, held: str) -> str:
    """The name of the snapshot with this layer on top of its parent."""
    chain = chain_id((parent, diff_id) if parent else (diff_id,))
    with suppress(CallError):  # it is not there
        rpc.call("Snapshots.Stat", snapshotter=SNAPSHOTTER, key=chain)
        return chain
    key = f"{held} {chain}"
    made = rpc.call("Snapshots.Prepare", snapshotter=SNAPSHOTTER, key=key, parent=parent, lease=held)
    try:
        _apply(rpc, layer, diff_id, made.mounts, held)
        rpc.call("Snapshots.Commit", snapshotter=SNAPSHOTTER, name=chain, key=key, lease=held)
    except BaseException as error:
        with suppress(CallError, ContainerRuntimeError):
            rpc.call("Snapshots.Remove", snapshotter=SNAPSHOTTER, key=key)
        if not (isinstance(error, CallError) and error.code == "ALREADY_EXISTS"):  # somebody was faster
            raise
    return chain


def _apply(rpc: Calls, layer: Descriptor, diff_id: str, mounts: object, held: str) -> None:
    diff = rpc.message("Descriptor", media_type=layer.media_type, digest=layer.digest, size=layer.size)
    answer = rpc.call("Diff.Apply", diff=diff, mounts=mounts, lease=held, timeout_s=_UNPACK_TIMEOUT_S)
    if answer.applied.digest != diff_id:
        problem = f"layer {layer.digest} unpacks to {answer.applied.digest}, not to {diff_id}"
        raise BrokenImageError(problem, "the image was published broken: tell its publisher")


def _references(image: ImageContent) -> dict[str, str]:
    """What the collector must keep along with a manifest."""
    parts = [("config", image.config.descriptor), *((f"l.{i}", one) for i, one in enumerate(image.layers))]
    return {f"containerd.io/gc.ref.content.{name}": str(part.digest) for name, part in parts}


def _name(rpc: Calls, reference: str, manifest: Descriptor, held: str) -> None:
    target = rpc.message(
        "Descriptor", media_type=manifest.media_type, digest=manifest.digest, size=manifest.size
    )
    image = rpc.message("Image", name=reference, target=target)
    try:
        rpc.call("Images.Create", image=image, lease=held)
    except CallError as error:
        if error.code != "ALREADY_EXISTS":
            raise
        rpc.call("Images.Update", image=image, lease=held)
