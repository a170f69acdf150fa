"""Signatures that the public Sigstore really took part in: test data of modules that others publish."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rig.base import cache
from rig.base.errors import RigError
from rig.base.progress import step
from rig.build import golang


@dataclass(frozen=True)
class File:
    """A file in a pinned version of a Go module."""

    name: str
    module: str
    path: str
    sha256: str


_COSIGN = "github.com/sigstore/cosign/v3@v3.0.2"
_IMAGE = "github.com/containers/image/v5@v5.36.2"
_SIGNED = "signature/fixtures/dir-img-cosign-fulcio-rekor-valid"
FILES = (
    File(
        "bundle.json",
        _COSIGN,
        "pkg/cosign/testdata/oci-attestation.sigstore.json",
        "a6c1fc36d2a9d6c7844bdb3caf052947fc48b4360e421d637d4647db40d4f9b0",
    ),
    File(
        "manifest.json",
        _IMAGE,
        f"{_SIGNED}/manifest.json",
        "0489474da8ea22426ece86ace6c1c0026ab2fd3cdfbbd62b7e94650266c37d9a",
    ),
    File(
        "signature",
        _IMAGE,
        f"{_SIGNED}/signature-1",
        "24271af074f5d330cd64259d7cfb42cc191b751aaa42ef845688c2d7257718be",
    ),
)


def folder() -> Path:
    """All of them, under their names."""
    key = cache.digest(*(f"{file.module} {file.path} {file.sha256}" for file in FILES))
    return cache.entry("genuine", key, _fetch)


def _fetch(target: Path) -> None:
    with step("genuine signatures: fetching from Go modules"):
        for file in FILES:
            golang.fetch_file(file.module, file.path, target / file.name)
            found = hashlib.sha256((target / file.name).read_bytes()).hexdigest()
            if found != file.sha256:
                raise RigError(f"{file.path} of {file.module} has the hash {found}, not {file.sha256}")
