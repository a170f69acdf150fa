"""What a kubelet is told about the manager: that it lives, and that what it knows is current."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from rig.base.processes import free_port
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.informer import Informer
from schedkit.sked.http.probes import Health
from schedkit.sked.http.serving import listening
from schedkit.sked.kinds import NODES
from schedkit.sked.settings import Address

ARCHITECTURE = Path(__file__).parents[4] / "docs/sked/architecture.md"
FIVE_MINUTES_S = 300


@dataclass
class Store:
    """What an informer would say of itself."""

    age_s: float
    synced: bool = True
    resource: str = "nodes"


class Clock:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def probe(health: Health, path: str) -> tuple[int, str]:
    """As a kubelet does it."""
    port = free_port()
    async with (
        listening(Address("127.0.0.1", port), health.routes, flag="metrics-bind-address"),
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


def test_a_process_that_has_seen_nothing_yet_lives_but_is_not_ready() -> None:
    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:1")) as client:
            health = Health([Informer(client, NODES)])

            assert await probe(health, "/healthz") == (200, "ok\n")
            assert await probe(health, "/readyz") == (503, "nodes have not been listed yet\n")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("age_s", "answer"),
    [
        (FIVE_MINUTES_S, (200, "ok\n")),
        (FIVE_MINUTES_S + 1, (503, "nodes were last seen 301 s ago\n")),
    ],
)
def test_a_process_is_not_ready_when_what_it_knows_is_older_than_five_minutes(
    age_s: float, answer: tuple[int, str]
) -> None:
    health = Health([Store(0), Store(age_s)])

    assert asyncio.run(probe(health, "/readyz")) == answer
    assert re.search(r"`/readyz` fails after five\s+minutes", ARCHITECTURE.read_text())


def test_old_knowledge_is_no_reason_to_restart() -> None:
    assert asyncio.run(probe(Health([Store(10 * FIVE_MINUTES_S)]), "/healthz")) == (200, "ok\n")


def test_a_process_whose_heart_has_not_beaten_for_long_is_dead_until_it_beats_again() -> None:
    async def scenario() -> None:
        clock = Clock()
        health = Health([], missed_s=30, clock=clock)

        clock.now_s += 30
        assert await probe(health, "/healthz") == (200, "ok\n")
        clock.now_s += 1
        assert await probe(health, "/healthz") == (500, "no heartbeat for 31 s\n")

        beating = asyncio.create_task(health.run())
        await asyncio.sleep(0)  # its turn
        assert await probe(health, "/healthz") == (200, "ok\n")
        beating.cancel()

    asyncio.run(scenario())
