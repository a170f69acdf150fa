"""Policies as they were read before: loading YAML takes longer than all else that a kept verdict needs.

What is kept is the document that a text says, found by the whole text: another text is read anew. What the
document means, and the files that it names, are looked at each time.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any, Final

import msgspec

from schedkit import __version__
from schedkit.disk import guarded, whole
from schedkit.oci.policy.files import Load, load_yaml

_MAX_READING: Final = 2 << 20  # a document of many short words takes more space than its text


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reading on disk."""

    text: str
    document: dict[str, Any]


class Readings(msgspec.Struct, frozen=True):
    """The readings in a folder; one that others can write to is as good as empty."""

    folder: Path

    def load(self, text: bytes, load: Load = load_yaml) -> object:
        """As `load`, but what it said before is enough; what it says now is kept where that is possible."""
        name = _name(text)
        found = self._find(name)
        if found is not None:
            return found
        document = load(text)
        with contextlib.suppress(OSError):  # a cache that cannot be written costs time, and nothing else
            self._keep(name, document)
        return document

    def _find(self, name: str) -> dict[str, Any] | None:
        try:
            data = guarded.read_file(self.folder, _file(name), limit=_MAX_READING)
            kept = msgspec.json.decode(data, type=_Kept)
        except (OSError, ValueError, RecursionError):  # msgspec's own errors are ValueErrors
            return None
        return kept.document if kept.text == name else None

    def _keep(self, name: str, document: object) -> None:
        data = _faithful(name, document)
        if data is None:
            return
        guarded.make_folder(self.folder)
        whole.write_whole(self.folder / _file(name), [data], mode=0o600)
        whole.keep_newest(self.folder)


def _faithful(name: str, document: object) -> bytes | None:
    """The document as JSON; None: that would say something else, as of dates and names that are numbers."""
    if not isinstance(document, dict):
        return None
    try:
        data = msgspec.json.encode({"text": name, "document": document})
        is_same = msgspec.json.decode(data, type=_Kept).document == document
    except (TypeError, ValueError, RecursionError):
        return None
    return data if is_same and len(data) <= _MAX_READING else None


def _name(text: bytes) -> str:
    """What tells the text from any other; with the version, because a reader that was wrong may be mended."""
    return hashlib.sha256(f"{__version__} {hashlib.sha256(text).hexdigest()}".encode()).hexdigest()


def _file(name: str) -> str:
    return f"policy-{name}.json"
