"""The times of a lease, and the fence, by a clock that a test can move."""

from __future__ import annotations

import asyncio
import json

import pytest
from structlog.testing import capture_logs

from rig.base import polling
from rig.cluster import faultproxy
from rig.cluster.faultproxy import Asked, answer
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.errors import FencedError
from schedkit.kube.lease import Elector, LeaseLostError, Terms


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({"lease_s": 10, "act_s": 9.5}, id="acting until the lease ends"),
        pytest.param({"act_s": 3, "retry_s": 2}, id="one failed renewal would be the end"),
        pytest.param({"retry_s": 0}, id="no pause between renewals"),
    ],
)
def test_terms_without_room_for_a_failure_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="does not work"):
        Terms(**times)


def lease(version: int, holder: str) -> bytes:
    body = {"metadata": {"name": "lock", "resourceVersion": str(version)}, "spec": {"holderIdentity": holder}}
    return answer(json.dumps(body).encode())


MISSING = answer(b"{}", code=404)
CONFLICT = answer(b'{"reason":"Conflict"}', code=409)
TAKEN = answer(b'{"reason":"AlreadyExists"}', code=409)
OFTEN = Terms(lease_s=20, act_s=10, retry_s=0.5)  # each request has little more: machines may be busy


def test_the_fence_closes_before_the_lease_ends_counted_from_when_the_request_was_sent() -> None:
    clock = Hands()

    async def slowly(_: Asked) -> bytes:
        clock.now += 4  # the server took its time
        return lease(1, "me")

    async def play() -> None:
        async with faultproxy.scripted(MISSING, slowly) as server, Client(Connection(server.url)) as client:
            terms = Terms(lease_s=20, act_s=10, retry_s=1)
            elector = Elector(client, name="lock", namespace="ns", identity="me", terms=terms, clock=clock)
            with pytest.raises(FencedError):
                elector.fence()
            await elector.acquire()

            assert elector.fence() == pytest.approx(20 * 0.9 - 4)
            clock.now += 5.9
            assert elector.fence() > 0
            clock.now += 0.2
            assert not elector.leads
            with pytest.raises(FencedError, match="me no longer holds the lease ns/lock"):
                elector.fence()

    asyncio.run(play())


def test_a_renewal_that_took_longer_than_the_lease_does_not_open_the_fence() -> None:
    clock = Hands()

    async def too_slowly(_: Asked) -> bytes:
        clock.now += 60
        return lease(1, "me")

    async def play() -> None:
        async with (
            faultproxy.scripted(MISSING, too_slowly) as server,
            Client(Connection(server.url)) as client,
        ):
            elector = Elector(client, name="lock", namespace="ns", identity="me", clock=clock)
            await elector.acquire()
            with pytest.raises(FencedError):
                elector.fence()

    asyncio.run(play())


def test_a_release_that_a_renewal_overtook_is_repeated_on_what_is_there_now() -> None:
    async def play() -> tuple[str, list[Asked]]:
        script = (MISSING, lease(1, "me"), CONFLICT, lease(2, "me"), lease(3, ""))
        async with faultproxy.scripted(*script) as server, Client(Connection(server.url)) as client:
            elector = Elector(client, name="lock", namespace="ns", identity="me")
            await elector.acquire()
            await elector.release()
            return elector.holder, server.asked

    holder, asked = asyncio.run(play())

    assert holder == ""
    assert [each.method for each in asked] == ["GET", "POST", "PATCH", "GET", "PATCH"]
    assert json.loads(asked[-1].body)["metadata"]["resourceVersion"] == "2"
    assert json.loads(asked[-1].body)["spec"]["holderIdentity"] == ""


def test_a_release_ends_in_time_also_if_the_server_does_not_answer() -> None:
    async def never(_: Asked) -> bytes:
        await asyncio.sleep(60)
        return b""

    async def nothing_to_do() -> None:
        pass

    async def play() -> float:
        script = (MISSING, lease(1, "me"), never)
        async with faultproxy.scripted(*script) as server, Client(Connection(server.url)) as client:
            elector = Elector(client, name="lock", namespace="ns", identity="me", release_s=0.2)
            await elector.lead(nothing_to_do)
            assert [each.method for each in server.asked] == ["GET", "POST", "PATCH"]
            return elector.age_s  # since it got the lease

    with capture_logs() as lines:
        assert asyncio.run(play()) < 2
    assert [line["event"] for line in lines] == ["lease_acquired", "lease_not_released"]


def holding(*script: faultproxy.Answer, for_requests: int) -> tuple[list[bool], list[str]]:
    """Whether the holder leads when the server gets each request, and their methods; the last one repeats."""
    led: list[bool] = []

    async def play() -> list[str]:
        def noting(reply: faultproxy.Answer) -> faultproxy.Answer:
            async def answered(asked: Asked) -> bytes:
                led.append(elector.leads)
                return reply if isinstance(reply, bytes) else await reply(asked)

            return answered

        async with (
            faultproxy.scripted(*map(noting, script)) as server,
            Client(Connection(server.url)) as client,
        ):
            elector = Elector(client, name="lock", namespace="ns", identity="me", terms=OFTEN)
            await elector.acquire()
            keeping = asyncio.create_task(elector.keep())
            await polling.soon(lambda: keeping.done() or len(server.asked) >= for_requests, "they were sent")
            keeping.cancel()
            await asyncio.wait([keeping])
            if not keeping.cancelled():
                keeping.result()
            return [each.method for each in server.asked]

    return led, asyncio.run(play())


def test_a_deleted_lease_is_made_anew_and_nothing_is_done_until_it_is_there() -> None:
    script = (MISSING, lease(1, "me"), MISSING, lease(2, "me"), lease(3, "me"))

    led, methods = holding(*script, for_requests=5)

    assert methods[:5] == ["GET", "POST", "PATCH", "POST", "PATCH"]
    assert led[:5] == [False, False, True, False, True]


def test_a_deleted_lease_that_another_was_faster_to_make_is_lost() -> None:
    script = (MISSING, lease(1, "me"), MISSING, TAKEN, lease(2, "other"))

    with pytest.raises(LeaseLostError, match="was taken by 'other'"):
        holding(*script, for_requests=100)


def test_a_deleted_lease_that_cannot_be_made_anew_is_lost() -> None:
    script = (MISSING, lease(1, "me"), MISSING, answer(b"", code=503))

    with pytest.raises(LeaseLostError, match="was deleted and could not be created again"):
        holding(*script, for_requests=100)


def test_an_unreadable_lease_after_a_conflict_is_no_end_while_the_last_renewal_lasts() -> None:
    forbidden = answer(b"{}", code=403)
    script = (MISSING, lease(1, "me"), CONFLICT, forbidden, lease(3, "me"))

    led, methods = holding(*script, for_requests=5)

    assert methods[:5] == ["GET", "POST", "PATCH", "GET", "PATCH"]
    assert all(led[2:5])


def test_who_waits_for_a_lease_that_is_deleted_waits_until_its_holder_must_have_noticed() -> None:
    clock = Hands()
    made_at: list[float] = []

    async def absent(asked: Asked) -> bytes:
        if asked.method == "GET":
            return MISSING
        made_at.append(clock.now)
        return lease(2, "me")

    async def play() -> None:
        async with (
            faultproxy.scripted(lease(1, "other"), absent) as server,
            Client(Connection(server.url)) as client,
        ):
            elector = Elector(client, name="lock", namespace="ns", identity="me", terms=OFTEN, clock=clock)
            acquiring = asyncio.create_task(elector.acquire())
            await polling.soon(lambda: len(server.asked) >= 3, "it found none several times")
            clock.now += OFTEN.lease_s + 1
            await asyncio.wait_for(acquiring, 20)

    asyncio.run(play())

    assert made_at == [clock.now]
