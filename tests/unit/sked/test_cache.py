"""What a manager sees of a node, from its stores."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import msgspec
import pytest

from rig.base.polling import play
from rig.builders.observations import NOW, failed_create, pod, running, schedext, waiting
from rig.builders.reports import agent, attached, node, of_pod, report, served
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.resources import Key, key_of
from schedkit.model.api.daemonset import OwnerReference
from schedkit.model.api.reports import ReportKernel
from schedkit.sked.cache import Cluster

PLACED = pod(container=running(60))
LATER = NOW + dt.timedelta(seconds=100)


def on_a_cluster(scene: Callable[[Cluster], None]) -> None:
    """Play the scene on stores that nobody fills but the scene."""

    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:9")) as client:  # which nobody asks
            scene(Cluster(client))

    play(scenario)


def test_a_sight_has_all_that_is_known_of_the_node() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.nodes.store.put(node())
        cluster.agents.store.put(agent())
        cluster.reports.store.put(served(attached()))
        cluster.pods.store.put(PLACED)

        seen = cluster.look(PLACED, NOW)

        assert (seen.node, seen.report, seen.owner) == (node(), attached(), PLACED)
        assert seen.has_agent
        assert (seen.silent_since, seen.unattached_since, seen.stranger_since) == (None, None, None)

    on_a_cluster(scene)


def test_a_pod_of_another_daemon_set_on_the_node_is_a_neighbour_and_a_former_one_of_the_same_is_none() -> (
    None
):
    def scene(cluster: Cluster) -> None:
        former = msgspec.structs.replace(PLACED.metadata, name="former", uid="former")
        cluster.pods.store.put(PLACED)
        cluster.pods.store.put(msgspec.structs.replace(PLACED, metadata=former))
        assert not cluster.look(PLACED, NOW).has_neighbour

        owner = OwnerReference(kind="DaemonSet", name="theirs", uid="theirs", controller=True)
        other = msgspec.structs.replace(former, name="theirs", uid="theirs", owner_references=(owner,))
        cluster.pods.store.put(msgspec.structs.replace(PLACED, metadata=other))
        assert cluster.look(PLACED, NOW).has_neighbour
        assert not cluster.look(pod("node-2", running(60)), NOW).has_neighbour

    on_a_cluster(scene)


def test_waits_begin_when_they_are_first_seen_and_end_with_their_cause() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.pods.store.put(PLACED)
        cluster.reports.store.put(served(attached(of_pod("strange"))))

        first, second = cluster.look(PLACED, NOW), cluster.look(PLACED, LATER)
        assert first == second
        assert (first.silent_since, first.unattached_since, first.stranger_since) == (NOW, NOW, NOW)

        cluster.agents.store.put(agent())
        cluster.reports.store.put(served(attached(), version=41))
        third = cluster.look(PLACED, LATER)
        assert (third.silent_since, third.unattached_since, third.stranger_since) == (None, None, None)

    on_a_cluster(scene)


def test_a_container_that_was_restarted_gets_its_five_minutes_anew() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.reports.store.put(served(report()))

        assert cluster.look(PLACED, NOW).unattached_since == NOW
        assert cluster.look(pod(container=running(5)), LATER).unattached_since == LATER
        assert cluster.look(pod(container=waiting("ContainerCreating")), LATER).unattached_since is None

    on_a_cluster(scene)


@pytest.mark.parametrize("ready", [True, False])
def test_an_agent_is_silent_from_when_it_is_seen_to_be(ready: bool) -> None:
    def scene(cluster: Cluster) -> None:
        cluster.agents._put(agent())  # noqa: SLF001 - as its watch does
        cluster.agents._put(agent(ready=ready, version=51))  # noqa: SLF001

        silent_since = cluster.look(PLACED, LATER).silent_since

        assert (silent_since is None) == ready
        assert silent_since is None or silent_since < LATER

    on_a_cluster(scene)


def test_an_agent_is_unheard_until_it_is_ready_for_the_first_time() -> None:
    def scene(cluster: Cluster) -> None:
        for version, is_ready, is_unheard in ((50, False, True), (51, True, False), (52, False, False)):
            cluster.agents._put(agent(ready=is_ready, version=version))  # noqa: SLF001 - as its watch does
            assert cluster.look(PLACED, NOW).is_unheard == is_unheard

        cluster.agents._drop(Key("sked-node", "agent-node-1"))  # noqa: SLF001
        assert not cluster.look(PLACED, NOW).is_unheard

    on_a_cluster(scene)


def test_a_node_that_is_made_anew_joins_and_its_agent_is_unheard() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.nodes._put(node())  # noqa: SLF001 - as its list does
        cluster.nodes._synced.set()  # noqa: SLF001
        cluster.nodes._put(node(uid="another", resource_version="31"))  # noqa: SLF001 - as a list anew does

        assert cluster.look(PLACED, NOW).joined_at is not None

    on_a_cluster(scene)


def test_a_reboot_is_waited_for_from_when_the_node_says_its_boot_until_the_report_does() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.reports.store.put(served(attached()))
        cluster.nodes.store.put(node())
        assert cluster.look(PLACED, NOW).rebooted_at is None

        cluster.nodes.store.put(node(boot="next", resource_version="31"))
        assert cluster.look(PLACED, NOW).rebooted_at == NOW
        assert cluster.look(PLACED, LATER).rebooted_at == NOW

        cluster.reports.store.put(served(attached(kernel=ReportKernel(boot_id="next")), version=41))
        assert cluster.look(PLACED, LATER).rebooted_at is None

    on_a_cluster(scene)


def test_only_a_node_that_comes_after_the_first_list_joins() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.nodes._put(node("node-0"))  # noqa: SLF001 - as its list does
        cluster.nodes._synced.set()  # noqa: SLF001
        cluster.nodes._put(node("node-1"))  # noqa: SLF001 - as its watch does

        assert cluster.look(pod("node-0"), NOW).joined_at is None
        assert cluster.look(pod("node-1"), NOW).joined_at is not None

    on_a_cluster(scene)


def test_nothing_is_kept_about_what_is_gone() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.nodes._put(node())  # noqa: SLF001
        cluster.pods._put(PLACED)  # noqa: SLF001
        cluster.reports.store.put(served(attached(of_pod("strange"))))
        cluster.look(PLACED, NOW)
        assert len(cluster._since) == 3  # noqa: SLF001

        cluster.nodes._drop(Key(None, "node-1"))  # noqa: SLF001
        cluster.pods._drop(Key(None, PLACED.metadata.name))  # noqa: SLF001
        assert len(cluster._since) == 0  # noqa: SLF001

    on_a_cluster(scene)


def test_a_report_that_cannot_be_decoded_counts_more_than_the_one_before() -> None:
    def scene(cluster: Cluster) -> None:
        cluster.reports.store.put(served(attached()))
        cluster.reports.misfits[Key(None, "node-1")] = "it is a number"

        assert cluster.look(PLACED, NOW).misfit == "it is a number"

    on_a_cluster(scene)


def test_the_schedexts_of_a_node_are_found_by_their_pods() -> None:
    def scene(cluster: Cluster) -> None:
        meta = msgspec.structs.replace(PLACED.metadata, namespace="default")
        cluster.pods.store.put(msgspec.structs.replace(PLACED, metadata=meta))

        assert cluster.schedexts_on("node-1") == {Key("default", "scx")}
        assert cluster.schedexts_on("node-2") == set()

    on_a_cluster(scene)


@pytest.mark.parametrize(
    ("namespace", "name", "words"),
    [
        ("sked-node", "sked-node-agent", "violates PodSecurity"),
        ("sked-node", "another", ""),
        ("default", "sked-node-agent", ""),
    ],
)
def test_only_events_about_agents_say_why_there_are_none(namespace: str, name: str, words: str) -> None:
    said = failed_create("Error creating: violates PodSecurity")
    meta = msgspec.structs.replace(said.metadata, name="e", namespace=namespace)
    about = msgspec.structs.replace(said.involved_object, name=name)

    def scene(cluster: Cluster) -> None:
        asked = schedext()
        cluster.schedexts.store.put(asked)
        cluster.refused_pods.store.put(msgspec.structs.replace(said, metadata=meta, involved_object=about))

        seen = cluster.observe(key_of(asked), NOW, None)

        assert seen is not None
        assert (seen.agent_refusal, seen.has_agents) == (words, False)

    on_a_cluster(scene)


def test_one_agent_or_one_report_is_enough_to_ask_for_all() -> None:
    def scene(cluster: Cluster) -> None:
        asked = schedext()
        cluster.schedexts.store.put(asked)
        cluster.reports.misfits[Key(None, "node-1")] = "it is a number"

        seen = cluster.observe(key_of(asked), NOW, None)

        assert seen is not None
        assert seen.has_agents

    on_a_cluster(scene)
