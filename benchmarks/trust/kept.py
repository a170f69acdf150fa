"""What a kept verdict adds to a command that has found its image: run as a program, it prints two numbers.

Everything that such a command needs without verification is loaded before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time

from schedkit.model.images.references import parse_reference
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import choose, fetch
from schedkit.schedctl.wiring import catalogs, registries


def main() -> None:
    """`kept.py IMAGE@DIGEST POLICY CA-FILE`; an empty POLICY is the one that is built in."""
    image, policy, ca_file = sys.argv[1:]
    reference, settings = parse_reference(image), Settings(registry_ca=ca_file)
    if not (choose, fetch, catalogs.catalog(settings)):
        raise AssertionError("all of it is loaded")
    with registries.source(settings) as source:
        before = time.process_time(), time.monotonic()
        from schedkit.schedctl.source.trust import read_trust  # noqa: PLC0415 - it is what is measured

        verified = read_trust(policy or None).admit(source, reference)
        after = time.process_time(), time.monotonic()
    print(
        json.dumps({"signer": verified.signer, "cpu_s": after[0] - before[0], "wall_s": after[1] - before[1]})
    )


if __name__ == "__main__":
    main()
