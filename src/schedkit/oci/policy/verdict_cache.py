"""Verdicts that were reached before: an image that was verified need not be fetched evidence for again.

A verdict is good for the same digest in the same repository under the same policy, key files and trusted
root, from the same revision of the verifier, and for thirty days. Whatever changes one of them asks for
another verdict; an outage changes none. Refusals are not kept: somebody may sign in the meantime.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from schedkit.disk import guarded, whole
from schedkit.model.images import strictjson
from schedkit.model.images.content import Content
from schedkit.model.images.references import Digest, Reference
from schedkit.model.trust.policy import Mode, TrustPolicy
from schedkit.model.trust.steps import REVISION, Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.errors import Refused
from schedkit.oci.images.ports import Source

_MAX_VERDICT: Final = 16 << 10
LONGEST: Final = dt.timedelta(days=30)


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict on disk."""

    digest: str
    repository: str
    beliefs: str
    signer: str
    issuer: str | None
    time: dt.datetime | None
    mode: Mode
    reached: dt.datetime


def default_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where verdicts of this user are."""
    caches = environment.get("XDG_CACHE_HOME", "")
    return (Path(caches) if caches.startswith("/") else home / ".cache") / "schedkit" / "verdicts"


def beliefs(policy: TrustPolicy, root: bytes) -> str:
    """Everything that a verdict rests on besides the image, as one name.

    The revision is part of it: a verdict must not outlive a verifier that was wrong.
    """
    rests_on = f"{REVISION} {policy.fingerprint} {hashlib.sha256(root).hexdigest()}"
    return hashlib.sha256(rests_on.encode()).hexdigest()


class Verdicts(msgspec.Struct, frozen=True):
    """The verdicts in a folder; one that others can write to is as good as empty."""

    folder: Path

    def find(self, digest: Digest, repository: str, believed: str) -> Verified | None:
        """The verdict that was kept, if there is one that can be believed."""
        try:
            data = guarded.read_file(self.folder, _name(digest, repository, believed), limit=_MAX_VERDICT)
        except OSError:
            return None
        return believe_kept(data, digest, repository, believed)

    def keep(self, verified: Verified, believed: str) -> None:
        """Remember it; `OSError` when that is not possible, or others could change it."""
        guarded.make_folder(self.folder)
        file = self.folder / _name(verified.digest, verified.repository, believed)
        whole.write_whole(file, [_encoded(verified, believed)], mode=0o600)
        whole.keep_newest(self.folder)


def _encoded(verified: Verified, believed: str) -> bytes:
    kept = _Kept(
        verified.digest,
        verified.repository,
        believed,
        verified.signer,
        verified.issuer,
        verified.time,
        verified.mode,
        dt.datetime.now(dt.UTC),
    )
    return strictjson.encode(kept)


def believe_kept(data: bytes, digest: Digest, repository: str, believed: str) -> Verified | None:
    """The verdict in a file; None: malformed, older than `LONGEST`, or about another image or policy.

    The caller has read it from a folder in which nobody but this user can write.
    """
    try:
        kept = msgspec.json.decode(data, type=_Kept)
    except (ValueError, RecursionError):  # as msgspec's own errors, and those about UTF-8, are
        return None
    if (kept.digest, kept.repository, kept.beliefs) != (digest, repository, believed):
        return None
    if (
        kept.reached.tzinfo is None
        or not dt.timedelta(0) <= dt.datetime.now(dt.UTC) - kept.reached <= LONGEST
    ):
        return None
    return Verified(
        digest=digest,
        repository=kept.repository,
        signer=kept.signer,
        issuer=kept.issuer,
        time=kept.time,
        mode=kept.mode,
    )


def _name(digest: str, repository: str, believed: str) -> str:
    return f"{hashlib.sha256(f'{digest} {repository} {believed}'.encode()).hexdigest()}.json"


def verify_once(
    verdicts: Verdicts,
    source: Source,
    reference: Reference,
    policy: TrustPolicy,
    root: bytes,
    content: Content | None = None,
) -> Verified:
    """As `verify`, but a verdict that was kept is enough, and a new one is kept where that is possible.

    `root` is the document of the trusted root; `content` what the reference means, if somebody has resolved
    it before. A reference with a digest that was verified before needs no registry at all.
    """
    believed, repository = beliefs(policy, root), str(reference.repository)
    if reference.digest is not None and (found := verdicts.find(reference.digest, repository, believed)):
        return found
    try:
        content = content or source.resolve(reference)
    except Refused as error:
        raise Refusal(Step.DIGEST, f"the registry's answer cannot be used: {error}") from error
    if found := verdicts.find(content.descriptor.digest, repository, believed):
        return found
    verified = _verify(source, reference, content, policy, root)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time, and nothing else
        verdicts.keep(verified, believed)
    return verified


def _verify(
    source: Source, reference: Reference, content: Content, policy: TrustPolicy, root: bytes
) -> Verified:
    # cryptography, which is several times slower to load than a kept verdict is to find
    from schedkit.oci.sigstore.trusted_root import InvalidRoot, parse_root  # noqa: PLC0415 - as above
    from schedkit.oci.sigstore.verify import Image, verify  # noqa: PLC0415 - as above

    try:
        believed = parse_root(root)
    except InvalidRoot as error:
        raise Refusal(Step.RULE, f"the trusted root cannot be used: {error}") from error
    return verify(source, Image(reference.repository, content), policy, believed)
