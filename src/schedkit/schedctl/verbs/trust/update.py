"""`schedctl trust update`: the newest root of the public Sigstore, or of another one."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from schedkit.oci.policy import dated_root, root_update
from schedkit.oci.policy.dated_root import DatedRoot
from schedkit.oci.policy.root_update import UpdateFailed
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import Problem, in_words
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source.trust import root_folder_of
from schedkit.schedctl.wiring import registries


class TrustUpdated(Result, frozen=True, kw_only=True):
    """The root that was fetched."""

    source: str
    taken: str
    fingerprint: str
    changed: bool  # whether it is another one than before
    folder: str


@click.command()
@click.option("--url", default=dated_root.SIGSTORE, show_default=True, help="TUF repository of a Sigstore.")
@click.option(
    "--root",
    "first_root",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="TUF root of a Sigstore other than the public Sigstore.",
)
@click.pass_obj
@answering
def command(settings: Settings, url: str, first_root: Path | None) -> Answer:
    """Fetch the newest Sigstore root, and verify it with the known root.

    The root of the public Sigstore is used from then on. The root of another Sigstore is used only by
    policies that name its file.
    """
    folder = root_folder_of(os.environ, url)
    before = dated_root.current(folder, source=url)
    today = datetime.now(UTC).date()
    known = first_root.read_bytes() if first_root else None
    try:
        with closing(registries.downloads(settings)) as downloads:
            now = root_update.update(folder, today, downloads, url=url, first_root=known)
    except UpdateFailed as error:
        raise _not_refreshed(error) from error
    updated = _describe(before, now, folder)
    file = folder / dated_root.TRUSTED_ROOT
    elsewhere = f"this is not the public Sigstore: write `trustedRoot: {file}` into a policy to use it"
    return Answer(updated, [_text(updated)], warnings=[] if url == dated_root.SIGSTORE else [elsewhere])


def _not_refreshed(error: UpdateFailed) -> Problem:
    remedy = (
        "check this machine's network, or its proxy (HTTPS_PROXY); "
        "until then, signatures are verified with the current root"
    )
    return Problem("the root was not updated; the current root stays", why=in_words(error), remedy=remedy)


def _describe(before: DatedRoot, now: DatedRoot, folder: Path) -> TrustUpdated:
    return TrustUpdated(
        source=now.origin.source,
        taken=now.origin.taken.isoformat(),
        fingerprint=now.fingerprint,
        changed=now.fingerprint != before.fingerprint,
        folder=str(folder),
    )


def _text(updated: TrustUpdated) -> Fields:
    return Fields(
        [
            ("Root", f"{updated.source}, {updated.taken}"),
            ("Fingerprint", updated.fingerprint),
            ("Changed", "yes" if updated.changed else "no"),
            ("Kept in", updated.folder),
        ]
    )
