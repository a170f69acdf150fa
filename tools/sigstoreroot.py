"""Takes the public Sigstore's root from the pinned `sigstore` package, or says that ours is another.

The package's maintainers ship it with each release; uv.lock pins the release by its hash.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path
from urllib.parse import quote

_STORE = quote("https://tuf-repo-cdn.sigstore.dev", safe="")
_ROOT = Path(__file__).parents[1]
_TARGET, _LOCK = _ROOT / "src/schedkit/oci/policy/embedded", _ROOT / "uv.lock"
# the authorities and logs, and the keys of those who may name new ones
_FILES = ("trusted_root.json", "root.json")


def packaged() -> dict[str, bytes]:
    """The files as the installed package has them, and which release of it that is."""
    store = resources.files("sigstore._store") / _STORE
    return {**{name: (store / name).read_bytes() for name in _FILES}, "origin.json": origin()}


def origin() -> bytes:
    """The release, and its day: nobody has looked for a newer root since, whenever it is copied."""
    version = metadata.version("sigstore")
    found = {"source": f"sigstore {version}", "taken": released(version).isoformat()}
    return f"{json.dumps(found, indent=2)}\n".encode()


def released(version: str) -> dt.date:
    """When that release of the package was published, as uv.lock has it beside the pin."""
    for package in tomllib.loads(_LOCK.read_text())["package"]:
        if (package["name"], package["version"]) == ("sigstore", version):
            uploaded: dt.datetime | str = package["wheels"][0]["upload-time"]
            return dt.datetime.fromisoformat(str(uploaded)).date()
    raise SystemExit(f"sigstore {version} is installed, and uv.lock pins another: run make setup")


def differing(folder: Path) -> list[str]:
    """The files that are missing in the folder, or have other bytes than the package's."""
    return [
        name
        for name, data in packaged().items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != data
    ]


def take(folder: Path) -> None:
    """Write them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in packaged().items():
        (folder / name).write_bytes(data)


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
        take(chosen.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
