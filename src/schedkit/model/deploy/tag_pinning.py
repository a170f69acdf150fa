"""Which image a tag stands for: pods are pinned to a digest under `enforce`, and stay so when the tag moves.

What is pinned is read back from the DaemonSet, and remembered nowhere else.
"""

from __future__ import annotations

from schedkit.model.api.conditions import Finding, Reason, unknown, yes
from schedkit.model.deploy.rule_checks import Case
from schedkit.model.deploy.verdicts import signed_words
from schedkit.model.trust.rules import TrustMode


def image_for_pods(case: Case) -> str:
    """What pods that start from now on run."""
    if case.mode is not TrustMode.ENFORCE or "@" in case.wanted:
        return case.wanted
    if case.pinned is not None and case.present is not None:
        return case.present
    return f"{case.wanted}@{case.trusted.verified.digest}" if case.trusted else case.wanted


def tag_has_moved(case: Case) -> Finding | None:
    """The new image is never rolled out by itself: a tag is moved by whoever can push."""
    if case.trusted is None or case.pinned is None:
        return None
    verified, current = case.trusted.verified, case.trusted.current
    if current == verified.digest:
        return None
    words = f"{signed_words(verified)}; its tag now names {current}"
    return yes(Reason.TAG_MOVED, f"{words}: write sched: {case.wanted}@{current} to roll out the new image")


def pods_run_by_tag_alone(case: Case) -> Finding | None:
    """What they run was pulled before anybody looked; they are not restarted to find out."""
    if case.mode is not TrustMode.ENFORCE or not case.is_loose:
        return None
    words = "the pods were started from a tag, not a digest, and the image they run was not verified"
    return unknown(Reason.NOT_PINNED, f"{words}: {how_to_pin(case)}")


def how_to_pin(case: Case) -> str:
    """What a user writes to have pods of a digest."""
    if case.trusted is not None:
        return f"write sched: {case.wanted}@{case.trusted.current}, which restarts the pods"
    return "write sched with a digest that a trusted signer has signed, which restarts the pods"
