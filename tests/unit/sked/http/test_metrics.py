"""What the manager shows of SchedExts to those who scrape it."""

from __future__ import annotations

import msgspec
from prometheus_client import generate_latest

from rig.base.polling import play
from rig.builders.observations import schedext
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.resources import key_of
from schedkit.model.api.schedext import NodeCounts, SchedExt, SchedExtStatus, TroubleKind
from schedkit.model.trust.rules import TrustMode
from schedkit.sked.cache import Cluster
from schedkit.sked.http.metrics import Metrics
from schedkit.sked.trust.rules_folder import RuleFolder

EJECTED = SchedExtStatus(
    nodes=NodeCounts(desired=3, attached=2, failed=1),
    troubles=(TroubleKind(reason="Ejected", nodes=1, example="node-1"),),
)


def page(cluster: Cluster) -> str:
    metrics = Metrics()
    metrics.watch(cluster, (), RuleFolder(None, TrustMode.OFF))
    return generate_latest(metrics.registry).decode()


def with_status(status: SchedExtStatus | None) -> SchedExt:
    return msgspec.structs.replace(schedext("scx", namespace="team"), status=status)


def test_nodes_are_shown_by_schedext_and_bucket_and_reason_until_it_is_gone() -> None:
    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:9")) as client:  # which nobody asks
            cluster = Cluster(client)
            cluster.schedexts.store.put(with_status(EJECTED))
            shown = page(cluster)
            assert 'sked_schedext_nodes{bucket="attached",name="scx",namespace="team"} 2.0' in shown
            assert 'sked_schedext_nodes{bucket="failed",name="scx",namespace="team"} 1.0' in shown
            assert 'sked_schedext_nodes{bucket="held",name="scx",namespace="team"} 0.0' in shown
            assert 'sked_schedext_troubled_nodes{name="scx",namespace="team",reason="Ejected"} 1.0' in shown

            cluster.schedexts.store.drop(key_of(with_status(None)))
            assert 'namespace="team"' not in page(cluster)

    play(scenario)


def test_a_schedext_without_a_status_has_no_node() -> None:
    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:9")) as client:
            cluster = Cluster(client)
            cluster.schedexts.store.put(with_status(None))
            assert 'sked_schedext_nodes{bucket="attached",name="scx",namespace="team"} 0.0' in page(cluster)

    play(scenario)
