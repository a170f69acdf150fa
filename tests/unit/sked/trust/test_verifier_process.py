"""What the verifier makes of a registry's failures: which of them say something about the image."""

from __future__ import annotations

import datetime as dt

import pytest

from schedkit.model.images import manifests
from schedkit.model.images.content import content_of
from schedkit.model.images.references import InvalidReference
from schedkit.model.trust.rules import TrustMode, parse_rules
from schedkit.model.trust.steps import Refusal, Step
from schedkit.oci.errors import (
    Intercepted,
    NotFound,
    Refused,
    RegistryError,
    TooLarge,
    Unauthorized,
    Uncertified,
    Unreachable,
)
from schedkit.oci.images.digests import index_of
from schedkit.oci.policy import dated_root
from schedkit.oci.policy.patterns import Re2Pattern
from schedkit.sked.trust.messages import NEWER_ROOT, Request
from schedkit.sked.trust.verifier_process import parts_of, told, with_age
from schedkit.sked.wiring import old_root_warning


def request(auth_file: str | None = None) -> Request:
    return Request(
        ticket="t",
        image="registry.example/scheds/rusty:v1",
        pinned=None,
        known=None,
        policy=None,
        files={},
        auth_file=auth_file,
        ca_file=None,
        insecure=(),
    )


@pytest.mark.parametrize("kind", [RegistryError, Unauthorized, Uncertified, Unreachable, Intercepted])
def test_a_registry_that_was_not_heard_says_nothing_about_the_image(kind: type[RegistryError]) -> None:
    assert told(request(), kind("why")).kind == "unreachable"


def test_who_says_that_it_is_not_there_must_be_a_registry() -> None:
    assert told(request(), NotFound("404", is_hearsay=True)).kind == "unreachable"


@pytest.mark.parametrize("kind", [InvalidReference, NotFound, Refused, TooLarge])
def test_an_answer_that_is_no_good_is_the_fault_of_what_was_named(
    kind: type[InvalidReference | RegistryError],
) -> None:
    answer = told(request(), kind("why"))

    assert (answer.kind, answer.step, answer.why) == ("distrusted", Step.DIGEST, "why")


def test_a_refusal_is_told_with_its_step() -> None:
    answer = told(request(), Refusal(Step.SIGNER, "a stranger"))

    assert (answer.kind, answer.step, answer.why) == ("distrusted", Step.SIGNER, "a stranger")


@pytest.mark.parametrize(
    ("step", "days", "has_hint"),
    [(Step.LOG, 400, True), (Step.ISSUANCE, 400, True), (Step.SIGNER, 400, False), (Step.LOG, 10, False)],
)
def test_a_refusal_that_may_be_due_to_an_old_root_says_so(step: Step, days: int, has_hint: bool) -> None:
    usual = dated_root.embedded()
    refusal = with_age(Refusal(step, "a stranger"), usual, usual.origin.taken + dt.timedelta(days))

    assert refusal.why.startswith("a stranger")
    assert ("400 days old" in refusal.why) is has_hint
    assert (NEWER_ROOT in refusal.why) is has_hint
    assert "schedctl" not in refusal.why, "there is none in a pod"


KEYS = {"keys": [{"path": "a.pub"}]}


@pytest.mark.parametrize(
    ("document", "is_told"),
    [
        ({"mode": "warn"}, True),
        ({"mode": "enforce", "policy": {**KEYS, "requireLog": True}}, True),
        (
            {"mode": "enforce", "policy": {"repositories": [{"match": "r.io", **KEYS, "requireLog": True}]}},
            True,
        ),
        ({"mode": "off"}, False),
        ({"mode": "enforce", "policy": KEYS}, False),
        ({"mode": "enforce", "policy": {**KEYS, "requireLog": True, "trustedRoot": "root.json"}}, False),
    ],
    ids=str,
)
def test_the_age_of_the_operators_own_root_is_told_where_somebody_asks_it(
    document: object, is_told: bool
) -> None:
    taken = dated_root.embedded().origin.taken
    rules = parse_rules(document, str.encode, TrustMode.OFF, Re2Pattern)

    assert (old_root_warning(rules, taken + dt.timedelta(days=400)) is not None) is is_told
    assert old_root_warning(rules, taken) is None
    assert old_root_warning(None, taken + dt.timedelta(days=400)) is None, "nothing is verified then"


def test_how_long_a_registry_wants_to_be_left_alone_is_told() -> None:
    assert told(request(), Unreachable("why", retry_after_s=9)).retry_after_s == 9


@pytest.mark.parametrize(
    ("auth_file", "words"),
    [(None, "name a file with --registry-auth"), ("/logins/config.json", "/logins/config.json")],
)
def test_whoever_has_to_log_in_is_told_where_the_operator_looks(auth_file: str | None, words: str) -> None:
    why = told(request(auth_file), Unauthorized("it asks for a login")).why

    assert words in why
    assert "podman" not in why


def test_the_parts_of_an_index_are_what_it_lists_and_a_manifest_has_none() -> None:
    platforms = [content_of(data).descriptor for data in (b"one", b"two")]
    of_docker = manifests.render_index(platforms).replace(b"oci.image.index.v1", b"docker.x")

    assert parts_of(index_of(platforms)) == tuple(str(each.digest) for each in platforms)
    assert parts_of(content_of(manifests.render_manifest(config=platforms[0]))) == ()
    assert parts_of(content_of(of_docker, manifests.IMAGE_INDEX)) == (), "what is no index lists nothing"
