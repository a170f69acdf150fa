"""The rig's schedulers do to a real kernel what their descriptions say."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.guest import schedext, schedulers
from rig.guest.schedext import Launcher

pytestmark = pytest.mark.kernel("7")

EXIT_TIMEOUT_S = 30


def prepare_on_host() -> None:
    schedulers.built()


@pytest.fixture
def whole_machine() -> Iterator[None]:
    """CPU 1 is back when the test is over."""
    yield
    schedext.set_cpu_online(1, online=True)


def test_the_fifo_takes_over_the_kernel(launcher: Launcher) -> None:
    before = schedext.enable_seq()

    launcher.attach("fifo")

    assert schedext.state() == "enabled"
    assert schedext.ops() == "rig_fifo"
    assert schedext.enable_seq() == before + 1
    assert schedext.takes_all_tasks()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_fifo_cleanly(launcher: Launcher, number: signal.Signals) -> None:
    fifo = launcher.attach("fifo")

    fifo.send(number)

    assert fifo.wait(EXIT_TIMEOUT_S) == 0
    assert "EXIT: unregistered from user space" in fifo.tail()
    assert schedext.state() == "disabled"
    assert schedext.ops() is None


def test_a_second_scheduler_is_refused_and_the_first_stays(launcher: Launcher) -> None:
    launcher.attach("fifo")
    before = schedext.enable_seq()

    second = launcher.start("alias")

    assert second.wait(EXIT_TIMEOUT_S) == 1
    assert "attach failed: Device or resource busy" in second.tail()
    assert schedext.is_attached("rig_fifo")
    assert schedext.enable_seq() == before


def test_the_alias_runs_under_a_name_unlike_its_own(launcher: Launcher) -> None:
    launcher.attach("alias")

    assert schedext.ops() == "totally_different"


def test_partial_mode_leaves_ordinary_tasks_alone(launcher: Launcher) -> None:
    launcher.attach("partial")

    assert not schedext.takes_all_tasks()


def test_the_staller_runs_victims_until_it_is_told_to_stall(launcher: Launcher, tmp_path: Path) -> None:
    victim = Path(shutil.copy("/bin/true", tmp_path / "victim"))
    staller = launcher.attach("staller")

    assert processes.run([victim], timeout_s=30).returncode == 0
    assert staller.exit_code() is None


def test_the_watchdog_ejects_the_staller_after_sigusr1(launcher: Launcher) -> None:
    staller = launcher.attach("staller")

    staller.send(signal.SIGUSR1)

    assert_ejected_for_a_stall(staller)


def test_the_watchdog_ejects_the_staller_at_the_appointed_time(launcher: Launcher) -> None:
    assert_ejected_for_a_stall(launcher.attach("staller", "--stall-after", "1"))


def assert_ejected_for_a_stall(staller: processes.Process) -> None:
    assert staller.wait(EXIT_TIMEOUT_S) == 1
    assert "EXIT: runnable task stall (victim[" in staller.tail()
    assert schedext.state() == "disabled"


def test_a_failing_init_is_reported_although_the_attach_itself_succeeded(launcher: Launcher) -> None:
    before = schedext.enable_seq()

    bad = launcher.start("bad_init")

    assert bad.wait(EXIT_TIMEOUT_S) == 1
    assert "ops.init() failed (-19)" in bad.tail()
    assert schedext.state() == "disabled"
    assert schedext.enable_seq() == before


def test_the_owner_of_the_scheduler_shows_in_its_open_files(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")

    assert [link.kind for link in schedext.links(fifo.pid)] == ["struct_ops"]


def test_a_struct_ops_link_need_not_be_a_scheduler(launcher: Launcher) -> None:
    tcp = launcher.start("tcp")

    (link,) = polling.until(lambda: schedext.links(tcp.pid), "the TCP holder has its link")
    assert link.kind == "struct_ops"
    assert schedext.state() == "disabled"


def test_an_orphan_outlives_its_loader_until_it_is_ejected(launcher: Launcher) -> None:
    orphan = launcher.attach("orphan")
    assert schedext.links(orphan.pid) == []

    orphan.send(signal.SIGKILL)
    orphan.wait(EXIT_TIMEOUT_S)

    assert polling.stays_untrue(lambda: not schedext.is_attached("rig_orphan"), for_s=2)
    schedext.eject()
    schedext.await_disabled()


def test_an_ordinary_scheduler_goes_with_its_loader(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")

    fifo.send(signal.SIGKILL)

    schedext.await_disabled()


def test_the_stubborn_one_survives_sigterm_but_not_sigkill(launcher: Launcher) -> None:
    stubborn = launcher.attach("stubborn")

    stubborn.send(signal.SIGTERM)
    polling.until(lambda: "SIGTERM ignored" in stubborn.tail(), "the signal has arrived")
    assert schedext.is_attached("rig_stubborn")

    stubborn.send(signal.SIGKILL)
    assert stubborn.wait(EXIT_TIMEOUT_S) == -signal.SIGKILL
    schedext.await_disabled()


def test_an_ejected_fifo_ends_with_an_error(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")

    schedext.eject()

    assert fifo.wait(EXIT_TIMEOUT_S) == 1
    assert "EXIT: disabled by sysrq-S" in fifo.tail()


def test_the_lingering_one_keeps_process_and_link_after_its_ejection(launcher: Launcher) -> None:
    lingering = launcher.attach("lingering")

    schedext.eject()

    polling.until(lambda: "EXIT: disabled by sysrq-S" in lingering.tail(), "it has noticed")
    assert schedext.state() == "disabled"
    assert lingering.exit_code() is None
    assert [link.kind for link in schedext.links(lingering.pid)] == ["struct_ops"]

    lingering.send(signal.SIGTERM)
    assert lingering.wait(EXIT_TIMEOUT_S) == 1


@pytest.mark.usefixtures("whole_machine")
def test_after_cpu_hotplug_the_same_process_attaches_again(launcher: Launcher) -> None:
    hotplug = launcher.attach("hotplug")

    for online in (False, True):
        expected = schedext.enable_seq() + 1
        schedext.set_cpu_online(1, online=online)
        await_attached_again(hotplug, expected)

    assert hotplug.exit_code() is None
    assert "cpu 1 going online" in hotplug.tail()


def await_attached_again(scheduler: processes.Process, expected_seq: int) -> None:
    scheduler.await_ready(
        lambda: schedext.enable_seq() == expected_seq and schedext.is_attached("rig_hotplug"), timeout_s=60
    )


@pytest.mark.usefixtures("whole_machine")
def test_cpu_hotplug_ends_an_ordinary_scheduler(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")

    schedext.set_cpu_online(1, online=False)

    assert fifo.wait(EXIT_TIMEOUT_S) == 0
    assert "EXIT: unregistered from the main kernel (cpu 1 going offline" in fifo.tail()


def test_the_slow_one_is_alive_long_before_it_is_attached(launcher: Launcher) -> None:
    started = time.monotonic()
    slow = launcher.start("slow", "--load-delay", "3")

    assert polling.stays_untrue(lambda: schedext.state() != "disabled", for_s=2)
    assert slow.exit_code() is None
    slow.await_ready(lambda: schedext.is_attached("rig_slow"), timeout_s=60)
    assert time.monotonic() - started >= 3


def test_the_slow_one_can_be_stopped_before_it_loads(launcher: Launcher) -> None:
    slow = launcher.start("slow", "--load-delay", "60")
    polling.until(lambda: "waiting 60 s" in slow.tail(), "it has begun to wait")

    slow.send(signal.SIGTERM)

    assert slow.wait(EXIT_TIMEOUT_S) == 0
    assert schedext.state() == "disabled"
