"""What is said before the verb: where containers run, which catalog counts, and where images are read."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """The flags of `schedctl` itself."""

    driver: str = "podman"
    socket: str | None = None  # None: the driver's usual one
    catalog: str | None = None  # None: none but the shipped and the updated one
    registry_ca: str | None = None  # authorities to trust beside the system's
    insecure_registries: tuple[str, ...] = ()  # hosts that are asked without TLS; loopback always is
    registry_mirrors: tuple[str, ...] = ()  # ORIGIN=COPY: where else images are read, and before their origin
    layout: str | None = None  # a folder that images are read from; None: they come from registries
