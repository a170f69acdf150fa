"""Takes the public Sigstore's root from the pinned `sigstore` package, or says that ours is another.

The package's maintainers ship it with each release; uv.lock pins the release by its hash.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from importlib import metadata, resources
from pathlib import Path
from urllib.parse import quote

_STORE = quote("https://tuf-repo-cdn.sigstore.dev", safe="")
_TARGET = Path(__file__).parents[1] / "src/schedkit/oci/sigstore"
# the authorities and logs, and the keys of those who may name new ones
_FILES = ("trusted_root.json", "root.json")


def packaged() -> dict[str, bytes]:
    """The files as the installed package has them."""
    store = resources.files("sigstore._store") / _STORE
    return {name: (store / name).read_bytes() for name in _FILES}


def differing(folder: Path) -> list[str]:
    """The files that are missing in the folder, or have other bytes than the package's."""
    return [
        name
        for name, data in packaged().items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != data
    ]


def take(folder: Path, today: dt.date) -> None:
    """Write what differs, and when it was taken and from which release."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in packaged().items():
        (folder / name).write_bytes(data)
    origin = {"source": f"sigstore {metadata.version('sigstore')}", "taken": today.isoformat()}
    (folder / "origin.json").write_text(f"{json.dumps(origin, indent=2)}\n")


def main() -> int:
    """Take it, or with `--check` compare; 1 when ours is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    parser.add_argument("--folder", type=Path, default=_TARGET)
    chosen = parser.parse_args()
    old = differing(chosen.folder)
    if chosen.check:
        for name in old:
            sys.stderr.write(
                f"{name} is not the packaged one: run tools/sigstoreroot.py and commit the result\n"
            )
        return 1 if old else 0
    if old:
        take(chosen.folder, dt.datetime.now(dt.UTC).date())
    return 0


if __name__ == "__main__":
    sys.exit(main())
