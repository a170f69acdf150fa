"""Whether what a SchedExt asks for may run, and under which name of its image.

What is in the DaemonSet stays until its pods have to change anyway, whatever mode and policy are by now.
Then the mode decides: `enforce` binds the image to the digest that was verified, others take it as it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedkit.model.api.conditions import MAX_MESSAGE, Finding, legible
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import MAX_PARTS, Verification
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.render import CONTAINER
from schedkit.model.deploy.rule_checks import (
    Case,
    Check,
    appended_digest,
    exclusion,
    first_finding,
    image_is_not_allowed,
    namespace_is_not_allowed,
    rules_cannot_be_read,
    rules_of,
)
from schedkit.model.deploy.running_images import Vouching, vouching_for
from schedkit.model.deploy.tag_pinning import image_for_pods
from schedkit.model.deploy.verdicts import Question, Trusted
from schedkit.model.deploy.verified_checks import JUDGED, VERIFIED, earlier_answer
from schedkit.model.trust.rules import TrustMode


@dataclass(frozen=True, slots=True)
class Vetted:
    """What the rules say about a SchedExt."""

    image: str  # for the pods, if nothing is in the way
    verified: Finding
    obstacle: Finding | None  # why nothing new or changed may run; None: it may, or nothing is
    signer: str  # empty: not known
    rests_on: Verification | None  # what `verified` does; None: nobody has looked


def question_of(observation: Observation) -> Question | None:
    """As `question_about`, for a look at what is known before anything is decided."""
    return question_about(_case(observation))


def question_about(case: Case) -> Question | None:
    """What has to be found out about the image; None: nothing.

    Whoever may run nothing has nothing looked up either: anybody could have the manager ask any host.
    """
    rules = case.observation.rules
    if rules is None or rules.mode is TrustMode.OFF or exclusion(case) is not None:
        return None
    return Question(case.wanted, case.pinned, rules.fingerprint)


def vet(case: Case, *, changes_pods: bool) -> Vetted:
    """Decide it from what is known now; `changes_pods`: there are none yet, or others are asked for."""
    verified = _with_complaint(first_finding(VERIFIED, case), case.observation)
    word = _word_for_the_status(case)
    if case.present is not None and not changes_pods:
        return Vetted(case.present, verified, None, *word)
    obstacle = next((found for check in OBSTACLES if (found := check(case)) is not None), None)
    shown = _with_complaint(obstacle, case.observation) if obstacle else None
    return Vetted(image_for_pods(case), verified, shown, *word)


def case_of(observation: Observation) -> Case:
    """What the checks look at."""
    return replace(_case(observation), vouching=vouching_for(observation))


def _case(observation: Observation) -> Case:
    daemon_set, wanted = observation.daemon_set, observation.schedext.spec.sched
    image = _image_in(daemon_set) if daemon_set is not None and observation.is_ours else None
    belongs = image is not None and (image == wanted or appended_digest(image, wanted) is not None)
    return Case(observation, image if belongs else None)


def _image_in(daemon_set: DaemonSet) -> str | None:
    containers = daemon_set.spec.template.spec.containers
    return containers[0].image if [each.name for each in containers] == [CONTAINER] else None


def _word_for_the_status(case: Case) -> tuple[str, Verification | None]:
    """The signer of what pods run, if that is one and known, and what the answer about them rests on."""
    if question_about(case) is None:
        return "", None
    if case.verdict is None:
        before = case.observation.schedext.status if earlier_answer(case) is not None else None
        return (before.signer, before.verification) if before else ("", None)
    policy = rules_of(case).fingerprint
    if case.trusted is None:
        return "", Verification(policy=policy)
    digest = str(case.trusted.verified.digest)
    parts = sorted(each for each in case.vouching.by_digest if each != digest and case.trusted.covers(each))
    rests_on = Verification(policy=policy, digest=digest, parts=tuple(parts[:MAX_PARTS]))
    return _signer(case.trusted, case.vouching), rests_on


def _signer(trusted: Trusted, vouching: Vouching) -> str:
    """Empty where status.image, beside it, may be what somebody else signed, or nobody."""
    signers = vouching.signers or {trusted.verified.signer}
    if vouching.unvouched is not None or len(signers) > 1:
        return ""
    # it is a stranger's word, and the API server takes no longer one
    return legible(min(signers))[:MAX_MESSAGE]


def _with_complaint(finding: Finding, observation: Observation) -> Finding:
    if not observation.complaint or observation.rules is None:
        return finding
    words = "the previous rules still apply, because the current rules cannot be read"
    return replace(finding, message=f"{finding.message}; {words}: {observation.complaint}")


# What stands in the way of what is new or changed


def nobody_vouches_for_it(case: Case) -> Finding | None:
    """Under `enforce` the good word comes first."""
    if case.mode is not TrustMode.ENFORCE or case.trusted is not None:
        return None
    return first_finding(JUDGED, case)


OBSTACLES: tuple[Check, ...] = (
    rules_cannot_be_read,
    namespace_is_not_allowed,
    image_is_not_allowed,
    nobody_vouches_for_it,
)
