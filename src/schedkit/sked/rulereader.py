"""Reads the administrator's rules as a process of its own.

The parser of YAML, and the library that tells good keys from bad ones, would stay in the manager's memory.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from schedkit.model.trust import InvalidPolicy, Read
from schedkit.model.trustrules import TrustMode, parse_rules
from schedkit.oci.policyfiles import check_policy, read_with
from schedkit.sked.verifierprotocol import Reading

LONGEST_S: Final = 60


def read(file: Path) -> Reading:
    """The document and the files that it names, all of which can be used; or what is wrong with them."""
    try:
        return read_with(file, _gathered)
    except InvalidPolicy as error:
        return Reading(complaint=str(error))


def _gathered(document: Any, read_named: Read) -> Reading:  # noqa: ANN401 - whatever YAML can say
    rules = parse_rules(document, read_named, TrustMode.OFF)
    if rules.files:
        check_policy(rules.policy)
    return Reading(document, dict(rules.files))


def main() -> None:
    """Read the file that the command line names."""
    signal.alarm(LONGEST_S)
    sys.stdout.buffer.write(msgspec.json.encode(read(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
