"""Asks a registry who signed an image, as a process of its own that the manager starts and does not trust.

It reads one request from its standard input and writes one answer to its standard output. What a stranger's
registry sends is parsed here alone: whatever that does to this process, the manager goes on.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from schedkit.model.images import manifests
from schedkit.model.images.content import Content
from schedkit.model.images.manifests import Index
from schedkit.model.images.references import Digest, InvalidReference, Reference, parse_reference
from schedkit.model.images.strictjson import InvalidDocument
from schedkit.model.trust.policy import TrustPolicy, default_policy, parse_policy
from schedkit.model.trust.registry_failures import RegistryFailure, condemns_the_image
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.errors import Intercepted, NotFound, Refused, RegistryError, Unauthorized, Unreachable
from schedkit.oci.http.deadlines import within
from schedkit.oci.http.proxies import read_proxies
from schedkit.oci.images.ports import Source
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.dated_root import DatedRoot
from schedkit.oci.policy.patterns import Re2Pattern, parse_pattern
from schedkit.oci.registry.client import Registry, Settings
from schedkit.oci.registry.host import Patience
from schedkit.oci.registry.logins import CredentialFiles
from schedkit.sked.trust.messages import NEWER_ROOT, Answer, Attested, Request, attest

LONGEST_S: Final = 120
# a registry that is slow gets a word in its last seconds, where a process that is ended would not
_WHOLE_S: Final = 100
_OPERATION_S: Final = 25
_MAX_WORDS: Final = 600
_MOST_PARTS: Final = 64
# at these the trusted root decides: one that is old does not know whom others trust by now
_BY_ROOT: Final = frozenset({Step.LOG, Step.TIME, Step.CERTIFICATE, Step.ISSUANCE})


def answer(request: Request) -> Answer:
    """The answer; errors other than those of registries and signatures are let through."""
    try:
        with within(_WHOLE_S), _registry(request) as source:
            return _found_out(request, source)
    except (InvalidReference, Refusal, RegistryError) as error:
        return told(request, error)


def told(request: Request, error: InvalidReference | Refusal | RegistryError) -> Answer:
    """What the error says about the image: that it is no good, or nothing, as the registry was not heard."""
    if isinstance(error, Refusal):
        return _distrusted(request, error.step, error.why)
    failure, why = failure_of(error), str(error) or type(error).__name__
    if condemns_the_image(failure):
        return _distrusted(request, Step.DIGEST, why)
    if failure is RegistryFailure.LOGIN:
        why = f"{why}; {_logins(request)}"
    wait_s = error.retry_after_s if isinstance(error, Unreachable) else None
    return _unreachable(request, why, wait_s)


def failure_of(error: InvalidReference | RegistryError) -> RegistryFailure:
    """The failure that the error stands for."""
    match error:
        case InvalidReference():
            return RegistryFailure.INVALID_NAME
        case NotFound():
            return RegistryFailure.HEARSAY if error.is_hearsay else RegistryFailure.NOT_FOUND
        case Refused():
            return RegistryFailure.INVALID_ANSWER
        case Intercepted():
            return RegistryFailure.INTERCEPTED
        case Unauthorized():
            return RegistryFailure.LOGIN
    return RegistryFailure.UNHEARD


def _logins(request: Request) -> str:
    if request.auth_file is None:
        return "the operator knows no logins: name a file with --registry-auth"
    return f"the operator uses the logins in {request.auth_file} (--registry-auth)"


def _registry(request: Request) -> Registry:
    """As the administrator lets registries be reached."""
    settings = Settings(
        insecure=frozenset(request.insecure),
        ca_file=Path(request.ca_file) if request.ca_file else None,
        proxies=read_proxies(os.environ),
        patience=Patience(total_s=_OPERATION_S),
    )
    return Registry(settings, CredentialFiles((Path(request.auth_file),) if request.auth_file else ()))


def _found_out(request: Request, source: Source) -> Answer:
    named = parse_reference(request.image)
    pinned = Digest(request.pinned) if request.pinned else named.digest
    if pinned is not None and pinned == request.known:
        return Answer(request.ticket, "known", _current(source, named))
    content = source.resolve(named.pinned(pinned) if pinned else named)
    digest = content.descriptor.digest
    if digest == request.known:
        return Answer(request.ticket, "known", str(digest))
    verdict = _verified(request, source, named, content)
    current = _current(source, named) if pinned else str(digest)
    return Answer(request.ticket, "trusted", current, verdict, parts_of(content))


def parts_of(content: Content) -> tuple[str, ...]:
    """The manifests that an index lists, which whoever signed it signed as well; none of a plain manifest."""
    try:
        found = manifests.parse(content.data, content.descriptor.media_type)
    except InvalidDocument:
        return ()
    listed = found.manifests[:_MOST_PARTS] if isinstance(found, Index) else ()
    return tuple(str(entry.digest) for entry in listed)


def _current(source: Source, named: Reference) -> str:
    """What the name means by now; empty where that cannot be found out."""
    if named.digest is not None:
        return str(named.digest)
    try:
        return str(source.resolve(named).descriptor.digest)
    except RegistryError:
        return ""


def _verified(request: Request, source: Source, named: Reference, content: Content) -> Attested:
    # cryptography, which a digest that is known already does without
    from schedkit.oci.sigstore.trusted_root import InvalidRoot, parse_root  # noqa: PLC0415 - as above
    from schedkit.oci.sigstore.verify import Image, verify  # noqa: PLC0415 - as above

    policy, usual = _policy(request), dated_root.embedded()
    try:
        root = parse_root(dated_root.document_for(policy, usual))
        verified = verify(source, Image(named.repository, content), policy, root)
    except InvalidRoot as error:
        raise Refusal(Step.RULE, f"the trusted root cannot be used: {error}") from error
    except Refusal as error:
        if policy.trusted_root is not None:
            raise
        raise with_age(error, usual, dt.datetime.now(dt.UTC).date()) from error
    return attest(verified)


def with_age(refusal: Refusal, usual: DatedRoot, today: dt.date) -> Refusal:
    """The refusal, with a word about the trusted root if that is old and may be the reason."""
    hint = usual.warning(today, remedy=NEWER_ROOT) if refusal.step in _BY_ROOT else None
    return Refusal(refusal.step, f"{refusal.why}; {hint}", others=refusal.others) if hint else refusal


def _policy(request: Request) -> TrustPolicy:
    if request.policy is None:
        return default_policy(Re2Pattern)
    return parse_policy(request.policy, request.files.__getitem__, parse_pattern)


def _distrusted(request: Request, step: int, why: str) -> Answer:
    return Answer(request.ticket, "distrusted", step=int(step), why=why[:_MAX_WORDS])


def _unreachable(request: Request, why: str, retry_after_s: float | None = None) -> Answer:
    return Answer(request.ticket, "unreachable", why=why[:_MAX_WORDS], retry_after_s=retry_after_s)


def main() -> None:
    """Answer, within the time there is: nobody may be left to end this process."""
    signal.alarm(LONGEST_S)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    sys.stdout.buffer.write(msgspec.json.encode(answer(request)))


if __name__ == "__main__":
    main()
