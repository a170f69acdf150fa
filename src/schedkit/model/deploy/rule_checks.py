"""What the checks of a SchedExt look at, and what the administrator's lists and rules alone decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from schedkit.model.api.conditions import Finding, Reason, no
from schedkit.model.deploy.observation import Observation
from schedkit.model.deploy.running_images import Vouching
from schedkit.model.deploy.verdicts import Trusted, Verdict
from schedkit.model.images.references import Digest, InvalidReference, parse_reference
from schedkit.model.trust.rules import Rules, TrustMode


@dataclass(frozen=True, slots=True)
class Case:
    """What the checks look at."""

    observation: Observation
    present: str | None  # the image in our DaemonSet, if it is the spec's; None: there is none such
    vouching: Vouching = field(default_factory=Vouching)

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
    def trusted(self) -> Trusted | None:
        """The verdict, if it is a good one."""
        verdict = self.observation.verdict
        return verdict if isinstance(verdict, Trusted) else None

    @property
    def pinned(self) -> Digest | None:
        """The digest that pods are bound to though the user named none."""
        return appended_digest(self.present, self.wanted) if self.present else None

    @property
    def is_loose(self) -> bool:
        """Whether pods run by a name that can mean another image tomorrow."""
        return self.present is not None and "@" not in self.present


Check = Callable[[Case], Finding | None]


def first_finding(checks: tuple[Check, ...], case: Case) -> Finding:
    """The first that a check has; the last check of a chain always has one."""
    return next(finding for check in checks if (finding := check(case)) is not None)


def rules_of(case: Case) -> Rules:
    """The administrator's, or those of nobody."""
    return case.observation.rules or Rules()


def appended_digest(image: str, wanted: str) -> Digest | None:
    """The digest that follows the wanted name; None: the image is not called like this."""
    name, at, digest = image.rpartition("@")
    try:
        return Digest(digest) if at and name == wanted else None
    except InvalidReference:
        return None


def rules_cannot_be_read(case: Case) -> Finding | None:
    """What they would say nobody knows: nothing new may run, and what runs stays."""
    if case.observation.rules is not None:
        return None
    words = "nothing new or changed may run until the administrator's rules are corrected"
    return no(Reason.POLICY_UNREADABLE, f"{words}: {case.observation.complaint}")


def namespace_is_not_allowed(case: Case) -> Finding | None:
    """A list of namespaces counts in every mode."""
    namespace = case.observation.schedext.metadata.namespace
    rules = rules_of(case)
    if rules.allows_namespace(namespace):
        return None
    words = f"SchedExts in namespace {namespace} may not run"
    return no(Reason.NOT_ALLOWED, f"{words}: allowedNamespaces in {rules.place} does not list this namespace")


def image_is_not_allowed(case: Case) -> Finding | None:
    """A list of images counts in every mode."""
    rules = rules_of(case)
    try:
        is_allowed = rules.allowed_images is None or rules.allows_image(
            parse_reference(case.wanted).repository
        )
    except InvalidReference as error:
        return no(Reason.NOT_ALLOWED, f"allowedImages cannot be applied: {error}")
    if is_allowed:
        return None
    words = f"{case.wanted} may not run"
    return no(Reason.NOT_ALLOWED, f"{words}: allowedImages in {rules.place} does not list it")


def exclusion(case: Case) -> Finding | None:
    """Why the lists keep it from running, whoever signed it."""
    return namespace_is_not_allowed(case) or image_is_not_allowed(case)
