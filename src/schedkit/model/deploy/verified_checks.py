"""Whether a SchedExt's image is signed by somebody who is trusted: two chains, the first finding decides."""

from __future__ import annotations

from schedkit.model.api.conditions import Finding, Reason, no, unknown, yes
from schedkit.model.api.schedext import (
    Condition,
    ConditionStatus,
    ConditionType,
    SchedExtStatus,
    Verification,
)
from schedkit.model.deploy.rule_checks import Case, Check, exclusion, rules_cannot_be_read, rules_of
from schedkit.model.deploy.tag_pinning import how_to_pin, pods_run_by_tag_alone, tag_has_moved
from schedkit.model.deploy.verdicts import Distrusted, Undecided, signed_words
from schedkit.model.trust.rules import TrustMode


def rules_are_unknown(case: Case) -> Finding | None:
    """Then so is who is trusted."""
    found = rules_cannot_be_read(case)
    return unknown(found.reason, found.message) if found else None


def nobody_looks(case: Case) -> Finding | None:
    """The administrator wants it so, or wrote nothing."""
    is_off = case.mode is TrustMode.OFF
    return unknown(Reason.VERIFICATION_OFF, "signatures are not verified") if is_off else None


def nobody_may_ask(case: Case) -> Finding | None:
    """What may not run is not looked at: no answer is on its way."""
    found = exclusion(case)
    return unknown(found.reason, f"signatures are not verified: {found.message}") if found else None


def pods_run_another_image(case: Case) -> Finding | None:
    """The good word is about one image; what pods pulled before, by whatever name, may be anything."""
    trusted, running = case.trusted, case.vouching.unvouched
    if trusted is None or running is None:
        return None
    words = f"{signed_words(trusted.verified)}, but pods run {running}, whose signer is not known"
    return unknown(Reason.NOT_PINNED, f"{words}: {_how_to_replace(case)}")


def _how_to_replace(case: Case) -> str:
    daemon_set = case.observation.daemon_set
    if case.is_loose and daemon_set is not None and daemon_set.is_rolled_out:
        return how_to_pin(case)
    return "the rollout ends these pods; if it is stuck, or the update strategy is OnDelete, delete them"


def answer_is_on_its_way(case: Case) -> Finding | None:
    """The last one about this very spec stands until then: a manager that starts takes nothing back."""
    if case.verdict is not None:
        return None
    earlier = earlier_answer(case)
    if earlier is not None:
        return Finding(ConditionStatus(earlier.status), Reason(earlier.reason), earlier.message)
    return unknown(Reason.VERIFYING, "signatures are being verified")


_LASTING = frozenset(
    {Reason.VERIFIED, Reason.TAG_MOVED, Reason.UNTRUSTED, Reason.REGISTRY_UNREACHABLE, Reason.VERIFIER_FAILED}
)


def earlier_answer(case: Case) -> Condition | None:
    """By the same policy: another may have trusted another signer. And about what pods still run."""
    schedext = case.observation.schedext
    status = schedext.status or SchedExtStatus()
    rests_on = status.verification
    if rests_on is None or rests_on.policy != rules_of(case).fingerprint:
        return None
    for each in status.conditions:
        is_about_this = each.observed_generation == schedext.metadata.generation
        if each.type == ConditionType.VERIFIED and is_about_this and each.reason in _LASTING:
            return each if each.status != ConditionStatus.TRUE or _runs_only(rests_on, case) else None
    return None


def _runs_only(said: Verification, case: Case) -> bool:
    """Whether pods run nothing but what that was said about, and what somebody is known to vouch for.

    A manager that has just started does not know yet what the verified index lists: its status does.
    """
    good = {said.digest, *said.parts}
    return all(digest in good or by is not None for digest, by in case.vouching.by_digest.items())


def nobody_is_known_to_look(case: Case) -> Finding | None:
    """As `answer_is_on_its_way`, for a decision: an earlier answer is none."""
    return unknown(Reason.VERIFYING, "signatures are being verified") if case.verdict is None else None


def nobody_trusted_signed_it(case: Case) -> Finding | None:
    """With the step at which verification ended."""
    if not isinstance(case.verdict, Distrusted):
        return None
    return no(Reason.UNTRUSTED, f"{case.verdict.why} (step {case.verdict.step} of verification)")


def it_cannot_be_found_out(case: Case) -> Finding | None:
    """And why; it is tried again by itself."""
    if not isinstance(case.verdict, Undecided):
        return None
    return unknown(case.verdict.reason, case.verdict.why)


def somebody_trusted_signed_it(case: Case) -> Finding | None:
    """When no check found anything."""
    if case.trusted is None:
        return None
    vouching = case.vouching.by_digest.items()
    by_others = sorted((digest, by.verified.signer) for digest, by in vouching if by and by != case.trusted)
    still = [f"pods still run {digest}, signed by {signer}" for digest, signer in by_others[:1]]
    return yes(Reason.VERIFIED, "; ".join((signed_words(case.trusted.verified), *still)))


JUDGED: tuple[Check, ...] = (
    nobody_is_known_to_look,
    nobody_trusted_signed_it,
    it_cannot_be_found_out,
    tag_has_moved,
    somebody_trusted_signed_it,
)
VERIFIED: tuple[Check, ...] = (
    rules_are_unknown,
    nobody_looks,
    nobody_may_ask,
    pods_run_by_tag_alone,
    answer_is_on_its_way,
    pods_run_another_image,
    *JUDGED,
)
