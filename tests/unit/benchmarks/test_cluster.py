"""The cluster benchmark's own arithmetic, and its idea of what is right."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks.cluster import __main__ as bench
from benchmarks.cluster import objects, processes, reactions, report, targets
from benchmarks.cluster.contenders import LIMITED_PEER, OURS, PEER
from benchmarks.cluster.convergence import CEILING, Convergence
from benchmarks.cluster.fleets import FleetCost
from benchmarks.cluster.objects import Bodies
from benchmarks.cluster.processes import Memory
from benchmarks.cluster.sizes import Sizes
from benchmarks.cluster.targets import Results
from benchmarks.outcomes import Outcome
from rig.builders.observations import daemon_set, observation, pod, running, schedext, waiting
from rig.builders.plans import plan
from schedkit.model.api.daemonset import DaemonSet
from schedkit.model.api.pods import Pod
from schedkit.model.api.schedext import SchedExt
from schedkit.model.report.plan import WriteStatus


def convergence(who: str, daemon_sets_s: float, statuses_s: float) -> Convergence:
    return Convergence(who, daemon_sets_s, statuses_s, cpu_s=1, server_cpu_s=1, writes=1)


def fleet_cost(who: str, *, rss: float, updates_cpu_s: float) -> FleetCost:
    memory = Memory(rss=rss, pss=rss, peak=rss)
    return FleetCost(who, 1, 1, memory, updates_cpu_s, 1, memory)


def results(*, ours_s: float = 10, ours_mib: float = 50, ours_ms: float = 10) -> Results:
    """Of a run in which everybody else did the same as ever."""
    return Results(
        [
            convergence(CEILING, 8, 14),
            convergence(OURS.name, ours_s, 20),
            convergence(PEER.name, 11, 30),
            convergence(LIMITED_PEER.name, 50, 60),
        ],
        {OURS.name: [ours_ms / 1000] * 100, PEER.name: [0.01] * 100},
        [
            fleet_cost(OURS.name, rss=ours_mib, updates_cpu_s=1),
            fleet_cost(PEER.name, rss=200, updates_cpu_s=2),
        ],
    )


def missed(found: Results) -> list[str]:
    return [each.what for each in targets.compare(found) if not each.is_met]


# Targets


def test_a_run_that_keeps_every_promise_misses_none() -> None:
    assert missed(results()) == []
    assert len(targets.compare(results())) == 9


def test_slow_daemon_sets_miss_every_target_about_them() -> None:
    """Three of which speak of others' times, and none of which is about statuses."""
    assert [what.split(":")[0] for what in missed(results(ours_s=13))] == ["all DaemonSets"] * 3


def test_memory_has_an_own_limit_and_one_by_the_peer() -> None:
    assert missed(results(ours_mib=62)) == ["memory (RSS) for the fleet, to the peer's"]
    assert len(missed(results(ours_mib=71))) == 2


def test_slow_reactions_are_missed_by_percentile() -> None:
    assert missed(results(ours_ms=11)) == ["reaction to one SchedExt, p99"]
    assert len(missed(results(ours_ms=13))) == 2


def test_the_median_round_counts() -> None:
    """One round in which the machine was busy with something else changes nothing."""
    calm = results()
    disturbed = [*calm.convergences, convergence(OURS.name, 10, 20), convergence(OURS.name, 900, 900)]
    assert missed(Results(disturbed, calm.reactions_s, calm.fleets)) == []


@pytest.mark.parametrize(
    ("reached", "bound", "met"),
    [
        pytest.param(0.7, "at least", True, id="what was promised exactly is enough"),
        pytest.param(0.69, "at least", False, id="less than promised is missed"),
        pytest.param(0.7, "at most", True, id="as much as allowed is fine"),
        pytest.param(0.71, "at most", False, id="more than allowed is missed"),
        pytest.param(0.704, "at most", True, id="what is printed as the limit counts as the limit"),
    ],
)
def test_a_promise(reached: float, bound: str, met: bool) -> None:
    outcome = Outcome("x", reached, "at least" if bound == "at least" else "at most", 0.7, "x", "")
    assert outcome.is_met is met


def test_a_percentile_is_not_exceeded_by_so_many_values() -> None:
    values = [float(value) for value in range(101)]
    assert targets.percentile(values, 50) == 50
    assert targets.percentile(values, 99) == 99


# Reports


def test_the_text_marks_what_was_missed_and_nothing_else() -> None:
    lines = report.render_text(Sizes(), results(ours_mib=62)).splitlines()
    marked = [line for line in lines if "MISSED" in line]
    assert len(marked) == 1
    assert "memory (RSS) for the fleet, to the peer's" in marked[0]
    assert "0.31 x" in marked[0]


def test_the_json_has_targets_and_every_round() -> None:
    found = json.loads(report.render_json(Sizes(), results(ours_mib=62)))
    assert [each["what"] for each in found["targets"] if not each["met"]] == missed(results(ours_mib=62))
    assert found["sizes"]["nodes"] == 5000
    assert len(found["results"]["convergences"]) == 4


# What is right


def decoded(bodies: Bodies, *, status: bool) -> tuple[SchedExt, DaemonSet]:
    """The objects as the API server would have them after the bare writer has written everything."""
    uid = "11111111-0000-0000-0000-000000000000"
    stored = json.loads(bodies.schedext)
    stored["metadata"] |= {"namespace": "ns", "uid": uid, "generation": 1}
    if status:
        stored["status"] = json.loads(bodies.status("7"))["status"]
    daemon_set = json.loads(bodies.daemon_set(uid))
    daemon_set["metadata"] |= {"generation": 1}
    return msgspec.convert(stored, SchedExt), msgspec.convert(daemon_set, DaemonSet)


def test_what_the_bare_writer_writes_is_what_the_operator_would_write() -> None:
    assert objects.is_right(*decoded(Bodies("ns", "a", "group-1"), status=True))


def test_the_peer_says_the_same_in_go() -> None:
    """Otherwise what it writes is called wrong, after minutes of building and measuring."""
    schedext, _ = decoded(Bodies("ns", "a", "group-1"), status=True)
    assert schedext.status is not None

    assert [each.message for each in schedext.status.conditions if not peer_says(each.message)] == []


@pytest.mark.parametrize(
    ("pods", "desired"),
    [
        pytest.param([pod("a", running()), pod("b", running())], 2, id="all run"),
        pytest.param([pod("a", running())], 1, id="one runs"),
        pytest.param([pod("a", running()), pod("b", running(3))], 2, id="one is young"),
        pytest.param(
            [pod("a", running()), pod("b", waiting("ContainerCreating"))], 2, id="one is being started"
        ),
        pytest.param([pod("a")], 1, id="one has a node alone"),
        pytest.param([pod("a", running())], 2, id="one is about to be created"),
        pytest.param([], 0, id="none is wanted"),
    ],
)
def test_the_peer_says_the_same_of_a_fleet_on_its_way(pods: list[Pod], desired: int) -> None:
    """Or it writes more often than ours, or more seldom."""
    asked = schedext()
    seen = observation(asked, *pods, daemon_set=daemon_set(asked, desired=desired))
    (status,) = (each.status for each in plan(seen) if isinstance(each, WriteStatus))

    assert [each.message for each in status.conditions if not peer_says(each.message)] == []


def peer_says(message: str) -> bool:
    """Whether some words of the peer's, which has numbers and names in them, become this message."""
    source = (Path(bench.__file__).parent / "peer" / "reconcile.go").read_text()
    words = (re.escape(each) for each in re.findall(r'"([^"\n]*)"', source) if len(each) > len("%d of %s"))
    return any(re.fullmatch(each.replace("%d", r"\d+").replace("%s", ".*"), message) for each in words)


def test_a_missing_status_is_not_right() -> None:
    assert not objects.is_right(*decoded(Bodies("ns", "a", "group-1"), status=False))


def test_another_daemon_set_is_not_right() -> None:
    schedext, _ = decoded(Bodies("ns", "a", "group-1"), status=True)
    _, other = decoded(Bodies("ns", "a", "group-2"), status=True)
    assert not objects.is_right(schedext, other)


def test_every_node_is_wanted_by_exactly_one_schedext() -> None:
    """So that there are as many pods as nodes."""
    groups = [objects.bench_node(index, 3)["metadata"]["labels"][objects.GROUP_LABEL] for index in range(9)]
    assert sorted(groups) == sorted([objects.group_name(index) for index in range(3)] * 3)


def test_nodes_are_of_realistic_size() -> None:
    assert len(json.dumps(objects.bench_node(4711, 1000))) > 15_000


# Turns


@pytest.mark.parametrize("samples", [1, 50, 51, 300])
def test_turns_add_up_and_are_alike(samples: int) -> None:
    found = list(reactions.turns(samples))
    assert sum(found) == samples
    assert max(found) - min(found) <= 1
    assert max(found) <= 50


# The kernel's figures


def test_cpu_is_counted_in_seconds_whatever_the_name_of_the_process() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    before = ["R", *["0"] * 10]
    line = f"42 (a ) b (c) {' '.join(before)} {3 * ticks} {2 * ticks} 0 0\n"
    assert processes.parse_cpu_s(line) == 5


def test_own_cpu_time_grows_with_work() -> None:
    before = processes.cpu_s(os.getpid())
    ends = time.process_time() + 0.05
    while time.process_time() < ends:
        pass
    assert processes.cpu_s(os.getpid()) > before


def test_memory_of_a_process_is_in_mib() -> None:
    now = processes.memory(os.getpid())
    assert 5 < now.pss <= now.rss <= now.peak < 5000


def test_a_figure_that_the_kernel_does_not_give_is_an_error() -> None:
    with pytest.raises(ValueError, match="gives no Pss"):
        processes.parse_mib("Rss:   12 kB\n", "Pss")


# The command


def test_fewer_nodes_than_schedexts_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--nodes", "1", "--schedexts", "2"]) == os.EX_USAGE
    assert "at least as many nodes" in capsys.readouterr().err
