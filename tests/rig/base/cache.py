"""One folder outside the clone for everything heavy; every entry can be deleted at any time.

An entry is named by kind and by a key that holds its versions. It is built in a scratch folder
under a lock and renamed into place, so that a killed build leaves nothing that looks finished.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.base.errors import RigError, Unavailable


def root() -> Path:
    """The cache folder: `$XDG_CACHE_HOME/schedkit`, `~/.cache/schedkit` by default."""
    named = os.environ.get("XDG_CACHE_HOME")
    base = named or f"{Path.home()}/.cache"
    if not re.fullmatch(r"""/[^\s'"]*""", base):  # it goes through shells and kernel command lines
        which = "XDG_CACHE_HOME" if named else "HOME or XDG_CACHE_HOME"
        raise RigError(f"set {which} to an absolute path without a space or quote, not to {base}")
    path = Path(base) / "schedkit"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{path} cannot be made: {error.strerror}"
        raise Unavailable("the cache", why, "set XDG_CACHE_HOME to a writable folder") from error
    return path


def size_mib(folder: Path) -> int:
    """What a folder takes on disk; of one that is being written, what is there now."""
    done = subprocess.run(["du", "-sm", folder], capture_output=True, text=True, check=False)
    return int((done.stdout.split() or ["0"])[0])


def digest(*parts: str | bytes) -> str:
    """Twelve hex digits that change when any part does."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:12]


def write(file: Path, text: str) -> None:
    """Write a small file whole or not at all: a reader never finds half of it, whenever the writer ends."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.write_text(text)
    beside.rename(file)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache-wide lock of that name; a second process waits instead of building twice."""
    folder = root() / "locks"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The finished folder `kind/key`; `build` fills it once, in a scratch folder."""
    final = root() / kind / key
    if final.is_dir():
        return final
    with locked(f"{kind}-{key}"):
        if not final.is_dir():
            _build(final, build)
    return final


def has(kind: str, key: str) -> bool:
    """Whether the folder `kind/key` is finished."""
    return (root() / kind / key).is_dir()


def _build(final: Path, build: Callable[[Path], None]) -> None:
    scratch = final.with_name(f".building-{final.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    build(scratch)
    scratch.rename(final)
