"""What happens to a real node, and what its report and the SchedExt say of it: the rows too long for CI.

The manager, the agent and the decoys are those of `test_operator.py`. Each test leaves the agent as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.base import polling
from rig.cluster.kubeclient import JsonObject
from rig.guest.schedulers import binary, catalog

from .sites import NAME, Stage

# an emulated node takes a minute and a half to start the agent anew
pytestmark = [pytest.mark.full, pytest.mark.timeout(1500), pytest.mark.usefixtures("decoys", "sked")]

_AGENT_STARTS_S = 400
_PULSE_S = 20  # of the kubelet's probes
_SYSRQ, _STALL = 67, 1026
_LINES = 10_000
_AGENT = "sked agent"


def test_a_scheduler_that_fails_to_start_is_not_called_attached(stage: Stage) -> None:
    stage.schedexts.create(NAME, sched=stage.push("bad_init"))

    stage.site.until(lambda: _failed(stage) == 1, "the node is counted as failed")

    ready = stage.schedexts.condition("Ready", NAME)
    assert ready["status"] == "False"
    assert ready["reason"] in {"Crashing", "Ejected"}
    assert stage.nodes()["attached"] == 0


def test_sysrq_is_a_human_and_no_eject(stage: Stage) -> None:
    stage.attach("fifo")

    stage.site.node.guest.run("echo S > /proc/sysrq-trigger")

    stage.site.until(lambda: _last_exit(stage, "fifo").get("kind") == _SYSRQ, "the report tells of SysRq-S")
    # the kubelet starts what a human switched off: nothing holds it yet
    stage.await_ops("fifo")
    assert stage.await_ready("Attached")["status"] == "True"
    assert "Ejected" not in stage.told()


def test_a_scheduler_started_by_hand_is_named_by_its_program(stage: Stage) -> None:
    by_hand = stage.site.node.guest.begin(f"exec '{binary('fifo')}'")
    stage.await_ops("fifo")

    stage.schedexts.create(NAME, sched=stage.push("fifo"))

    said = stage.await_report(state="enabled", owner_kind="Foreign")
    assert said["owner"]["program"].endswith("/scx_rig_fifo")
    assert "of the program" in stage.await_ready("Conflicted")["message"]
    assert stage.owners() == set()
    stage.site.node.guest.run("pkill -TERM -f scx_rig_fifo")
    stage.site.node.guest.await_end(by_hand, timeout_s=60)


def test_a_cordoned_and_drained_node_keeps_its_scheduler(stage: Stage) -> None:
    stage.attach("fifo")
    before = _dated(stage)
    cluster, node = stage.site.cluster, stage.site.node.name

    cluster.kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")

    try:
        assert polling.stays_untrue(lambda: _dated(stage) != before, for_s=5)
    finally:
        cluster.kubectl("uncordon", node)


def test_an_agent_that_is_killed_leaves_ready_as_it_was(stage: Stage) -> None:
    stage.attach("fifo")
    before, agent = _dated(stage), _agent_pid(stage)

    stage.site.node.guest.run(f"kill -KILL {agent}")

    _await_agent(stage, other_than=agent)
    assert _dated(stage) == before
    assert stage.report()["owner"]["kind"] == "Pod"


def test_an_agent_that_hangs_is_silent_after_two_minutes_and_believed_again_when_it_speaks(
    stage: Stage,
) -> None:
    stage.attach("fifo")

    with _agent_frozen(stage):
        polling.until(lambda: not _is_agent_ready(stage), "the agent is not ready", timeout_s=90 + _PULSE_S)
        silent = stage.schedexts.await_reason("Ready", "AgentSilent", NAME, timeout_s=120 + 30)
        assert silent["status"] == "Unknown"
        assert stage.nodes()["unknown"] == 1

    stage.schedexts.await_reason("Ready", "Attached", NAME, timeout_s=_AGENT_STARTS_S)


def test_an_eject_while_the_api_server_is_away_is_told_when_it_is_back(stage: Stage) -> None:
    guest, apiserver = stage.site.node.guest, stage.site.cluster.apiserver
    stage.schedexts.create(NAME, sched=stage.push("staller"), args=["--stall-after", "40"])
    stage.schedexts.await_reason("Ready", "Attached", NAME, timeout_s=120)

    apiserver.stop(grace_s=2)
    try:
        polling.until(
            lambda: "rig_staller" in guest.run("dmesg | grep 'sched_ext.*disabled'").output,
            "the kernel ejects the staller",
            timeout_s=120,
        )
        assert polling.stays_untrue(lambda: apiserver.is_running, for_s=60)
    finally:
        apiserver.start()

    polling.until(lambda: _last_exit(stage, "staller").get("kind") == _STALL, "it is told", timeout_s=30)


@pytest.mark.parametrize("has_times", [True, False], ids=["with times", "without times"])
def test_two_equal_ejects_are_two_and_are_told_once(stage: Stage, *, has_times: bool) -> None:
    """Also by the agent after the one that told of them."""
    with _log_times(stage, shown=has_times):
        before = _count(stage, "staller")
        for _ in range(2):
            stage.site.node.guest.run(f"'{binary('staller')}' --stall-after 0", timeout_s=60)
        stage.site.until(lambda: _count(stage, "staller") == before + 2, "both are told")

        agent = _agent_pid(stage)
        stage.site.node.guest.run(f"kill -KILL {agent}")
        _await_agent(stage, other_than=agent)

        assert _count(stage, "staller") == before + 2


def test_ten_thousand_lines_hide_no_eject_without_a_word(stage: Stage) -> None:
    guest, agent = stage.site.node.guest, _agent_pid(stage)
    before = _count(stage, "staller")
    guest.run(f"kill -STOP {agent}")
    guest.run(f"'{binary('staller')}' --stall-after 0", timeout_s=60)
    noise = f'for i in $(seq {_LINES}); do echo "foreign: line $i"; done > /dev/kmsg'
    guest.run(f"sysctl -qw kernel.printk_devkmsg=on; {noise}", timeout_s=300)
    guest.run(f"kill -KILL {agent}")
    _await_agent(stage, other_than=agent)

    said = stage.report()
    is_held = "rig_staller" in guest.run("dmesg | grep 'sched_ext.*disabled'").output
    if is_held:
        stage.site.until(lambda: _count(stage, "staller") == before + 1, "the eject is told")
    else:
        assert said["exitsSince"], "what the log has lost is said to be lost"


def _failed(stage: Stage) -> int:
    return int(stage.schedexts.status(NAME).get("nodes", {}).get("failed", 0))


def _last_exit(stage: Stage, name: str) -> JsonObject:
    """The last end of that scheduler; empty: none is reported."""
    ops = catalog()[name].ops_name
    found: list[JsonObject] = [each for each in stage.report().get("exits", ()) if each["ops"] == ops]
    return found[-1] if found else {}


def _count(stage: Stage, name: str) -> int:
    """How many ends of that scheduler are told."""
    ops = catalog()[name].ops_name
    return sum(each.get("count", 1) for each in stage.report().get("exits", ()) if each["ops"] == ops)


def _dated(stage: Stage) -> tuple[str, str]:
    """The condition Ready, with the moment of its last change."""
    ready = stage.schedexts.condition("Ready", NAME)
    return ready["status"], ready["lastTransitionTime"]


def _agent_pid(stage: Stage) -> int:
    """The agent's process on its node; 0: there is none."""
    found = stage.site.node.guest.run(f"pgrep -o -f '{_AGENT}'").output.split()
    return int(found[0]) if found else 0


def _is_agent_ready(stage: Stage) -> bool:
    pods = stage.site.cluster.client.items("/api/v1/namespaces/sked-node/pods")
    conditions = [each for pod in pods for each in pod["status"].get("conditions", ())]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _await_agent(stage: Stage, *, other_than: int) -> None:
    """Until another process of the agent is there, and is ready."""
    polling.until(
        lambda: _agent_pid(stage) not in {0, other_than} and _is_agent_ready(stage),
        "the next agent is ready",
        timeout_s=_AGENT_STARTS_S,
    )


@contextmanager
def _agent_frozen(stage: Stage) -> Iterator[None]:
    """Each agent stops as soon as it has begun, however often the kubelet starts it anew."""
    guest, flag = stage.site.node.guest, "/run/freezing"
    guest.run(f"touch {flag}")
    freezing = guest.begin(f"while [ -e {flag} ]; do pkill -STOP -f '{_AGENT}'; sleep 1; done")
    try:
        yield
    finally:
        guest.run(f"rm {flag}")
        guest.await_end(freezing, timeout_s=60)
        guest.run(f"pkill -CONT -f '{_AGENT}'")


@contextmanager
def _log_times(stage: Stage, *, shown: bool) -> Iterator[None]:
    path = "/sys/module/printk/parameters/time"
    stage.site.node.guest.run(f"echo {'Y' if shown else 'N'} > {path}")
    try:
        yield
    finally:
        stage.site.node.guest.run(f"echo Y > {path}")
