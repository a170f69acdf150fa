"""Whether what a SchedExt asks for may run, and under which name of its image.

What is in the DaemonSet stays until its pods have to change anyway, whatever mode and policy are by now.
Then the mode decides: `enforce` binds the image to the digest that was verified, others take it as it stands.
What is pinned is read back from the DaemonSet, and remembered nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedkit.model.api.conditions import MAX_MESSAGE, Finding, legible
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.schedext import (
    MAX_PARTS,
    Verification,
)
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.patch import differences, is_legacy
from schedkit.model.deploy.render import CONTAINER, render
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
from schedkit.model.deploy.running_images import running_digests
from schedkit.model.deploy.verdicts import Question, Trusted
from schedkit.model.deploy.verified_checks import (
    JUDGED,
    VERIFIED,
    earlier_answer,
    unverified_digest,
    word_about,
)
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
    """What has to be found out about the image; None: nothing.

    Whoever may run nothing has nothing looked up either: anybody could have the manager ask any host.
    """
    rules, case = observation.rules, _case(observation)
    if rules is None or rules.mode is TrustMode.OFF or exclusion(case) is not None:
        return None
    return Question(case.wanted, case.pinned, rules.fingerprint)


def vet(observation: Observation) -> Vetted:
    """Decide it from what is known now."""
    case = replace(_case(observation), running=running_digests(observation))
    verified = _with_complaint(first_finding(VERIFIED, case), observation)
    known = (_signer(case), _rests_on(case))
    if case.present is not None and _is_unchanged(observation, case.present):
        return Vetted(case.present, verified, None, *known)
    obstacle = next((found for check in OBSTACLES if (found := check(case)) is not None), None)
    shown = _with_complaint(obstacle, observation) if obstacle else None
    return Vetted(_image(case), verified, shown, *known)


def _case(observation: Observation) -> Case:
    daemon_set, wanted = observation.daemon_set, observation.schedext.spec.sched
    image = _image_in(daemon_set) if daemon_set is not None and observation.is_ours else None
    belongs = image is not None and (image == wanted or appended_digest(image, wanted) is not None)
    return Case(observation, image if belongs else None)


def _image_in(daemon_set: DaemonSet) -> str | None:
    containers = daemon_set.spec.template.spec.containers
    return containers[0].image if [each.name for each in containers] == [CONTAINER] else None


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
    if case.mode is TrustMode.OFF or case.observation.rules is None or exclusion(case) is not None:
        return ""
    if case.verdict is None and earlier_answer(case) is not None:
        before = case.observation.schedext.status
        return before.signer if before else ""
    if not isinstance(case.verdict, Trusted) or unverified_digest(case) is not None:
        return ""  # status.image, beside it, is not what they signed
    signers = {word_about(digest, case).verified.signer for digest in case.running}
    if len(signers) > 1:
        return ""  # status.image is only one of those that run
    # it is a stranger's word, and the API server takes no longer one
    return legible(next(iter(signers), case.verdict.verified.signer))[:MAX_MESSAGE]


def _rests_on(case: Case) -> Verification | None:
    before = case.observation.schedext.status
    if question_of(case.observation) is None:
        return None
    if case.verdict is None:
        return before.verification if before and earlier_answer(case) is not None else None
    policy = rules_of(case).fingerprint
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


def nobody_vouches_for_it(case: Case) -> Finding | None:
    """Under `enforce` the good word comes first."""
    if case.mode is not TrustMode.ENFORCE or isinstance(case.verdict, Trusted):
        return None
    return first_finding(JUDGED, case)


OBSTACLES: tuple[Check, ...] = (
    rules_cannot_be_read,
    namespace_is_not_allowed,
    image_is_not_allowed,
    nobody_vouches_for_it,
)
