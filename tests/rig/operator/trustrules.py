"""The administrator's rules as a pod sees them mounted, and images that somebody has signed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from rig.registries.registry import Kind, Registry
from rig.runtimes import images
from rig.signatures.cosign import Cosign, Key

KEY_FILE = "cosign.pub"
BY_KEY = {"keys": [{"path": KEY_FILE}]}


class MountedRules:
    """A folder in which a kubelet keeps a ConfigMap: every change swaps a link to all files at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        folder.mkdir(parents=True)

    def write(self, files: Mapping[str, bytes]) -> None:
        """As after a change of the ConfigMap; files that are not named are gone."""
        version = self.folder / f"..version_{next(self._numbers)}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        self._swap(version)
        for name in files:
            link = self.folder / name
            if not link.is_symlink():
                link.symlink_to(Path("..data", name))
        for link in self.folder.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink()

    def _swap(self, version: Path) -> None:
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.replace(self.folder / "..data")


@dataclass(frozen=True)
class SignedImages:
    """A registry, and somebody with a key."""

    registry: Registry
    cosign: Cosign
    key: Key
    folder: Path

    @property
    def public_key(self) -> bytes:
        return self.key.public.read_bytes()

    def push(self, name: str, tag: str, *, words: str = "", sign: bool = True) -> tuple[str, str]:
        """Reference by tag and digest; other words are another image."""
        layout = self.folder / f"{name}-{tag}-{words}"
        if not layout.exists():
            images.write_layout([images.Image(name, f"#!/bin/false {words}\n".encode())], layout)
        digest = self.registry.client.push(layout, f"rig/{name}", tag)
        place = f"{self.registry.host}/rig/{name}"
        if sign:
            self.cosign.sign(f"{place}@{digest}", self.key)
        return f"{place}:{tag}", digest

    def rules(self, mode: str, **others: object) -> dict[str, bytes]:
        """Files that trust the key and nobody else."""
        document = {"mode": mode, "policy": BY_KEY, **others}
        return {"rules.yaml": yaml.safe_dump(document).encode(), KEY_FILE: self.public_key}


@contextmanager
def signed_images(folder: Path) -> Iterator[SignedImages]:
    """Without TLS, on loopback."""
    with Registry(Kind.REFERRERS, folder / "registry") as registry:
        cosign = Cosign(3, folder / "cosign")
        yield SignedImages(registry, cosign, cosign.new_key(), folder / "images")
