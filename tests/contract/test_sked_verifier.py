"""The operator's verifier as the process that it is, against real registries and real signatures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rig.base.certificates import Authority
from rig.operator.trustrules import BY_KEY, KEY_FILE
from rig.registries import tokens
from rig.registries.hostile import Server, answer
from rig.registries.registry import Kind, Pushed, Registry
from rig.signatures.cosign import Cosign, Key
from schedkit.sked.trust import confined
from schedkit.sked.trust.messages import Answer, Request
from schedkit.sked.trust.verifications import LIMITS, VERIFIER

Push = Callable[[Registry], Pushed]


@pytest.fixture(scope="module")
def cosign(folder: Path, authority: Authority) -> Cosign:
    return Cosign(3, folder / "cosign-of-verifier", ca_file=authority.ca_file)


@pytest.fixture(scope="module")
def key(cosign: Cosign) -> Key:
    return cosign.new_key()


class Asking:
    """Somebody who trusts one key, and the authority of the registries' certificates."""

    def __init__(self, key: Key, authority: Authority) -> None:
        self._key, self._authority = key, authority

    def __call__(
        self, image: str, *, pinned: str | None = None, known: str | None = None, auth: Path | None = None
    ) -> Answer:
        request = Request(
            ticket="ticket",
            image=image,
            pinned=pinned,
            known=known,
            policy=BY_KEY,
            files={KEY_FILE: self._key.public.read_bytes()},
            auth_file=str(auth) if auth else None,
            ca_file=str(self._authority.ca_file),
            insecure=(),
        )
        inherited = confined.environment(os.environ)
        said = confined.run(VERIFIER, msgspec.json.encode(request), LIMITS, inherited)
        return msgspec.json.decode(asyncio.run(said), type=Answer)


@pytest.fixture
def ask(key: Key, authority: Authority) -> Asking:
    return Asking(key, authority)


def by_tag(image: Pushed) -> str:
    return f"{image.registry.host}/{image.repository}:v1"


def test_a_signed_image_is_trusted_and_one_that_nobody_signed_is_not(
    any_registry: Registry, push: Push, cosign: Cosign, key: Key, ask: Asking
) -> None:
    image = push(any_registry)

    unsigned = ask(by_tag(image))
    cosign.sign(image.reference, key)
    signed = ask(by_tag(image))

    assert (unsigned.kind, unsigned.step) == ("distrusted", 3)
    assert (signed.kind, signed.current) == ("trusted", image.digest)
    assert signed.verdict is not None
    assert signed.verdict.digest == image.digest


def test_what_is_known_is_not_judged_again_and_what_is_pinned_counts_wherever_its_tag_went(
    any_registry: Registry, push: Push, ask: Asking
) -> None:
    image, other = push(any_registry), "sha256:" + "0" * 64

    assert ask(by_tag(image), known=image.digest).kind == "known"
    moved = ask(by_tag(image), pinned=other, known=other)
    assert (moved.kind, moved.current) == ("known", image.digest)


def test_what_is_not_there_is_not_trusted_and_who_does_not_answer_says_nothing(
    any_registry: Registry, ask: Asking
) -> None:
    missing = ask(f"{any_registry.host}/rig/nothing:v1")
    silent = ask("127.0.0.1:9/rig/nothing:v1")

    assert (missing.kind, missing.step) == ("distrusted", 2)
    assert silent.kind == "unreachable"
    assert "127.0.0.1:9" in silent.why


def test_a_registry_that_sends_nonsense_for_an_image_is_not_trusted_rather_than_away(ask: Asking) -> None:
    with Server({"/v2/": lambda _: [answer(200, b"<html>Log in, please</html>")]}) as hostile:
        found = ask(f"{hostile.host}/rig/nonsense:v1")

    assert (found.kind, found.step) == ("distrusted", 2)


def test_a_login_from_the_mounted_secret_is_used(authority: Authority, ask: Asking, tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    demand = tokens.htpasswd_demand(tmp_path)
    with Registry(Kind.FALLBACK_TAGS, tmp_path / "registry", authority, demand) as locked:
        secret = tmp_path / ".dockerconfigjson"
        login = {"username": tokens.USER, "password": tokens.PASSWORD}
        secret.write_bytes(msgspec.json.encode({"auths": {locked.host: login}}))
        image = f"{locked.host}/rig/nothing:v1"

        assert ask(image).kind == "unreachable"
        assert ask(image, auth=secret).kind == "distrusted", "it is let in, and there is nothing"
