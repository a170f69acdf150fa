"""What a manager keeps in memory is on the page that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.events import Recorder
from schedkit.model.deploy.rivals import Rivals
from schedkit.model.deploy.verdicts import VerdictBook
from schedkit.model.trust.rules import TrustMode
from schedkit.model.trust.rules_in_force import RulesInForce
from schedkit.sked.cache import Cluster
from schedkit.sked.reconcile import Reconciler
from schedkit.sked.since import Since
from schedkit.sked.trust.rules_folder import RuleFolder
from schedkit.sked.trust.verifications import Access, Verifications

PAGE = Path(__file__).parents[3] / "docs/sked/architecture.md"
KEEPS = (dict, set, list, Rivals, VerdictBook, RulesInForce, Since)
WIRING = {"_listeners"}  # who is told, not what is known


def kept(client: Client) -> Iterator[str]:
    """`module.py`: `name` of each attribute that holds something between two reconciles."""
    cluster, folder = Cluster(client), RuleFolder(None, TrustMode.OFF)
    verifications = Verifications(folder, Access(), interval_s=600)
    recorder = Recorder(client, controller="c", instance="i")
    reconciler = Reconciler(cluster, client, recorder, verifications)
    for part in (cluster, folder, verifications, reconciler):
        module = type(part).__module__.removeprefix("schedkit.").replace(".", "/")
        for name, value in vars(part).items():
            if isinstance(value, KEEPS) and name not in WIRING:
                yield f"`{module}.py`: `{name}`"


def test_the_page_lists_all_that_a_manager_keeps() -> None:
    async def found() -> set[str]:
        async with Client(Connection("http://127.0.0.1:9")) as client:  # which nobody asks
            return set(kept(client))

    named, page = asyncio.run(found()), PAGE.read_text()
    assert len(named) >= 9
    assert [each for each in sorted(named) if each not in page] == []
