"""The operator's own image, built by `make docker-build` with Podman on a base made from Debian packages.

It is kept as an OCI layout, like the other images of the rig, and built anew when anything that goes into it
changes.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from functools import cache as once
from pathlib import Path

from rig.base import cache, processes
from rig.base.progress import step
from rig.build import debian
from rig.registries.registry import Registry
from rig.runtimes import images
from rig.runtimes.podman import Podman

ROOT = Path(__file__).parents[3]
_BUILT_FROM = (
    "Containerfile",
    "tools/image.py",
    "uv.lock",
    "src/schedkit",
    "tests/rig/operator/operatorimage.py",
)
_BUILDS_WITHIN_S = 600
# the Python that Containerfile's own base has, with what its standard library links to and nothing else
_SUITE = "bookworm"
_PACKAGES = (
    *("python3-minimal", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *(
        "libc6",
        "libgcc-s1",
        "libssl3",
        "zlib1g",
        "libexpat1",
        "libffi8",
        "libbz2-1.0",
        "liblzma5",
        "libuuid1",
    ),
)
_NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/lintian", "usr/lib/x86_64-linux-gnu/gconv")
_USERS = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"


def reference(registry: Registry, tag: str = "test") -> str:
    """The image in that registry, under the name that host, nodes and pods share."""
    registry.client.push(layout(), "rig/sked", tag)
    return f"{registry.named_host}/rig/sked:{tag}"


@once
def layout() -> Path:
    """The OCI layout of the image of this very checkout."""
    key = cache.digest(_base_key(), *_inputs())
    return cache.entry("operator-image", key, _build)


def unpacked_mb() -> float:
    """What the image's files take on a node, in millions of bytes."""
    return sum(images.file_sizes(layout())) / 1e6


def _inputs() -> Iterator[bytes]:
    for name in _BUILT_FROM:
        path = ROOT / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            yield str(file.relative_to(ROOT)).encode()
            yield file.read_bytes()


def _base_key() -> str:
    return debian.Suite(_SUITE).key("operator-base", _PACKAGES, needs=False)


def _build(folder: Path) -> None:
    processes.require_mounts("the operator's image", "Podman's namespaces and mounts need root")
    scratch = processes.run_folder("operator-image")
    try:
        with step("building the operator's image"), Podman(scratch) as podman:
            _build_with(podman, scratch)
            podman.run(
                "save",
                "--format",
                "oci-dir",
                "--uncompressed",
                "--output",
                str(folder),
                "rig.test/sked:built",
            )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _build_with(podman: Podman, scratch: Path) -> None:
    base = scratch / "base.tar"
    _write_base(base)
    podman.run("import", str(base), "rig.test/base:1")
    tool = scratch / "podman-of-the-rig"
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(podman.command())} "$@"\n')
    tool.chmod(0o755)
    words = ("docker-build", "IMG=rig.test/sked:built", "BASE=rig.test/base:1", f"CONTAINER_TOOL={tool}")
    processes.run(["make", *words], cwd=ROOT, timeout_s=_BUILDS_WITHIN_S, env=os.environ)


def _write_base(archive: Path) -> None:
    """The root of the base image."""
    tree = debian.Suite(_SUITE).tree("operator-base", _PACKAGES, needs=False)
    users = archive.with_name("passwd")
    users.write_text(_USERS)
    with tarfile.open(archive, "w") as out:
        out.add(tree, ".", filter=_owned_by_root)
        out.add(users, "etc/passwd", filter=_owned_by_root)


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.removeprefix("./").startswith(_NOT_NEEDED):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
