"""`schedctl catalog update`: another catalog in the place of the updated copy, once it is believed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from schedkit.model.catalog import MAX_BYTES, MEDIA_TYPE, Entries
from schedkit.model.images.references import Digest, Reference, parse_reference
from schedkit.model.trust.verified import Verified
from schedkit.oci.images.artifacts import read_artifact
from schedkit.schedctl.answers.answer import Answer, Fields, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.problems.problem import Problem, attempting
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import catalog_files
from schedkit.schedctl.source.catalog_files import Provenance
from schedkit.schedctl.source.destinations import refuse_login
from schedkit.schedctl.source.trust import Trust, read_trust
from schedkit.schedctl.verbs.image_flags import trust_policy_option
from schedkit.schedctl.wiring import catalogs, registries


class CatalogUpdated(Result, frozen=True, kw_only=True):
    """What the updated copy is now, and what it changed."""

    file: str
    provenance: Provenance
    schedulers: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@click.command()
@click.argument("source", metavar="PATH|URL|REFERENCE")
@click.option("--sha256", metavar="HEX", help="Accept the catalog only with this checksum.")
@trust_policy_option
@click.pass_obj
@answering
def command(settings: Settings, source: str, sha256: str | None, trust_policy: str | None) -> Answer:
    """Fetch a newer catalog from a registry, a file or a URL; its entries override the shipped catalog.

    A catalog decides which image a name stands for, so it must be proved to be genuine: in a registry by the
    signature of a trusted signer, elsewhere by its checksum.
    """
    copy = catalog_files.kept(os.environ)
    refuse_login(source)
    with attempting(f"fetch the catalog from {source}"):
        reference = as_reference(source)
        if reference is not None and sha256 is None:
            fetched = _fetch_signed(settings, reference, read_trust(trust_policy))
            refuse_older(_signed(fetched.verified), copy.provenance())
        else:
            fetched = _fetch_known(settings, source, reference, sha256)
        entries = catalog_files.parse_named(fetched.text, source)
    before = copy.entries()
    provenance = _provenance(source, fetched)
    copy.replace(entries, provenance)
    updated = compare(before, entries, provenance, copy.file)
    return Answer(updated, [_text(updated)], warnings=_undated(fetched))


def _undated(fetched: _Fetched) -> list[str]:
    if fetched.verified is None or fetched.verified.time is not None:
        return []
    return ["no trusted source says when this catalog was signed: an older catalog would not be noticed"]


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A catalog that is believed, and why."""

    text: bytes
    verified: Verified | None  # None: because of its checksum


def _fetch_signed(settings: Settings, reference: Reference, trust: Trust) -> _Fetched:
    with registries.source(settings) as images:
        verified = trust.verify(images, reference)
        # by the digest that was verified: the tag may have moved meanwhile
        pinned = reference.pinned(Digest(verified.digest))
        return _Fetched(read_artifact(images, pinned, MEDIA_TYPE, limit=MAX_BYTES), verified)


def _fetch_known(
    settings: Settings, source: str, reference: Reference | None, wanted: str | None
) -> _Fetched:
    text = _fetch(settings, source, reference)
    _require(catalog_files.sha256(text), wanted)
    return _Fetched(text, None)


def _fetch(settings: Settings, source: str, reference: Reference | None) -> bytes:
    if reference is None:
        return catalogs.read_anywhere(settings, source)
    with registries.source(settings) as images:
        return read_artifact(images, reference, MEDIA_TYPE, limit=MAX_BYTES)


def as_reference(source: str) -> Reference | None:
    """The image that is meant, or None: a URL, or a file that is there or is written as a path."""
    if "://" in source or source.startswith(("/", "./", "../")) or Path(source).exists():
        return None
    return parse_reference(source)


def _require(found: str, wanted: str | None) -> None:
    if wanted is None:
        raise Problem(
            "the catalog is not accepted",
            why="nothing proves that it is genuine",
            remedy=f"compare its checksum with its publisher's, then repeat with --sha256 {found}",
        )
    if found != wanted.lower().removeprefix("sha256:"):
        raise Problem(
            "the catalog does not have the given checksum",
            why=f"its sha256 is {found}",
            remedy="ask its publisher for the checksum again; if it still differs, do not use this catalog",
        )


def refuse_older(now: str | None, kept: Provenance | None) -> None:
    """A registry could serve an old catalog, which was genuine once, to bring back what it pointed to."""
    before = kept.signed if kept else None
    if before and (now is None or now < before):
        when = f"it was signed {now}" if now else "no trusted source says when it was signed"
        raise Problem(
            "this catalog is older, or may be older, than the catalog of the last update",
            why=f"{when}; the catalog of the last update was signed {before}",
            remedy="to use it anyway, give its checksum with --sha256",
        )


def _signed(verified: Verified | None) -> str | None:
    """In one zone, so that times compare as texts."""
    return verified.time.astimezone(UTC).isoformat() if verified and verified.time else None


def _provenance(source: str, fetched: _Fetched) -> Provenance:
    return Provenance(
        source=_without_query(source),
        sha256=catalog_files.sha256(fetched.text),
        updated=datetime.now(UTC).isoformat(timespec="seconds"),
        signer=fetched.verified.signer if fetched.verified else None,
        signed=_signed(fetched.verified),
    )


def _without_query(source: str) -> str:
    """Scheme, host and path of a URL: what follows may be a secret."""
    return source.partition("?")[0].partition("#")[0] if "://" in source else source


def compare(before: Entries, now: Entries, provenance: Provenance, file: Path) -> CatalogUpdated:
    """What is different from the copy that was there."""
    both = before.keys() & now.keys()
    return CatalogUpdated(
        file=str(file),
        provenance=provenance,
        schedulers=len(now),
        added=tuple(sorted(now.keys() - before.keys())),
        changed=tuple(sorted(name for name in both if before[name] != now[name])),
        removed=tuple(sorted(before.keys() - now.keys())),
    )


def _text(updated: CatalogUpdated) -> Fields:
    return Fields(
        [
            ("Kept as", updated.file),
            ("From", updated.provenance.source),
            ("SHA256", updated.provenance.sha256),
            ("Signed by", updated.provenance.signer or "not verified; its checksum was given"),
            ("Added", ", ".join(updated.added) or "none"),
            ("Changed", ", ".join(updated.changed) or "none"),
            ("Removed", ", ".join(updated.removed) or "none"),
        ]
    )
