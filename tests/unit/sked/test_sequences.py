"""Whatever happens to nodes, agents, reports, pods and the manager: what a status says is proved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rig.base.polling import play
from rig.builders import observations as built
from rig.builders.observations import NOW, crash, daemon_set, running, schedext, waiting
from rig.builders.plans import carried_out, make_plan
from rig.builders.reports import agent, attached, ended, node, of_pod, report, served
from schedkit.kube.access.config import Connection
from schedkit.kube.client import Client
from schedkit.kube.resources import Key
from schedkit.model.api.daemonset import OwnerReference
from schedkit.model.api.nodes import Node
from schedkit.model.api.pods import AgentPod, ContainerStatus, Pod
from schedkit.model.api.reports import ReportKernel, ReportOwner, ReportStatus
from schedkit.model.api.schedext import SchedExt, SchedExtStatus
from schedkit.model.api.schedextnode import Eligibility, NodeOwnerKind
from schedkit.model.deploy.observation import Observation
from schedkit.model.report.believed_reports import JOINING_LASTS
from schedkit.model.report.fleet import survey
from schedkit.model.report.plan import WriteStatus
from schedkit.model.report.pod_checks import Bucket
from schedkit.model.report.sights import Sight
from schedkit.sked import cache
from schedkit.sked.cache import Cluster

NODES = ("node-1", "node-2")
SECRET = "secret"
OWNER = OwnerReference(kind="DaemonSet", name=SECRET, uid=SECRET, controller=True)
STALL: dict[str, Any] = {"reason": "runnable task stall", "message": "task[1] failed to run for 5s"}
THEIR_STALL: dict[str, Any] = {"ops": SECRET, "message": SECRET, "owner": "Pod", "pod_uid": f"{SECRET}-pod"}


@dataclass
class World:
    """The objects of a cluster, the manager that sees them, and its clock."""

    client: Client
    asked: SchedExt = field(default_factory=schedext)
    now: dt.datetime = NOW
    version: int = 100
    updated: int = len(NODES)
    nodes: dict[str, Node] = field(default_factory=dict)
    agents: dict[str, AgentPod] = field(default_factory=dict)
    reports: dict[str, ReportStatus] = field(default_factory=dict)
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)  # by namespace and node
    joined: dict[str, dt.datetime] = field(default_factory=dict)
    cluster: Cluster = field(init=False)

    def __post_init__(self) -> None:
        for name in NODES:
            self.node(name)
            self.agent(name, is_ready=True)
            self.report(name, _filed(attached(of_pod(f"{name}-pod")), "1", "1"))
            self.pod(name, running(60), "1")
        self.restart()

    # What happens

    def restart(self) -> None:
        """A manager that knows nothing yet lists everything."""
        self.joined.clear()
        self.cluster = Cluster(self.client)
        informers: tuple[tuple[Any, Any], ...] = (
            (self.cluster.nodes, self.nodes.values()),
            (self.cluster.agents, self.agents.values()),
            (self.cluster.reports, (served(each, name) for name, each in self.reports.items())),
            (self.cluster.pods, self.pods.values()),
        )
        for informer, things in informers:
            for each in things:
                informer._put(each)  # noqa: SLF001 - as its list does
            informer._synced.set()  # noqa: SLF001

    def node(
        self, name: str, *, ready: bool = True, boot: str = "1", uid: str = "1", going: bool = False
    ) -> None:
        before = self.nodes.get(name)
        gone = {"deletion_timestamp": self.now} if going else {}
        made = node(name, ready=ready, boot=boot, uid=uid, resource_version=self._next(), **gone)
        if before is None or before.metadata.uid != uid:
            self.joined[name] = self.now
        self.nodes[name] = made
        self._seen("nodes", made)

    def agent(self, name: str, *, is_ready: bool) -> None:
        self.agents[name] = agent(name, ready=is_ready, version=int(self._next()))
        self._seen("agents", self.agents[name])

    def report(self, name: str, status: ReportStatus) -> None:
        self.reports[name] = status
        self._seen("reports", served(status, name, version=int(self._next())))

    def pod(self, name: str, container: ContainerStatus | None, template: str) -> None:
        made = built.pod(name, container, template=template, start_time=built.ago(3600))
        meta = msgspec.structs.replace(made.metadata, namespace="default", resource_version=self._next())
        self.pods["default", name] = msgspec.structs.replace(made, metadata=meta)
        self._seen("pods", self.pods["default", name])

    def neighbour(self, name: str) -> None:
        """A pod of another tenant on the same node."""
        made = built.pod(name, running(60))
        meta = msgspec.structs.replace(
            made.metadata,
            namespace=SECRET,
            name=f"{SECRET}-{name}",
            uid=f"{SECRET}-pod",
            resource_version=self._next(),
            owner_references=(OWNER,),
        )
        self.pods[SECRET, name] = msgspec.structs.replace(made, metadata=meta)
        self._seen("pods", self.pods[SECRET, name])

    def lose(self, what: str, name: str) -> None:
        """The node, its agent or its report is gone."""
        keys = {"agents": Key("sked-node", f"agent-{name}")}
        if getattr(self, what).pop(name, None) is not None:
            getattr(self.cluster, what)._drop(keys.get(what, Key(None, name)))  # noqa: SLF001

    def _seen(self, what: str, thing: object) -> None:
        if hasattr(self, "cluster"):
            getattr(self.cluster, what)._put(thing)  # noqa: SLF001 - as its watch does

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    # What the manager says

    def observe(self) -> Observation:
        made = daemon_set(self.asked, desired=len(NODES), updated=self.updated)
        pods = tuple(self.pods["default", name] for name in NODES)
        return Observation(schedext=self.asked, now=self.now, daemon_set=made, pods=pods, has_agents=True)

    def _sights(self, seen: Observation) -> dict[str, Sight]:
        told = survey(seen, is_changing=False).told
        return {each.spec.node_name: self.cluster.look(each, self.now, told) for each in seen.pods}

    def tell(self) -> SchedExtStatus:
        """The status, written; a second look at the same writes none."""
        seen = self.observe()
        sights = self._sights(seen)
        after = carried_out(seen, make_plan(seen, sights).actions)
        self.asked = after.schedext
        again = self._sights(self.observe())
        assert not any(
            isinstance(each, WriteStatus) for each in make_plan(replace(self.observe()), again).actions
        )
        assert self.asked.status is not None
        return self.asked.status

    # What is so, in other words than the table's

    def is_excused(self, name: str) -> bool:
        there, said = self.nodes.get(name), self.reports.get(name)
        if there is None or not there.is_ready or there.metadata.deletion_timestamp:
            return True
        joined = self.joined.get(name)
        return (joined is not None and self.now < joined + JOINING_LASTS) or (
            said is not None and said.eligible is Eligibility.NO
        )

    def runs_it(self, name: str) -> bool:
        there, said = self.nodes.get(name), self.reports.get(name)
        if there is None or said is None:
            return False
        is_its_own = (said.state, said.owner.kind, said.owner.pod_uid) == ("enabled", "Pod", f"{name}-pod")
        boot = (there.metadata.uid, there.status.node_info.boot_id)
        return is_its_own and boot == (said.node_uid, said.kernel.boot_id)

    def is_current(self, name: str) -> bool:
        templates = {each: self.pods["default", each].metadata.labels.template for each in NODES}
        return self.updated >= len(NODES) or (self.updated > 0 and templates[name] == max(templates.values()))


names = st.sampled_from(NODES)
kinds = st.sampled_from(
    [
        lambda name: attached(of_pod(f"{name}-pod")),
        lambda name: attached(
            of_pod(f"{name}-pod"), exits=(ended(1026, owner="Pod", pod_uid=f"{name}-pod"),)
        ),
        lambda _: attached(of_pod(f"{SECRET}-pod")),
        lambda _: attached(ReportOwner(kind=NodeOwnerKind.FOREIGN, program="/usr/bin/scx")),
        lambda _: attached(ReportOwner(kind=NodeOwnerKind.UNKNOWN)),
        lambda _: report(),
        lambda _: report(state="unknown"),
        lambda _: report(state="absent", eligible=Eligibility.NO),
        lambda name: report(exits=(ended(1026, owner="Pod", pod_uid=f"{name}-pod", **STALL),)),
        lambda _: report(exits=(ended(1026, **THEIR_STALL),)),
        lambda _: report(exits=(ended(67, **THEIR_STALL),)),
        lambda _: report(exits=(ended(66),)),
    ]
)
numbers = st.sampled_from("12")
containers = st.sampled_from(
    [
        running(60),
        running(5),
        None,
        waiting("ErrImagePull", "no"),
        waiting("CrashLoopBackOff", crashed=crash()),
    ]
)
happenings = st.one_of(
    st.tuples(st.just("node"), names, st.booleans(), numbers, numbers, st.booleans()),
    st.tuples(st.just("agent"), names, st.booleans()),
    st.tuples(st.just("report"), names, kinds, numbers, numbers),
    st.tuples(st.just("good report"), names),
    st.tuples(st.just("pod"), names, containers, numbers),
    st.tuples(st.just("neighbour"), names),
    st.tuples(st.just("lose"), st.sampled_from(["nodes", "agents", "reports"]), names),
    st.tuples(st.just("rollout"), st.integers(0, len(NODES))),
    st.tuples(st.just("wait"), st.sampled_from([1, 29, 31, 119, 121, 299, 301])),
    st.tuples(st.just("restart")),
)


def happen(world: World, what: str, *how: Any) -> None:  # noqa: ANN401 - as the happening has it
    match what, how:
        case "node", (name, ready, boot, uid, going):
            world.node(name, ready=ready, boot=boot, uid=uid, going=going)
        case "agent", (name, is_ready):
            world.agent(name, is_ready=is_ready)
        case "report", (name, kind, boot, uid):
            world.report(name, _filed(kind(name), boot, uid))
        case "good report", (name,):
            world.report(name, _filed(attached(of_pod(f"{name}-pod")), "1", "1"))
        case "pod", (name, container, template):
            world.pod(name, container, template)
        case "rollout", (updated,):
            world.updated = updated
        case "wait", (seconds,):
            world.now += dt.timedelta(seconds=seconds)
        case _:
            getattr(world, what)(*how)


def _filed(status: ReportStatus, boot: str, uid: str) -> ReportStatus:
    return msgspec.structs.replace(status, kernel=ReportKernel(boot_id=boot), node_uid=uid)


@contextmanager
def clock_of(world: World) -> Iterator[None]:
    """Informers date what they see by the manager's clock, which is the world's."""
    real, cache._now = cache._now, lambda: world.now  # noqa: SLF001
    try:
        yield
    finally:
        cache._now = real  # noqa: SLF001


def check(world: World, status: SchedExtStatus) -> None:
    assert status.nodes is not None
    counts = msgspec.structs.asdict(status.nodes)
    assert sum(counts[each.value] for each in Bucket) == counts["desired"] == len(NODES)
    assert counts["updated"] <= counts["attached"] <= sum(map(world.runs_it, NODES))
    (ready,) = [each for each in status.conditions if each.type == "Ready"]
    if ready.status == "True":
        assert counts["attached"] > 0
        assert all(
            world.is_excused(name) or (world.runs_it(name) and world.is_current(name)) for name in NODES
        )
    assert SECRET not in msgspec.json.encode(status).decode()


@given(st.lists(happenings, max_size=25))
def test_whatever_happens_a_status_says_what_is_proved_adds_up_and_names_no_other_tenant(
    script: list[tuple[Any, ...]],
) -> None:
    async def scenario() -> None:
        async with Client(Connection("http://127.0.0.1:9")) as client:  # which nobody asks
            world = World(client)
            with clock_of(world):
                for what, *how in script:
                    happen(world, what, *how)
                    check(world, world.tell())

    play(scenario)
