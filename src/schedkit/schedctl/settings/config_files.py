"""Configuration files: where they lie, whose word counts, and what is wrong with one.

Later files count more. A file that cannot be used is an error and never passed over: it may be the one that
says whom to trust. Root obeys no file that somebody else could have written.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.settings.table import LONGEST_S, SETTINGS, Setting, Value

SYSTEM = Path("/etc/schedkit/config.toml")
_LARGEST = 64 << 10


class File(NamedTuple):
    """A place where a file may lie, and what the file says, by the names of settings."""

    path: Path
    is_there: bool
    values: Mapping[str, Value]


class Configuration(NamedTuple):
    """All files, those that count more after those that count less."""

    files: tuple[File, ...]

    def deciding(self, name: str) -> File | None:
        """The file whose word counts about that setting; None: no file speaks of it."""
        return next((file for file in reversed(self.files) if name in file.values), None)


def places(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The machine's file, then that of the user whose home this is."""
    chosen = environment.get("XDG_CONFIG_HOME", "")
    base = chosen if chosen.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111 - it never fails
    own = Path(base, "schedkit/config.toml")
    return (SYSTEM, own) if own.is_absolute() else (SYSTEM,)


def read(paths: Iterable[Path]) -> Configuration:
    """What the files say; a `Problem` names the first that cannot be used, and all that is wrong in it."""
    return Configuration(tuple(_read(path) for path in paths))


def _read(path: Path) -> File:
    content = _content(path)
    return File(path, is_there=content is not None, values={} if content is None else parse(content, path))


def _content(path: Path) -> bytes | None:
    """The file's bytes; None if there is no file."""
    try:
        path.lstat()  # most machines have none, and need not import what guards one
        return _guarded(path) if os.geteuid() == 0 else path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error) from error


def _guarded(path: Path) -> bytes:
    from schedkit.disk import guarded  # noqa: PLC0415 - see above

    return guarded.read_file(path.parent, path.name, limit=_LARGEST)


def _unreadable(path: Path, error: OSError) -> Problem:
    what = f"{path} is not used"
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        why = "its path contains a link, which root does not follow, or a file instead of a folder"
        return Problem(
            what, why=why, remedy="put the file itself at this path, in folders that are not links"
        )
    remedy = (
        "make root the owner of the file and of every folder above it, and let only root write to them; "
        "with sudo, `sudo -H` uses root's home folder"
    )
    return Problem(what, why=error.strerror or str(error), remedy=remedy if os.geteuid() == 0 else "")


def parse(content: bytes, path: Path) -> dict[str, Value]:
    """The settings in a file by their names; a `Problem` says all that is wrong, and in which lines."""
    import tomllib  # noqa: PLC0415 - most machines have no such file

    try:
        text = content.decode()
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text
        raise _unusable(path, [f"it is not TOML: {error}"]) from error
    known = {setting.key: setting for setting in SETTINGS if setting.key}
    wrong = [f"line {_line(text, key)}: {words}" for key, words in _faults(document, known)]
    if wrong:
        raise _unusable(path, wrong)
    return {known[key].name: _value(value) for key, value in document.items()}


def _unusable(path: Path, faults: Iterable[str]) -> Problem:
    return Problem(f"{path} cannot be used", why="; ".join(faults), remedy="correct it, or move it away")


def _faults(document: Mapping[str, Any], known: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Each key with which something is wrong, and what."""
    for key, value in document.items():
        if key not in known:
            yield key, _unknown(key, known)
        elif expected := _expected(known[key], value):
            yield key, f"{key} must be {expected}, not {value!r}"


def _unknown(key: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - only for who mistyped

    spoken = next((each for each in SETTINGS if not each.key and f"--{key}" in each.flags), None)
    if spoken:
        means = f"{spoken.flags[-1]} or {spoken.variable}"
        return f"{key} cannot be set in a file: set it for each command, with {means}"
    nearest = difflib.get_close_matches(key.replace("_", "-"), list(known), n=1)
    guess = "".join(f"; did you mean {match!r}?" for match in nearest)
    return f"there is no setting {key!r}{guess}"


def _expected(setting: Setting, value: object) -> str:
    """What the value should be; empty: that is what it is."""
    match setting.kind:
        case "choice":
            return "" if value in setting.choices else " or ".join(f'"{each}"' for each in setting.choices)
        case "path":
            return "" if _is_path(value) else "an absolute path in quotes"
        case "place":
            is_url = isinstance(value, str) and "://" in value
            return "" if is_url or _is_path(value) else "a URL or an absolute path, in quotes"
        case "words":
            is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
            return "" if is_list else 'a list of words: ["one", "two"]'
        case "seconds":
            return "" if _is_time(value) else f"a number of seconds, from 0 to {LONGEST_S:.0f}"
        case "switch":
            return "" if isinstance(value, bool) else "true or false"
        case "text":  # what files may say has a narrower kind
            raise TypeError(f"{setting.key} is of a kind that cannot be set in a file")


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_S


def _is_path(value: object) -> bool:
    """Whole paths alone: others would be looked for wherever the user happens to be."""
    return isinstance(value, str) and value.startswith("/")


def _value(value: Any) -> Value:  # noqa: ANN401 - TOML, whose types were just checked
    if isinstance(value, list):
        return tuple(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _line(text: str, key: str) -> int:
    """Where the key stands."""
    stands = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[\].=]""")
    return next((at for at, line in enumerate(text.splitlines(), start=1) if stands.match(line)), 1)
