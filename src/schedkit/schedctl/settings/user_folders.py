"""Folders of this user: the home, and where `schedctl` keeps its data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def home() -> Path:
    """The user's home; for one who has none, as in some containers, the root folder."""
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor the system knows one
        return Path("/")


def data_folder(environment: Mapping[str, str]) -> Path:
    """Where this user's updated catalog and trusted root are, or would be."""
    chosen = environment.get("XDG_DATA_HOME", "")
    base = Path(chosen) if chosen.startswith("/") else home() / ".local/share"
    return (base / "schedkit").absolute()
