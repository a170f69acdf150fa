"""The numbers of a node: the kernel's own as they are when somebody asks, the rest as the agent saw it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from schedkit.model.api.schedextnode import NodeExit, NodeOwner, NodeOwnerKind, SchedExtNodeStatus
from schedkit.model.node.eject_counts import EjectCounts
from schedkit.sked.agent.node_metrics import Page, Seen

ENDED = dt.datetime(2026, 11, 18, 12, 0, 0, tzinfo=dt.UTC)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    folder = tmp_path / "sys/kernel/sched_ext"
    (folder / "root").mkdir(parents=True)
    (folder / "state").write_text("enabled\n")
    (folder / "enable_seq").write_text("7\n")
    (folder / "root/ops").write_text("mini\n")
    (folder / "root/events").write_text("SCX_EV_SELECT_CPU_FALLBACK 3\nSCX_EV_ENQ_SKIP_EXITING 0\n")
    return folder


def samples(root: Path, seen: Seen) -> dict[str, float]:
    text = Page(root, lambda: seen).text().decode()
    families = text_string_to_metric_families(text)
    return {
        each.name + "".join(f"[{value}]" for value in each.labels.values()): each.value
        for family in families
        for each in family.samples
        if each.name.startswith("sked_node_")
    }


def test_a_node_is_told_in_numbers(kernel: Path, tmp_path: Path) -> None:
    status = SchedExtNodeStatus(
        state="enabled", owner=NodeOwner(kind=NodeOwnerKind.POD), exits=(NodeExit(ops="mini", time=ENDED),)
    )

    found = samples(tmp_path, Seen(status, EjectCounts({1026: 2})))

    assert {name: value for name, value in found.items() if value} == {
        "sked_node_state[enabled]": 1,
        "sked_node_attached[Pod]": 1,
        "sked_node_enables_total": 7,
        "sked_node_ejects_total[1026]": 2,
        "sked_node_last_exit_timestamp_seconds": ENDED.timestamp(),
        "sked_node_events_total[SCX_EV_SELECT_CPU_FALLBACK]": 3,
    }
    assert found["sked_node_state[disabled]"] == 0


def test_the_kernels_numbers_are_of_the_moment_they_are_asked_for(kernel: Path, tmp_path: Path) -> None:
    page = Page(tmp_path, lambda: Seen(None, EjectCounts()))
    (kernel / "root/events").write_text("SCX_EV_SELECT_CPU_FALLBACK 9\n")
    (kernel / "state").write_text("disabling\n")

    text = page.text().decode()

    assert 'sked_node_events_total{event="SCX_EV_SELECT_CPU_FALLBACK"} 9.0' in text
    assert 'sked_node_state{state="disabling"} 1.0' in text


def test_before_the_first_look_only_the_kernel_speaks(kernel: Path, tmp_path: Path) -> None:
    found = samples(tmp_path, Seen(None, EjectCounts()))

    assert found["sked_node_state[enabled]"] == 1
    assert not any("attached" in name for name in found)


def test_a_kernel_cannot_fill_the_page(kernel: Path, tmp_path: Path) -> None:
    lines = [f"SCX_EV_{number} 1\n" for number in range(1000)]
    (kernel / "root/events").write_text('bad"name 1\n' + "x" * 100 + " 1\n" + "".join(lines))

    events = [name for name in samples(tmp_path, Seen(None, EjectCounts())) if "events" in name]

    assert len(events) == 64
    assert all("[SCX_EV_" in name for name in events)


def test_nothing_attached_is_told_as_such(kernel: Path, tmp_path: Path) -> None:
    (kernel / "state").write_text("disabled\n")
    status = SchedExtNodeStatus(state="disabled", owner=NodeOwner(kind=NodeOwnerKind.NONE))

    assert samples(tmp_path, Seen(status, EjectCounts()))["sked_node_attached[None]"] == 0
