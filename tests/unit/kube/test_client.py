"""What a client makes of answers that a healthy API server rarely gives."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from rig.cluster import faultproxy
from rig.cluster.faultproxy import Asked, Scripted, answer
from schedkit.kube import errors
from schedkit.kube.access.config import Connection
from schedkit.kube.access.credentials import Credentials, FixedToken, TokenFile
from schedkit.kube.backoff import Patience
from schedkit.kube.client import Client, Selection
from schedkit.kube.errors import FencedError, UnavailableError
from schedkit.kube.resources import Metadata, Resource

R = TypeVar("R")


class Thing(msgspec.Struct, gc=False):
    metadata: Metadata | None = None
    data: dict[str, str] | None = None


THINGS = Resource("", "v1", "configmaps", "ConfigMap", Thing)
QUICK = Patience(attempt_s=5, total_s=10, first_delay_s=0.01, longest_delay_s=0.05)
GOOD = answer(b'{"metadata":{"name":"x","resourceVersion":"7"},"data":{"a":"b"}}')
TORN = b""  # the connection closes instead


def ask(
    *answers: faultproxy.Answer,
    do: Callable[[Client, Scripted], Awaitable[R]],
    patience: Patience = QUICK,
    credentials: Credentials | None = None,
) -> tuple[R, list[Asked]]:
    """What the client returns from a server with that script, and what the server was asked."""

    async def play() -> tuple[R, list[Asked]]:
        async with faultproxy.scripted(*answers) as server:
            where = Connection(server.url, credentials=credentials or FixedToken())
            async with Client(where, patience=patience) as client:
                return await do(client, server), server.asked

    return asyncio.run(play())


async def get(client: Client, _: Scripted) -> Thing:
    return await client.get(THINGS, "x", "ns")


async def create(client: Client, _: Scripted) -> Thing:
    return await client.create(THINGS, {"metadata": {"name": "x"}}, "ns")


async def update(client: Client, _: Scripted) -> Thing:
    return await client.update(THINGS, {"metadata": {"name": "x"}}, "x", "ns")


async def failing(
    do: Callable[[Client, Scripted], Awaitable[object]], client: Client, server: Scripted
) -> Exception:
    try:
        await do(client, server)
    except errors.KubeError as error:
        return error
    raise AssertionError("it did not fail")


def failure_of(
    *answers: faultproxy.Answer,
    do: Callable[[Client, Scripted], Awaitable[object]],
    patience: Patience = QUICK,
    credentials: Credentials | None = None,
) -> tuple[Exception, list[Asked]]:
    return ask(
        *answers,
        do=lambda client, server: failing(do, client, server),
        patience=patience,
        credentials=credentials,
    )


OVERLOADED = answer(b"Too many requests, please try again later.\n", code=429, kind="text/plain")
BROKEN = answer(b"", code=502, kind="")


@pytest.mark.parametrize("do", [get, create, update], ids=["get", "create", "update"])
def test_an_overloaded_server_is_asked_again_whatever_the_verb(
    do: Callable[[Client, Scripted], Awaitable[Thing]],
) -> None:
    thing, asked = ask(OVERLOADED, OVERLOADED, GOOD, do=do)

    assert thing.data == {"a": "b"}
    assert len(asked) == 3


def test_the_pause_after_429_is_the_one_the_server_asks_for() -> None:
    started = time.monotonic()
    ask(answer(b"later", code=429, kind="text/plain", more="Retry-After: 1"), GOOD, do=get)

    assert 1 <= time.monotonic() - started < 4


def test_a_pause_longer_than_the_patience_is_not_waited_for() -> None:
    started = time.monotonic()
    error, asked = failure_of(answer(b"later", code=429, more="Retry-After: 3600"), do=get)

    assert isinstance(error, UnavailableError)
    assert (error.acted, error.retry_after_s, len(asked)) == (False, 3600, 1)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("bad", [BROKEN, answer(b"", code=503), answer(b"<html>", code=500), TORN])
@pytest.mark.parametrize("do", [get, update], ids=["get", "update"])
def test_what_can_be_repeated_is_repeated_after_a_broken_answer(
    bad: bytes, do: Callable[[Client, Scripted], Awaitable[Thing]]
) -> None:
    thing, asked = ask(bad, bad, GOOD, do=do)

    assert thing.metadata is not None
    assert thing.metadata.resource_version == "7"
    assert len(asked) == 3


@pytest.mark.parametrize("bad", [BROKEN, answer(b"", code=503), TORN])
def test_a_creation_that_may_have_happened_is_not_repeated(bad: bytes) -> None:
    error, asked = failure_of(bad, GOOD, do=create)

    assert isinstance(error, UnavailableError)
    assert error.acted
    assert len(asked) == 1


def test_a_server_that_nobody_listens_for_surely_did_not_act() -> None:
    async def nobody(client: Client, server: Scripted) -> object:
        gone = Client(Connection("http://127.0.0.1:1"), patience=Patience(attempts=2, first_delay_s=0.01))
        async with gone:
            return await gone.create(THINGS, {}, "ns")

    error, _ = failure_of(GOOD, do=nobody)

    assert isinstance(error, UnavailableError)
    assert not error.acted
    assert "127.0.0.1:1" in str(error)


def test_a_request_frozen_past_its_deadline_in_a_pause_is_not_sent_again() -> None:
    """Nothing would bound it: what is left of its time is negative."""

    async def break_and_freeze(_: Asked) -> bytes:
        asyncio.get_running_loop().call_later(0.4, time.sleep, 2)  # as SIGSTOP would
        return BROKEN

    async def never(_: Asked) -> bytes:
        await asyncio.sleep(20)
        return GOOD

    patience = Patience(total_s=2, first_delay_s=1.5, longest_delay_s=1.5)
    started = time.monotonic()
    error, asked = failure_of(break_and_freeze, never, do=get, patience=patience)

    assert str(error).startswith("502 ")
    assert len(asked) == 1
    assert time.monotonic() - started < 10


def test_attempts_are_bounded_and_the_last_message_is_the_servers() -> None:
    status = b'{"kind":"Status","reason":"InternalError","message":"etcd has no leader"}'
    patience = Patience(attempts=4, first_delay_s=0.01, longest_delay_s=0.02)
    error, asked = failure_of(answer(status, code=500), do=get, patience=patience)

    assert str(error) == "500 InternalError: etcd has no leader"
    assert len(asked) == 4


def test_a_server_that_never_answers_is_left_at_the_deadline() -> None:
    async def never(_: Asked) -> bytes:
        await asyncio.sleep(60)
        return GOOD

    started = time.monotonic()
    error, asked = failure_of(never, do=get, patience=Patience(attempt_s=0.3, total_s=1, first_delay_s=0.01))

    assert isinstance(error, UnavailableError)
    assert time.monotonic() - started < 3
    assert len(asked) >= 2


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.InvalidError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (409, "Conflict", errors.ConflictError),
        (410, "Expired", errors.GoneError),
        (422, "Invalid", errors.InvalidError),
        (418, "", errors.ApiError),
    ],
)
def test_each_refusal_has_its_own_class_and_is_not_repeated(
    code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    status = msgspec.json.encode({"kind": "Status", "reason": reason, "message": "because"})
    error, asked = failure_of(answer(status, code=code), do=get)

    assert type(error) is kind
    assert (error.code, error.message) == (code, "because")
    assert len(asked) == 1


def test_an_invalid_object_names_its_wrong_fields() -> None:
    cause = {"field": "spec.image", "message": "must not be empty", "reason": "FieldValueInvalid"}
    status = {"reason": "Invalid", "message": "it is wrong", "details": {"causes": [cause]}}
    error, _ = failure_of(answer(msgspec.json.encode(status), code=422), do=create)

    assert isinstance(error, errors.InvalidError)
    assert [(each.field, each.message) for each in error.causes] == [("spec.image", "must not be empty")]


def test_an_answer_of_another_shape_is_a_decode_error() -> None:
    error, _ = failure_of(answer(b'{"metadata": 5}'), do=get)

    assert isinstance(error, errors.DecodeError)
    assert "configmaps" in str(error)


# Passwords in addresses


def failure_at(make: Callable[[str], Connection], reply: bytes) -> str:
    """What is said when a request fails; `make` gets the host and port of a server that replies so."""

    async def play() -> str:
        async with faultproxy.scripted(reply) as server:
            where = make(server.url.removeprefix("http://"))
            async with Client(where, patience=Patience(attempts=1, attempt_s=5, total_s=10)) as client:
                return str(await failing(get, client, server))

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("make", "reply", "said"),
    [
        pytest.param(
            lambda place: Connection(f"http://me:hunter2@{place}"),
            TORN,
            "on http://127.0.0.1:",
            id="a server that goes away",
        ),
        pytest.param(
            lambda place: Connection("https://api.example", proxy=f"http://me:hunter2@{place}"),
            answer(b"", code=407),
            "on https://api.example failed: 407 Whatever",
            id="a proxy that refuses",
        ),
        pytest.param(
            lambda _: Connection("https://api.example", proxy="http://me:hunter2@proxy.example:port"),
            TORN,
            "the address http://proxy.example:port is wrong",
            id="a proxy whose port is no number",
        ),
        pytest.param(
            lambda _: Connection("https://me:hunter2@api.example:port"),
            TORN,
            "the address https://api.example:port/api/v1/namespaces/ns/configmaps/x is wrong",
            id="a server whose port is no number",
        ),
    ],
)
def test_a_failure_names_addresses_without_user_and_password(
    make: Callable[[str], Connection], reply: bytes, said: str
) -> None:
    message = failure_at(make, reply)

    assert said in message
    assert "me:" not in message
    assert "hunter2" not in message


# Tokens


def test_a_token_replaced_on_disk_is_used_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")

    async def twice(client: Client, _: Scripted) -> None:
        await client.get(THINGS, "x", "ns")
        replacement = tmp_path / "new"
        replacement.write_text("second")
        replacement.rename(token)
        await client.get(THINGS, "x", "ns")

    _, asked = ask(GOOD, do=twice, credentials=TokenFile(token))

    assert [each.headers["authorization"] for each in asked] == ["Bearer first", "Bearer second"]


def test_a_refused_token_is_read_again_and_the_request_replayed_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    before = token.stat()

    async def refuse_and_rotate(_: Asked) -> bytes:
        token.write_text("new")
        os.utime(token, ns=(before.st_atime_ns, before.st_mtime_ns))  # a rotation that cannot be seen
        return answer(b"{}", code=401)

    thing, asked = ask(refuse_and_rotate, GOOD, do=create, credentials=TokenFile(token))

    assert thing.data == {"a": "b"}
    assert [each.headers["authorization"] for each in asked] == ["Bearer old", "Bearer new"]


def test_a_token_that_stays_refused_is_an_error_after_two_requests(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("bad")
    error, asked = failure_of(answer(b"{}", code=401), do=get, credentials=TokenFile(token))

    assert isinstance(error, errors.ForbiddenError)
    assert len(asked) == 2


def test_a_watch_whose_token_is_refused_is_asked_for_again_with_the_next(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def refuse_and_rotate(_: Asked) -> bytes:
        token.write_text("new")
        return answer(b"{}", code=401)

    async def watch(client: Client, _: Scripted) -> bytes:
        watched = client.watch(THINGS, Selection("ns"), version="5", lasts_s=5, silence_s=5)
        async with watched as stream:
            return await stream.read()

    said, asked = ask(refuse_and_rotate, faultproxy.stream(b"line\n"), do=watch, credentials=TokenFile(token))

    assert said == b"line\n"
    assert [each.headers["authorization"] for each in asked] == ["Bearer old", "Bearer new"]


@dataclass
class SlowCredentials:
    """Another token each time, after that many seconds."""

    takes_s: Sequence[float]
    given: int = 0

    async def token(self) -> str | None:
        self.given += 1
        await asyncio.sleep(self.takes_s[self.given - 1])
        return f"token-{self.given}"

    def refused(self) -> bool:
        return True


def test_what_a_new_token_takes_is_taken_from_the_time_of_the_request() -> None:
    ends = time.monotonic() + 8

    async def fenced(client: Client, server: Scripted) -> Thing:
        return await update(client.fenced(lambda: ends - time.monotonic(), patience=Patience()), server)

    credentials = SlowCredentials(takes_s=[0, 1])
    _, asked = ask(answer(b"{}", code=401), GOOD, do=fenced, credentials=credentials)

    first, second = (int(each.target.partition("?timeout=")[2].removesuffix("ms")) for each in asked)
    assert second <= first - 1000


def test_a_token_that_does_not_come_is_waited_for_no_longer_than_the_deadline() -> None:
    started = time.monotonic()
    error, asked = failure_of(
        GOOD, do=create, patience=Patience(total_s=0.3), credentials=SlowCredentials(takes_s=[20])
    )

    assert isinstance(error, UnavailableError)
    assert not error.acted
    assert "no token for http://127.0.0.1:" in str(error)
    assert asked == []
    assert time.monotonic() - started < 10


def test_a_fixed_token_is_not_tried_twice() -> None:
    _, asked = failure_of(answer(b"{}", code=401), do=get, credentials=FixedToken("bad"))

    assert len(asked) == 1


# The fence


def closed_after(passes: int) -> Callable[[], float]:
    """A fence that lets that many questions pass."""
    left = iter(range(passes))

    def fence() -> float:
        if next(left, None) is None:
            raise FencedError("the lease is over")
        return 60

    return fence


def test_nothing_is_sent_past_a_closed_fence() -> None:
    error, asked = failure_of(GOOD, do=lambda client, server: get(client.fenced(closed_after(0)), server))

    assert isinstance(error, FencedError)
    assert asked == []


@pytest.mark.parametrize("do", [create, update], ids=["create", "update"])
def test_a_fence_that_closes_while_connecting_keeps_the_body_back(
    do: Callable[[Client, Scripted], Awaitable[Thing]],
) -> None:
    error, asked = failure_of(GOOD, do=lambda client, server: do(client.fenced(closed_after(1)), server))

    assert isinstance(error, FencedError)
    assert asked == []


def test_a_fence_that_closes_between_attempts_ends_the_retries() -> None:
    # asked before the attempt, before the body, and before the pause
    fence = closed_after(2)
    error, asked = failure_of(BROKEN, GOOD, do=lambda client, server: update(client.fenced(fence), server))

    assert isinstance(error, FencedError)
    assert len(asked) == 1


def test_a_kept_connection_found_closed_is_not_a_way_around_the_fence() -> None:
    async def twice(client: Client, server: Scripted) -> Thing:
        await client.get(THINGS, "x", "ns")  # leaves a connection to keep
        return await update(client.fenced(closed_after(2)), server)

    error, asked = failure_of(GOOD, TORN, GOOD, do=twice)

    assert isinstance(error, FencedError)
    assert [each.method for each in asked] == ["GET", "PUT"]


def test_a_request_takes_no_longer_than_its_fence_allows() -> None:
    async def never(_: Asked) -> bytes:
        await asyncio.sleep(60)
        return GOOD

    started = time.monotonic()
    error, asked = failure_of(
        never,
        do=lambda client, server: update(client.fenced(lambda: 1.5, patience=Patience(attempts=1)), server),
    )

    assert isinstance(error, UnavailableError)
    assert time.monotonic() - started < 20
    assert asked[0].target.endswith("?timeout=1500ms")


def test_importing_the_client_changes_nothing_for_others_who_speak_tls() -> None:
    assert SSLProtocol.max_size == 256 * 1024


# Verbs as the server sees them


def test_pages_are_asked_for_until_there_are_no_more() -> None:
    first = answer(
        b'{"metadata":{"resourceVersion":"9","continue":"tok/en"},"items":[{"metadata":{"name":"a"}}]}'
    )
    last = answer(b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"b"}}]}')

    async def everything(client: Client, _: Scripted) -> list[Thing]:
        selection = Selection(namespace="ns", labels="a in (b,c)")
        return [each async for page in client.pages(THINGS, selection) for each in page.items]

    things, asked = ask(first, last, do=everything)

    assert [thing.metadata.name for thing in things if thing.metadata] == ["a", "b"]
    assert "labelSelector=a+in+(b,c)" in asked[0].target
    assert asked[1].target.endswith("&continue=tok/en")


def test_a_deletion_carries_its_precondition() -> None:
    async def delete(client: Client, _: Scripted) -> None:
        await client.delete(THINGS, "x", "ns", uid="u-1")

    _, asked = ask(GOOD, do=delete)

    assert msgspec.json.decode(asked[0].body)["preconditions"] == {"uid": "u-1"}


def test_every_answer_is_observed_with_its_code() -> None:
    seen: list[tuple[str, int]] = []

    def observe(method: str, path: str, code: int, seconds: float) -> None:
        seen.append((method, code))

    async def play() -> None:
        async with faultproxy.scripted(BROKEN, GOOD) as server:
            where = Connection(server.url)
            async with Client(where, patience=QUICK, observe=observe) as client:
                await client.get(THINGS, "x", "ns")

    asyncio.run(play())

    assert seen == [("GET", 502), ("GET", 200)]
