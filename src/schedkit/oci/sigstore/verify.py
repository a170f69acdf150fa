"""Whether an image was signed by somebody who is trusted: the steps of docs/trust/verification.md, in order.

Nothing here asks a log or an authority: all evidence comes with the signature, and the trusted root is at
hand. Only the registry, or the layout, is read. An outage of it, or whoever answers in its place, is a
`RegistryError` and no verdict; every other end is a `Verified` or a `Refusal`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from cryptography import x509

from schedkit.model.images.content import Content
from schedkit.model.images.references import Digest, Reference, Repository
from schedkit.model.trust.policy import Mode, NamedFile, Rule, SourceRepository, TrustPolicy
from schedkit.model.trust.steps import Refusal, Step
from schedkit.model.trust.verified import Verified
from schedkit.oci.errors import Refused
from schedkit.oci.http.deadlines import within
from schedkit.oci.images.ports import Source
from schedkit.oci.sigstore import certificates, find, log_entries, log_inclusion, statements, timestamps
from schedkit.oci.sigstore import keys as signatures
from schedkit.oci.sigstore.keys import PublicKey
from schedkit.oci.sigstore.log_entries import Recorded
from schedkit.oci.sigstore.statements import SignedStatement
from schedkit.oci.sigstore.strict import UNREADABLE, quiet
from schedkit.oci.sigstore.trusted_root import Log, TrustedRoot

_IMAGES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)

VERIFICATION_S: Final = 120.0
Keys = dict[NamedFile, PublicKey]


class Question(msgspec.Struct, frozen=True):
    """What has to be shown of a signature, and by whose word."""

    digest: Digest
    repository: Repository
    rule: Rule
    root: TrustedRoot
    log_host: str | None = None
    predicates: tuple[str, ...] = (statements.SIGNATURE_PREDICATE,)

    @property
    def logs(self) -> tuple[Log, ...]:
        """The logs whose entries count."""
        return self.root.logs_below(self.log_host)


class Image(msgspec.Struct, frozen=True):
    """An image whose bytes are at hand already, and the repository that its signatures are in."""

    repository: Repository
    content: Content


def verify(source: Source, image: Reference | Image, policy: TrustPolicy, root: TrustedRoot) -> Verified:
    """The proof that somebody whom the policy trusts signed the image; one good signature is enough.

    Raises `Refusal` when there is none, and `RegistryError` when that could not be found out, in two minutes
    at the latest: however many signatures a slow registry lists.
    """
    with within(VERIFICATION_S):
        return _verify(source, image, policy, root)


def _verify(source: Source, image: Reference | Image, policy: TrustPolicy, root: TrustedRoot) -> Verified:
    repository = image.repository
    rule = _rule(policy, repository)  # 1
    digest = _digest(source, image)  # 2
    question = Question(digest, repository, rule, root, policy.log_host)
    refusals: list[Refusal] = []
    for answer in _answers(source, question):
        if isinstance(answer, Verified):
            return answer
        refusals.append(answer)
    raise _summary(refusals, digest)


def _rule(policy: TrustPolicy, repository: Repository) -> Rule:
    """Step 1: somebody is trusted for the repository."""
    rule = policy.rule_for(str(repository))
    if rule.trusts_nobody:
        raise Refusal(Step.RULE, f"the policy trusts no one for {repository}: add keys or identities to it")
    return rule


def _digest(source: Source, image: Reference | Image) -> Digest:
    """Step 2: the digest that the name stands for, and bytes that have it."""
    try:
        content = image.content if isinstance(image, Image) else source.resolve(image)
    except Refused as error:
        raise Refusal(Step.DIGEST, f"the registry's answer cannot be used: {error}") from error
    digest = content.descriptor.digest
    wanted = image.digest if isinstance(image, Reference) else None
    if digest != f"sha256:{hashlib.sha256(content.data).hexdigest()}" or wanted not in (None, digest):
        raise Refusal(Step.DIGEST, f"the registry's content does not have the digest {wanted or digest}")
    if content.descriptor.media_type not in _IMAGES:
        raise Refusal(Step.DIGEST, f"{digest} is not an image, but {content.descriptor.media_type[:80]!r}")
    return digest


def _answers(source: Source, question: Question) -> Iterator[Verified | Refusal]:
    """Steps 3 to 13 for one signature after the other."""
    for piece in find.pieces(source, question.repository, question.digest):  # 3
        if isinstance(piece, Refusal):
            yield piece
            continue
        try:
            yield judge(piece.fetch(source), question)  # 4 and on
        except Refusal as refusal:
            yield refusal


def _summary(refusals: list[Refusal], digest: Digest) -> Refusal:
    """The refusal that came furthest tells most; the others follow it."""
    if not refusals:
        return Refusal(Step.EVIDENCE, f"{digest} is not signed: there is no signature in its repository")
    furthest = max(refusals, key=lambda refusal: refusal.step)
    others = [refusal for refusal in refusals if refusal is not furthest]
    return Refusal(furthest.step, furthest.why, others=others)


def judge(signed: SignedStatement, question: Question) -> Verified:
    """Steps 5 to 13 for one signature."""
    statements.check_statement(signed, question.digest, question.predicates)  # 5, 6
    with quiet():
        if signed.certificate is None:
            return _judge_key(signed, question)
        return _judge_keyless(signed, signed.certificate, question)


def _judge_keyless(signed: SignedStatement, certificate: x509.Certificate, question: Question) -> Verified:
    root = question.root
    logged = log_inclusion.logged(signed.entries, question.logs, needs_proof=signed.needs_proof)  # 7
    recorded = [log_entries.check_entry(entry, signed) for entry, _ in logged]  # 8
    times = timestamps.times_of(signed, logged, root.timestampers)  # 9
    issuer = certificates.issuer_of(certificate, times, root.authorities)  # 10
    certificates.check_issuance(certificate, issuer, root.certificate_logs)  # 11
    _check_signature(certificate, signed, recorded)  # 12
    named = certificates.named_in(certificate)  # 13
    _check_signer(named, question)
    return Verified(
        digest=question.digest,
        repository=str(question.repository),
        signer=named.subject,
        issuer=named.issuer,
        time=min(times),
        mode=Mode.KEYLESS,
    )


def _check_signature(
    certificate: x509.Certificate, signed: SignedStatement, recorded: Sequence[Recorded]
) -> None:
    if not _is_signed(_key_of(certificate), signed, recorded):
        raise Refusal(
            Step.SIGNATURE,
            "the signature was not made with the key in the certificate, or is for other content",
        )


def _is_signed(key: object, signed: SignedStatement, recorded: Sequence[Recorded]) -> bool:
    """Step 12: in the way that every entry of a log says; where there is none, in either."""
    if not recorded:
        return any(_holds(key, signed, prehashed=one) for one in (False, True))
    return all(_holds(key, signed, prehashed=one) for one in {entry.prehashed for entry in recorded})


def _holds(key: object, signed: SignedStatement, *, prehashed: bool) -> bool:
    return signatures.is_signed(key, signed.signature, signed.message, prehashed=prehashed)


def _key_of(certificate: x509.Certificate) -> object:
    try:
        return certificate.public_key()
    except UNREADABLE as error:
        raise Refusal(Step.SIGNATURE, f"the key in the certificate cannot be read: {error}") from error


def _check_signer(named: certificates.Named, question: Question) -> None:
    """Step 13: one identity of the rule is the signer's."""
    issuer, subject, source = named.issuer, named.subject, named.source
    identities = question.rule.identities
    if not any(one.matches(issuer=issuer, subject=subject, source=source) for one in identities):
        raise Refusal(Step.SIGNER, _stranger(named, question))


def _stranger(named: certificates.Named, question: Question) -> str:
    """Who signed, why the rule does not trust them, and what to write for whoever does."""
    who = f"it was signed by {named.subject[:120]!r}, according to {named.issuer[:120]!r}"
    identities = question.rule.identities
    if any(one.names(issuer=named.issuer, subject=named.subject) for one in identities):
        where = f"to the policy's rule for {question.repository}"
        return f"{who}, {_caller(named.source)} {where} if you trust this signer"
    why = f"but the policy does not name this signer for {question.repository}"
    return f"{who}, {why}; add the signer to the policy's identities if you trust this signer"


def _caller(source: SourceRepository) -> str:
    """Whom a workflow of the right name ran for, which the policy does not want, and what to do."""
    if source == SourceRepository():
        why = "in a certificate that does not name a source repository, which the policy demands"
        return f"{why}; add an identity without sourceRepository and sourceRepositoryOwner"
    ran_for = f"{source.url or '(not named)'} of {source.owner or '(not named)'}"
    why = f"in a run for the repository {ran_for[:200]}, but the policy demands another repository"
    return f"{why}; add this sourceRepository or sourceRepositoryOwner"


def _judge_key(signed: SignedStatement, question: Question) -> Verified:
    rule = question.rule
    if not rule.keys:  # 13: there is no key to try
        why = f"it was signed with a key, but the policy names no key for {question.repository}"
        raise Refusal(Step.SIGNER, f"{why}; add this key to the policy if you trust its owner")
    keys = {key: _loaded(key) for key in rule.keys}
    time: dt.datetime | None = None
    recorded: Sequence[Recorded] = ()
    if rule.require_log:
        recorded, time = _logged(signed, keys, question)  # 7, 8, 9
    signer = _signer(signed, keys, recorded)  # 12, and 13 with it: only keys of the policy are tried
    return Verified(
        digest=question.digest,
        repository=str(question.repository),
        signer=signer.path,
        issuer=None,
        time=time,
        mode=Mode.KEY,
    )


def _logged(signed: SignedStatement, keys: Keys, question: Question) -> tuple[list[Recorded], dt.datetime]:
    """Steps 7 to 9 for a key: what the logs have, about keys of the policy alone, and when it was signed."""
    logged = log_inclusion.logged(signed.entries, question.logs, needs_proof=signed.needs_proof)
    recorded = [log_entries.check_entry(entry, signed) for entry, _ in logged]
    if not _named(keys, recorded):
        raise Refusal(Step.ENTRY, "the log entry is about a key that the policy does not name")
    return recorded, min(timestamps.times_of(signed, logged, question.root.timestampers))


def _named(keys: Keys, recorded: Sequence[Recorded]) -> Keys:
    """The keys that every entry names as the signer; all of them where there is no entry."""
    return {
        key: public
        for key, public in keys.items()
        if all(entry.verifier == signatures.der_of(public) for entry in recorded)
    }


def _signer(signed: SignedStatement, keys: Keys, recorded: Sequence[Recorded]) -> NamedFile:
    for key, public in _named(keys, recorded).items():
        if _is_signed(public, signed, recorded):
            return key
    raise Refusal(
        Step.SIGNATURE,
        "the signature was not made with a key that the policy names, or is for other content",
    )


def _loaded(key: NamedFile) -> PublicKey:
    try:
        return signatures.load_pem(key.content)
    except signatures.UnusableKey as error:
        raise Refusal(Step.RULE, f"the policy's key {key.path} cannot be used: {error}") from error
