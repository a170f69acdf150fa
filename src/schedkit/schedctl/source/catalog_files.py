"""Reading and keeping catalogs: the shipped one, the user's updated copy over it, and what `--catalog` names.

Each layer replaces whole entries of those below it. The updated copy lies in the user's data folder, beside a
note on where it came from.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

import schedkit
from schedkit.disk import guarded, whole
from schedkit.model.catalog import MAX_BYTES, Entries, InvalidCatalog, Layer, parse_catalog, render_catalog
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.settings.user_folders import data_folder

SHIPPED: Final = Path(schedkit.__file__).with_name("catalog.json")
UPDATED: Final = "updated copy"


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the updated copy came from, and why it was believed."""

    source: str
    sha256: str  # of the catalog as it was fetched
    updated: str
    signer: str | None = None  # None: its sha256 was given instead
    signed: str | None = None  # when, in UTC; None: nobody who is trusted says so


@dataclass(frozen=True, slots=True)
class Kept:
    """The user's updated copy: its file, and the note beside it."""

    folder: Path

    @property
    def file(self) -> Path:
        """The catalog."""
        return self.folder / "catalog.json"

    @property
    def note(self) -> Path:
        """Where it came from."""
        return self.folder / "catalog.provenance.json"

    def provenance(self) -> Provenance | None:
        """The note, or None when there is none that can be read."""
        with suppress(OSError, ValueError):
            note = guarded.read_file(self.folder, self.note.name, limit=MAX_BYTES)
            return msgspec.json.decode(note, type=Provenance)
        return None

    def replace(self, entries: Entries, provenance: Provenance) -> None:
        """Keep these entries; whoever reads meanwhile sees the old catalog or the new one.

        The note comes last: it must not speak of a catalog that is not there.
        """
        try:
            guarded.make_folder(self.folder)
        except guarded.Unguarded as error:
            remedy = "let only this user write there, or name another folder with XDG_DATA_HOME"
            raise Problem(
                f"the catalog cannot be kept in {self.folder}", why=str(error), remedy=remedy
            ) from error
        whole.write_whole(self.file, (render_catalog(entries),))
        note = msgspec.json.format(msgspec.json.encode(provenance), indent=2)
        whole.write_whole(self.note, (note, b"\n"))

    def entries(self) -> Entries:
        """What is kept, or nothing where it is not there or damaged: it is about to be replaced."""
        with suppress(OSError, InvalidCatalog):
            return parse_catalog(guarded.read_file(self.folder, self.file.name, limit=MAX_BYTES))
        return {}


def kept(environment: Mapping[str, str]) -> Kept:
    """Where this user's updated copy lies, or would lie."""
    return Kept(data_folder(environment))


def shipped() -> Layer:
    """The catalog of this version of schedkit."""
    return Layer("schedkit", parse_catalog(SHIPPED.read_bytes()))


def updated(copy: Kept) -> Layer | None:
    """The user's updated copy, or None when there is none; only what nobody else can write is believed."""
    text = _read_guarded(copy)
    return None if text is None else Layer(UPDATED, parse_named(text, str(copy.file)))


def _read_guarded(copy: Kept) -> bytes | None:
    try:
        return guarded.read_file(copy.folder, copy.file.name, limit=MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        if not os.path.lexists(copy.file):
            return None
        remedy = f"delete {copy.file}, and fetch it again with `schedctl catalog update`"
        raise Problem("the updated catalog is not trusted", why=str(error), remedy=remedy) from error


def read_obeyed(file: Path) -> bytes:
    """As `read_file`, but root reads none that somebody else could have written."""
    try:
        return guarded.read_obeyed(file, MAX_BYTES + 1)
    except guarded.Unguarded as error:
        raise Problem(f"{file} is not used", why=str(error), remedy=error.remedy) from error


def read_file(file: Path) -> bytes:
    """The file's bytes, or one more than a catalog may have: then parsing refuses it."""
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def parse_named(text: bytes, name: str) -> Entries:
    """Read a catalog; an error says which one it is about."""
    try:
        return parse_catalog(text)
    except InvalidCatalog as error:
        raise InvalidCatalog(f"{name}: {error}") from error


def sha256(text: bytes) -> str:
    """The checksum as users write it."""
    return hashlib.sha256(text).hexdigest()
