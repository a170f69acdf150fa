"""A newer trusted root than the embedded one, from the public Sigstore's own update repository (TUF).

The embedded `root.json` says whose signatures a new root needs; the updater follows the keys from there. What
it brought is believed only from a folder that nobody else can write to.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Final

import msgspec

from schedkit.disk import guarded, whole
from schedkit.oci.http.deadlines import within
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.dated_root import MAX_ROOT, ORIGIN, SIGSTORE, TRUSTED_ROOT, DatedRoot, Origin
from schedkit.oci.registry.download import Downloads
from schedkit.oci.sigstore.trusted_root import InvalidRoot, parse_root

_LONGEST_S: Final = 300  # for all files together


class UpdateFailed(Exception):  # noqa: N818 - what happened
    """The root could not be refreshed; the one in use stays. The message says why, and what to do."""


def update(
    folder: Path,
    today: dt.date,
    downloads: Downloads,
    *,
    url: str = SIGSTORE,
    first_root: bytes | None = None,
) -> DatedRoot:
    """Fetch the newest root into the folder; `UpdateFailed`, and everything as before, if that cannot be.

    `first_root` is the TUF root of another Sigstore than the public one, for its `url`.
    """
    # an empty root is a mistake of whoever names it, and refused: it does not mean the public one
    trusted = dated_root.embedded_file("root.json") if first_root is None else first_root
    try:
        guarded.make_folder(folder)
        with within(_LONGEST_S):
            data = _fetched(folder, downloads, url, trusted)
        parse_root(data)
        updated = DatedRoot(data, Origin(today, url))
        whole.write_whole(folder / TRUSTED_ROOT, [data])
        whole.write_whole(folder / ORIGIN, [msgspec.json.encode(updated.origin)])
    except (OSError, InvalidRoot) as error:
        raise UpdateFailed(f"the trusted root from {url} cannot be used: {error}") from error
    return updated


def _fetched(folder: Path, downloads: Downloads, url: str, first_root: bytes) -> bytes:
    """The newest trusted root, verified from `first_root` on."""
    from tuf.api.exceptions import DownloadError, RepositoryError  # noqa: PLC0415 - only this verb pays for it
    from tuf.ngclient.updater import Updater  # noqa: PLC0415 - as above

    from schedkit.oci.policy.tuf_fetcher import TufFetcher  # noqa: PLC0415 - as above

    metadata, targets = folder / "metadata", folder / "targets"
    for one in (metadata, targets):
        guarded.make_folder(one)
    try:
        updater = Updater(
            str(metadata),
            url,
            str(targets),
            f"{url.rstrip('/')}/targets/",
            fetcher=TufFetcher(downloads),
            bootstrap=first_root,
        )
        info = updater.get_targetinfo(TRUSTED_ROOT)
        if info is None or info.length > MAX_ROOT:
            raise UpdateFailed(f"{url} offers no {TRUSTED_ROOT}, or one of more than {MAX_ROOT} bytes")
        found = updater.find_cached_target(info) or updater.download_target(info)
        return Path(found).read_bytes()
    except DownloadError as error:
        raise UpdateFailed(f"{url} could not be read: {error}; try again when it can be reached") from error
    except RepositoryError as error:
        raise UpdateFailed(f"{url} cannot be trusted: {error}; nothing was changed") from error
