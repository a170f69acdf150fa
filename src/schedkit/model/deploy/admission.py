"""Whether what a SchedExt asks for may run, and under which name of its image.

What is in the DaemonSet stays until its pods have to change anyway, whatever mode and policy are by now.
Then the mode decides: `enforce` binds the image to the digest that was verified, others take it as it stands.
What is pinned is read back from the DaemonSet, and remembered nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from schedkit.model.api.conditions import MAX_MESSAGE, Finding, Reason, legible, no, unknown, yes
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import (
    MAX_PARTS,
    Condition,
    ConditionStatus,
    ConditionType,
    SchedExtStatus,
    Verification,
)
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import differences, is_legacy
from schedkit.model.deploy.render import CONTAINER, render
from schedkit.model.deploy.running_images import running_digests
from schedkit.model.deploy.verdicts import Distrusted, Question, Trusted, Undecided, Verdict
from schedkit.model.images.references import Digest, InvalidReference, parse_reference
from schedkit.model.trust.policy import Verified
from schedkit.model.trust.rules import Rules, TrustMode


@dataclass(frozen=True, slots=True)
class Vetted:
    """What the rules say about a SchedExt."""

    image: str  # for the pods, if nothing is in the way
    verified: Finding
    obstacle: Finding | None  # why nothing new or changed may run; None: it may, or nothing is
    signer: str  # empty: not known
    rests_on: Verification | None  # what `verified` does; None: nobody has looked


@dataclass(frozen=True, slots=True)
class Case:
    """What the checks look at."""

    observation: Observation
    present: str | None  # the image in our DaemonSet, if it is the spec's; None: there is none such
    running: frozenset[str] = frozenset()  # what pods run, by digests where these are known

    @property
    def wanted(self) -> str:
        """The image as the user writes it."""
        return self.observation.schedext.spec.sched

    @property
    def mode(self) -> TrustMode:
        """What the rules say, while there are any."""
        rules = self.observation.rules
        return rules.mode if rules else TrustMode.ENFORCE

    @property
    def verdict(self) -> Verdict | None:
        """About the image."""
        return self.observation.verdict

    @property
    def pinned(self) -> Digest | None:
        """The digest that pods are bound to though the user named none."""
        return _appended(self.present, self.wanted) if self.present else None

    @property
    def is_loose(self) -> bool:
        """Whether pods run by a name that can mean another image tomorrow."""
        return self.present is not None and "@" not in self.present


Check = Callable[[Case], Finding | None]


def question_of(observation: Observation) -> Question | None:
    """What has to be found out about the image; None: nothing.

    Whoever may run nothing has nothing looked up either: anybody could have the manager ask any host.
    """
    rules, case = observation.rules, _case(observation)
    if rules is None or rules.mode is TrustMode.OFF or _exclusion(case) is not None:
        return None
    return Question(case.wanted, case.pinned, rules.fingerprint)


def vet(observation: Observation) -> Vetted:
    """Decide it from what is known now."""
    case = replace(_case(observation), running=running_digests(observation))
    verified = _with_complaint(_first(VERIFIED, case), observation)
    known = (_signer(case), _rests_on(case))
    if case.present is not None and _is_unchanged(observation, case.present):
        return Vetted(case.present, verified, None, *known)
    obstacle = next((found for check in OBSTACLES if (found := check(case)) is not None), None)
    shown = _with_complaint(obstacle, observation) if obstacle else None
    return Vetted(_image(case), verified, shown, *known)


def _first(checks: tuple[Check, ...], case: Case) -> Finding:
    return next(finding for check in checks if (finding := check(case)) is not None)


def _case(observation: Observation) -> Case:
    daemon_set, wanted = observation.daemon_set, observation.schedext.spec.sched
    image = _image_in(daemon_set) if daemon_set is not None and observation.is_ours else None
    belongs = image is not None and (image == wanted or _appended(image, wanted) is not None)
    return Case(observation, image if belongs else None)


def _image_in(daemon_set: DaemonSet) -> str | None:
    containers = daemon_set.spec.template.spec.containers
    return containers[0].image if [each.name for each in containers] == [CONTAINER] else None


def _appended(image: str, wanted: str) -> Digest | None:
    """The digest that follows the wanted name; None: the image is not called like this."""
    name, at, digest = image.rpartition("@")
    try:
        return Digest(digest) if at and name == wanted else None
    except InvalidReference:
        return None


def _is_unchanged(observation: Observation, image: str) -> bool:
    """Whether pods that run that image are those that the spec asks for."""
    daemon_set = observation.daemon_set
    if daemon_set is None or is_legacy(daemon_set, observation.schedext):
        return daemon_set is not None
    operations = differences(daemon_set, render(observation.schedext, image))
    return not any(operation.path.startswith("/spec/template/") for operation in operations)


def _image(case: Case) -> str:
    """What pods that start from now on run."""
    if case.mode is not TrustMode.ENFORCE or "@" in case.wanted:
        return case.wanted
    if case.pinned is not None and case.present is not None:
        return case.present
    return (
        f"{case.wanted}@{case.verdict.verified.digest}" if isinstance(case.verdict, Trusted) else case.wanted
    )


def _signer(case: Case) -> str:
    if case.mode is TrustMode.OFF or case.observation.rules is None or _exclusion(case) is not None:
        return ""
    if case.verdict is None and _earlier_answer(case) is not None:
        before = case.observation.schedext.status
        return before.signer if before else ""
    if not isinstance(case.verdict, Trusted) or _unverified_digest(case) is not None:
        return ""  # status.image, beside it, is not what they signed
    signers = {_word_about(digest, case).verified.signer for digest in case.running}
    if len(signers) > 1:
        return ""  # status.image is only one of those that run
    # it is a stranger's word, and the API server takes no longer one
    return legible(next(iter(signers), case.verdict.verified.signer))[:MAX_MESSAGE]


def _rests_on(case: Case) -> Verification | None:
    before = case.observation.schedext.status
    if question_of(case.observation) is None:
        return None
    if case.verdict is None:
        return before.verification if before and _earlier_answer(case) is not None else None
    policy = _rules(case).fingerprint
    if not isinstance(case.verdict, Trusted):
        return Verification(policy=policy)
    digest = str(case.verdict.verified.digest)
    parts = sorted(each for each in case.running - {digest} if case.verdict.covers(each))
    return Verification(policy=policy, digest=digest, parts=tuple(parts[:MAX_PARTS]))


def _with_complaint(finding: Finding, observation: Observation) -> Finding:
    if not observation.complaint or observation.rules is None:
        return finding
    words = "this is by earlier rules, because those of now cannot be read"
    return replace(finding, message=f"{finding.message}; {words}: {observation.complaint}")


# What stands in the way of what is new or changed


def rules_cannot_be_read(case: Case) -> Finding | None:
    """What they would say nobody knows: nothing new may run, and what runs stays."""
    if case.observation.rules is not None:
        return None
    words = "nothing new or changed may run before the administrator's rules are mended"
    return no(Reason.POLICY_UNREADABLE, f"{words}: {case.observation.complaint}")


def namespace_is_not_allowed(case: Case) -> Finding | None:
    """A list of namespaces counts in every mode."""
    namespace = case.observation.schedext.metadata.namespace
    rules = _rules(case)
    if rules.allows_namespace(namespace):
        return None
    words = f"SchedExts of the namespace {namespace} may not run anything"
    return no(Reason.NOT_ALLOWED, f"{words}: allowedNamespaces in {rules.place} does not name it")


def image_is_not_allowed(case: Case) -> Finding | None:
    """A list of images counts in every mode."""
    rules = _rules(case)
    try:
        is_allowed = rules.allowed_images is None or rules.allows_image(
            parse_reference(case.wanted).repository
        )
    except InvalidReference as error:
        return no(Reason.NOT_ALLOWED, f"allowedImages cannot be applied: {error}")
    if is_allowed:
        return None
    return no(Reason.NOT_ALLOWED, f"{case.wanted} is not allowed: see allowedImages in {rules.place}")


def _exclusion(case: Case) -> Finding | None:
    """Why the lists keep it from running, whoever signed it."""
    return namespace_is_not_allowed(case) or image_is_not_allowed(case)


def nobody_vouches_for_it(case: Case) -> Finding | None:
    """Under `enforce` the good word comes first."""
    if case.mode is not TrustMode.ENFORCE or isinstance(case.verdict, Trusted):
        return None
    return _first(JUDGED, case)


OBSTACLES: tuple[Check, ...] = (
    rules_cannot_be_read,
    namespace_is_not_allowed,
    image_is_not_allowed,
    nobody_vouches_for_it,
)


def _rules(case: Case) -> Rules:
    return case.observation.rules or Rules()


# Verified: is the image signed by somebody who is trusted?


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
    found = _exclusion(case)
    return unknown(found.reason, f"signatures are not looked at: {found.message}") if found else None


def pods_run_by_tag_alone(case: Case) -> Finding | None:
    """What they run was pulled before anybody looked; they are not restarted to find out."""
    if case.mode is not TrustMode.ENFORCE or not case.is_loose:
        return None
    words = "the pods were started by this tag, and what they run was not verified"
    return unknown(Reason.NOT_PINNED, f"{words}: {_how_to_pin(case)}")


def pods_run_another_image(case: Case) -> Finding | None:
    """The good word is about one image; what pods pulled before, by whatever name, may be anything."""
    if (running := _unverified_digest(case)) is None or not isinstance(case.verdict, Trusted):
        return None
    words = f"{_signed(case.verdict.verified)}, but pods run {running}, and who signed that is not known here"
    return unknown(Reason.NOT_PINNED, f"{words}: {_how_to_replace(case)}")


def _unverified_digest(case: Case) -> str | None:
    """What a pod runs, or ran last, that nobody is known to vouch for; None: nothing is known."""
    if not isinstance(case.verdict, Trusted):
        return None
    good = _good_words(case)
    others = (digest for digest in case.running if not any(each.covers(digest) for each in good))
    return min(others, default=None)  # the same one at each look


def _good_words(case: Case) -> tuple[Trusted, ...]:
    """About what the image's name means, and what it meant before, the newest first."""
    now = (case.verdict,) if isinstance(case.verdict, Trusted) else ()
    return (*now, *reversed(case.observation.vouched))


def _how_to_replace(case: Case) -> str:
    daemon_set = case.observation.daemon_set
    if case.is_loose and daemon_set is not None and daemon_set.is_rolled_out:
        return _how_to_pin(case)
    return "the rollout ends them; with the update strategy OnDelete, or when it is stuck, delete them"


def _how_to_pin(case: Case) -> str:
    if isinstance(case.verdict, Trusted):
        return f"write sched: {case.wanted}@{case.verdict.current}, which restarts them"
    return "write sched with a digest that somebody trusted has signed, which restarts them"


def answer_is_on_its_way(case: Case) -> Finding | None:
    """The last one about this very spec stands until then: a manager that starts takes nothing back."""
    if case.verdict is not None:
        return None
    earlier = _earlier_answer(case)
    if earlier is not None:
        return Finding(ConditionStatus(earlier.status), Reason(earlier.reason), earlier.message)
    return unknown(Reason.VERIFYING, "signatures are being looked at")


_LASTING = frozenset(
    {Reason.VERIFIED, Reason.TAG_MOVED, Reason.UNTRUSTED, Reason.REGISTRY_UNREACHABLE, Reason.VERIFIER_FAILED}
)


def _earlier_answer(case: Case) -> Condition | None:
    """By the same policy: another may have trusted another signer. And about what pods still run."""
    schedext = case.observation.schedext
    status = schedext.status or SchedExtStatus()
    rests_on = status.verification
    if rests_on is None or rests_on.policy != _rules(case).fingerprint:
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
    good, vouched = {said.digest, *said.parts}, case.observation.vouched
    return all(each in good or any(one.covers(each) for one in vouched) for each in case.running)


def nobody_is_known_to_look(case: Case) -> Finding | None:
    """As `answer_is_on_its_way`, for a decision: an earlier answer is none."""
    return unknown(Reason.VERIFYING, "signatures are being looked at") if case.verdict is None else None


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


def tag_has_moved(case: Case) -> Finding | None:
    """The new image is never rolled out by itself: a tag is moved by whoever can push."""
    if not isinstance(case.verdict, Trusted) or case.pinned is None:
        return None
    verified, current = case.verdict.verified, case.verdict.current
    if current == verified.digest:
        return None
    words = f"{_signed(verified)}; its tag names {current} by now"
    return yes(Reason.TAG_MOVED, f"{words}: write sched: {case.wanted}@{current} to roll that out")


def somebody_trusted_signed_it(case: Case) -> Finding | None:
    """When no check found anything."""
    if not isinstance(case.verdict, Trusted):
        return None
    others = sorted(digest for digest in case.running if not case.verdict.covers(digest))
    still = [f"pods still run {_signed_as(digest, case)}" for digest in others[:1]]
    return yes(Reason.VERIFIED, "; ".join((_signed(case.verdict.verified), *still)))


def _signed_as(digest: str, case: Case) -> str:
    return f"{digest}, signed by {_word_about(digest, case).verified.signer}"


def _word_about(digest: str, case: Case) -> Trusted:
    """The newest good one; ask only where nothing unverified runs."""
    return next(each for each in _good_words(case) if each.covers(digest))


def _signed(verified: Verified) -> str:
    issuer = f", says {verified.issuer}" if verified.issuer else ""
    return f"{verified.digest} was signed by {verified.signer}{issuer}"


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
