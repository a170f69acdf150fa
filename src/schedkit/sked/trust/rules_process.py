"""Reads the administrator's rules as a process of its own.

The parser of YAML, and the library that tells good keys from bad ones, would stay in the manager's memory.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from schedkit.model.trust.policy import InvalidPolicy, Read
from schedkit.model.trust.rules import TrustMode, parse_rules
from schedkit.oci.policy.files import Opener, check_policy, read_beginning, read_with
from schedkit.oci.policy.patterns import parse_pattern
from schedkit.sked.trust.messages import Reading

LONGEST_S: Final = 60
# the link that a kubelet swaps; the names of all files lead over it
_DATA: Final = "..data"


def read(file: Path) -> Reading:
    """The document and the files that it names, all of which can be used; or what is wrong with them."""
    try:
        return read_with(file, _gathered, of_one_version(file.parent))
    except InvalidPolicy as error:
        return Reading(complaint=str(error))


def of_one_version(folder: Path) -> Opener:
    """Reads files as they are now, all of them: a kubelet may put others behind their names at any time."""
    link = folder / _DATA
    version = link.resolve() if link.is_symlink() else folder

    def read_bytes(file: Path, size: int) -> bytes:
        is_swapped = file.is_relative_to(folder) and _is_swapped(folder, file.relative_to(folder))
        return read_beginning(version / file.relative_to(folder) if is_swapped else file, size)

    return read_bytes


def _is_swapped(folder: Path, name: Path) -> bool:
    """Whether a kubelet keeps it behind its link, as nothing that is mounted elsewhere, or below."""
    first = next(iter(name.parts), _DATA)  # none: it is the folder itself
    return first != _DATA and ".." not in name.parts and (folder / first).is_symlink()


def _gathered(document: Any, read_named: Read) -> Reading:  # noqa: ANN401 - whatever YAML can say
    rules = parse_rules(document, read_named, TrustMode.OFF, parse_pattern)
    if rules.files:
        check_policy(rules.policy)
    return Reading(document, dict(rules.files))


def main() -> None:
    """Read the file that the command line names."""
    signal.alarm(LONGEST_S)
    sys.stdout.buffer.write(msgspec.json.encode(read(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
