"""What an image says about itself: its labels, how it starts, and what it runs on."""

from __future__ import annotations

from typing import Final

import msgspec

from schedkit.model.images import strictjson
from schedkit.model.images.references import Platform

LARGEST: Final = 1 << 20
MIN_KERNEL: Final = "org.schedkit.scheduler.kernel.min-version"
NEEDS_TRACING: Final = "org.schedkit.scheduler.needs.tracing"  # true or false
OCI: Final = "org.opencontainers.image"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Run(msgspec.Struct, frozen=True, rename="pascal"):
    """How a container of the image starts, in the words of image configurations."""

    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None
    user: str | None = None
    labels: dict[str, str] | None = None


class RootFs(msgspec.Struct, frozen=True):
    """What the layers are when they are not compressed."""

    diff_ids: tuple[str, ...] = ()


class ImageConfig(msgspec.Struct, frozen=True):
    """An image's configuration, as far as we use it."""

    architecture: str
    os: str
    variant: str = ""
    config: Run = Run()
    rootfs: RootFs = RootFs()

    @property
    def platform(self) -> Platform:
        """What its programs run on."""
        return Platform(self.os, self.architecture, self.variant)

    @property
    def labels(self) -> dict[str, str]:
        """All labels."""
        return self.config.labels or {}

    @property
    def needs_tracing(self) -> bool | None:
        """Whether its program must see what the kernel can trace, by its label; None: it does not say."""
        return {"true": True, "false": False}.get(self.labels.get(NEEDS_TRACING, ""))


def parse_config(data: bytes) -> ImageConfig:
    """Read an image's configuration; raises `InvalidDocument`."""
    return strictjson.decode(data, ImageConfig, what="the image's configuration")


def platform_of(machine: str) -> Platform:
    """The platform of a Linux machine, from what `uname -m` calls it."""
    return Platform("linux", _ARCHITECTURES.get(machine, machine))


def machine_of(architecture: str) -> str:
    """What `uname -m` calls a machine of that architecture."""
    return next((machine for machine, each in _ARCHITECTURES.items() if each == architecture), architecture)
