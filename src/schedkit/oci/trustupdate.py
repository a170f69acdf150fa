"""A newer trusted root than the embedded one, from the public Sigstore's own update repository (TUF).

The embedded `root.json` says whose signatures a new root needs; the updater follows the keys from there. What
it brought is believed only from a folder that nobody else can write to.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from schedkit.oci import files, guarded, trustedroots
from schedkit.oci.trustedroots import DatedRoot, InvalidRoot, Origin, parse_root

SIGSTORE: Final = "https://tuf-repo-cdn.sigstore.dev"
_TARGET: Final = "trusted_root.json"
_ORIGIN: Final = "origin.json"
_MAX_ROOT: Final = 1 << 20


class UpdateFailed(Exception):  # noqa: N818 - what happened
    """The root could not be refreshed; the one in use stays. The message says why, and what to do."""


def default_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where this user's updated root is."""
    base = environment.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else home / ".local/share") / "schedkit" / "trust"


def current(folder: Path) -> DatedRoot:
    """The updated root of that folder, or the embedded one where there is none that can be believed."""
    embedded = trustedroots.embedded()
    try:
        origin = msgspec.json.decode(_read(folder, _ORIGIN), type=Origin)
        updated = DatedRoot(parse_root(_read(folder, _TARGET)), origin)
    except FileNotFoundError:
        return embedded
    except (OSError, InvalidRoot, msgspec.DecodeError) as error:
        return DatedRoot(embedded.root, embedded.origin, f"the updated root in {folder} is not used: {error}")
    return updated if updated.origin.taken >= embedded.origin.taken else embedded


def _read(folder: Path, name: str) -> bytes:
    return guarded.read_file(folder, name, limit=_MAX_ROOT)


def update(
    folder: Path, today: dt.date, *, url: str = SIGSTORE, first_root: bytes | None = None
) -> DatedRoot:
    """Fetch the newest root into the folder; `UpdateFailed`, and everything as before, if that cannot be.

    `first_root` is the TUF root of another Sigstore than the public one, for its `url`.
    """
    try:
        guarded.make_folder(folder)
        data = _fetched(folder, url, first_root or trustedroots.embedded_file("root.json"))
        updated = DatedRoot(parse_root(data), Origin(today, url))
        files.write_whole(folder / _TARGET, [data])
        files.write_whole(folder / _ORIGIN, [msgspec.json.encode(updated.origin)])
    except (OSError, InvalidRoot) as error:
        raise UpdateFailed(f"the trusted root from {url} cannot be used: {error}") from error
    return updated


def _fetched(folder: Path, url: str, first_root: bytes) -> bytes:
    """The newest trusted root, verified from `first_root` on."""
    from tuf.api.exceptions import DownloadError, RepositoryError  # noqa: PLC0415 - only this verb pays for it
    from tuf.ngclient.config import UpdaterConfig  # noqa: PLC0415 - as above
    from tuf.ngclient.updater import Updater  # noqa: PLC0415 - as above

    metadata, targets = folder / "metadata", folder / "targets"
    for one in (metadata, targets):
        guarded.make_folder(one)
    try:
        updater = Updater(
            str(metadata),
            url,
            str(targets),
            f"{url.rstrip('/')}/targets/",
            config=UpdaterConfig(app_user_agent="schedkit"),
            bootstrap=first_root,
        )
        info = updater.get_targetinfo(_TARGET)
        if info is None or info.length > _MAX_ROOT:
            raise UpdateFailed(f"{url} offers no {_TARGET} of at most {_MAX_ROOT} bytes")
        found = updater.find_cached_target(info) or updater.download_target(info)
        return Path(found).read_bytes()
    except DownloadError as error:
        raise UpdateFailed(f"{url} could not be read: {error}; try again when it can be reached") from error
    except RepositoryError as error:
        raise UpdateFailed(f"{url} is not signed by those who may: {error}; nothing was changed") from error
