"""What is said before the verb: where the containers run, and which catalog counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags of `schedctl` itself."""

    driver: str = "podman"
    socket: str | None = None  # None: the driver's usual one
    catalog: str | None = None  # None: none but the shipped and the updated one
    registry_ca: str | None = None  # authorities to trust beside the system's
    insecure_registries: frozenset[str] = frozenset()  # hosts that are asked without TLS; loopback always is
