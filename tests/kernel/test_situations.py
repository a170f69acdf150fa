"""What somebody may meet on a machine, one row each: what `schedctl` answers, and with which exit code.

The kernel is asked by `rig.guest.schedext`, the runtime by its own client: `schedctl` is not its own witness.
Rows in which a runtime has a part are played with both drivers; all others in CI with Podman alone.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rig.base import polling
from rig.guest import schedext
from rig.guest.schedctl_in_process import Ended
from rig.guest.schedext import Launcher
from rig.guest.user_machine import Machine
from rig.registries import signedimages
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

pytestmark = pytest.mark.kernel("7")

TIMEOUT_S = 90
POD = "0b0f2a52-9d3c-4a58-9a51-3d3c3d0e6f10"
both_drivers = pytest.mark.parametrize("driver", ["podman", "containerd"])
any_driver = pytest.mark.parametrize("driver", ["podman", pytest.param("containerd", marks=pytest.mark.full)])


def prepare_on_host() -> None:
    signedimages.layout()


@pytest.fixture
def machine(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """The machine with that runtime; afterwards it has no container, and the kernel its own scheduler."""
    service: Podman | Containerd = request.getfixturevalue(driver)
    machine = Machine.using(service, tmp_path)
    yield machine
    machine.clear()
    schedext.await_disabled(timeout_s=TIMEOUT_S)


def run_well(machine: Machine, name: str, *words: str) -> Ended:
    """The kernel runs that scheduler, and `run` says so."""
    ran = machine.run(name, *words)
    assert ran.code == 0, ran.stderr
    return ran


def process_of(machine: Machine) -> int:
    """The first process of the only container that runs."""
    pid: int = machine.schedctl.status()[1]["scheduler"]["pid"]
    return pid


def said_by(machine: Machine) -> tuple[int, str, str]:
    """Exit code, status and message of `schedctl status`."""
    code, said = machine.schedctl.status()
    return code, said["status"], said["message"]


def exit_codes(machine: Machine) -> dict[str, int | None]:
    """How each container ended, by `schedctl ps`."""
    return {
        each["name"]: each["exit_code"] for each in machine.schedctl("ps", "-o", "json").answer["containers"]
    }


def await_end(machine: Machine, name: str, code: int) -> None:
    polling.until(
        lambda: exit_codes(machine) == {name: code}, f"{name} has ended with {code}", timeout_s=TIMEOUT_S
    )


IDLE = (0, "idle", "the kernel runs its own scheduler")


# The ordinary course


@both_drivers
def test_a_signed_scheduler_is_run_shown_and_stopped(machine: Machine, driver: str) -> None:
    ran = run_well(machine, "fifo", "-o", "json").answer

    assert (schedext.state(), schedext.ops()) == ("enabled", "rig_fifo")
    assert (ran["ops"], ran["confirmed"], ran["signer"]) == ("rig_fifo", True, signedimages.SIGNER)
    assert (ran["digest"], ran["enable_seq"]) == (
        images.digest(signedimages.image("fifo")),
        schedext.enable_seq(),
    )
    assert machine.containers() == ["fifo"]

    code, status = machine.schedctl.status()
    assert (code, status["status"], status["driver"]) == (0, "running", driver)
    assert (status["owner"]["kind"], status["scheduler"]["container_id"]) == ("managed", ran["id"])
    pid = status["scheduler"]["pid"]
    assert [link.kind for link in schedext.links(pid)] == ["struct_ops"]
    assert machine.schedctl("ps").stdout.splitlines() == [
        "PID".ljust(len(str(pid))) + "  " + "ID".ljust(len(ran["id"][:12])) + "  NAME",
        f"{pid}  {ran['id'][:12]}  fifo",
    ]
    assert machine.schedctl("logs").stdout == "registered with the kernel\n"

    again = machine.run("fifo")
    assert (again.code, again.stdout) == (1, "")
    assert "Error: container fifo runs already\n" in again.stderr

    stopped = machine.schedctl("stop")
    assert (stopped.code, stopped.stdout) == (0, "stopped fifo; the kernel runs its own scheduler\n")
    assert (schedext.state(), schedext.ops(), machine.containers()) == ("disabled", None, [])
    assert said_by(machine) == IDLE


@both_drivers
def test_a_signed_scheduler_takes_the_place_of_another_and_a_reset_ends_it(machine: Machine) -> None:
    run_well(machine, "fifo")

    switched = machine.schedctl("switch", signedimages.reference("alias"), "--timeout=90")
    assert switched.code == 0, switched.stderr
    assert switched.stdout.startswith(
        "the kernel runs totally_different from container alias, instead of fifo; "
    )
    assert (schedext.state(), schedext.ops()) == ("enabled", "totally_different")
    assert machine.containers() == ["alias"]

    reset = machine.schedctl("reset", "--yes")
    assert (reset.code, reset.stdout) == (0, "the kernel runs its own scheduler\n")
    assert (schedext.state(), schedext.ops(), machine.containers()) == ("disabled", None, [])


@both_drivers
def test_with_the_least_privileges_it_attaches_as_well(machine: Machine) -> None:
    ran = run_well(machine, "fifo", "--least-privilege")

    assert ran.stdout == "the kernel runs rig_fifo from container fifo\n"
    assert effective_capabilities(process_of(machine)) == {"CAP_PERFMON", "CAP_BPF"}
    assert said_by(machine)[:2] == (0, "running")


def effective_capabilities(pid: int) -> set[str]:
    """The two that schedulers need are numbers 38 and 39; all others would show as numbers."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)
    names = {38: "CAP_PERFMON", 39: "CAP_BPF"}
    return {names.get(number, str(number)) for number in range(64) if mask >> number & 1}


@any_driver
def test_an_ops_name_unlike_the_images_is_no_mismatch(machine: Machine) -> None:
    ran = run_well(machine, "alias")

    assert ran.stdout == "the kernel runs totally_different from container alias\n"
    assert schedext.ops() == "totally_different"
    assert said_by(machine) == (0, "running", "the kernel runs totally_different from container alias")


# Schedulers that fail


@both_drivers
def test_a_failing_init_is_told_with_both_reasons_and_leaves_nothing(machine: Machine) -> None:
    failed = machine.run("bad_init")

    assert (failed.code, failed.stdout) == (1, "")
    assert "Error: bad_init was not attached: its program ended (exit code 1)\n" in failed.stderr
    assert "the kernel says: rig_bad_init: " in failed.stderr
    assert "the end of the scheduler's output: registered with the kernel / Error: EXIT: " in failed.stderr
    assert "\n  next: `schedctl doctor` checks this machine" in failed.stderr
    assert (schedext.state(), machine.containers()) == ("disabled", [])
    assert said_by(machine) == IDLE


@both_drivers
def test_followed_with_attach_its_output_and_exit_code_are_the_programs(machine: Machine) -> None:
    ended = machine.run("bad_init", "--attach")

    assert (ended.code, ended.stdout) == (1, "registered with the kernel\n")
    assert "Error: EXIT: " in ended.stderr
    assert machine.containers() == []


@both_drivers
def test_a_stalled_scheduler_is_gone_and_its_log_says_why(machine: Machine) -> None:
    run_well(machine, "staller")

    os.kill(process_of(machine), signal.SIGUSR1)

    await_end(machine, "staller", 1)
    assert schedext.state() == "disabled"
    code, status, _ = said_by(machine)
    assert (code, status) == (0, "idle")
    assert "EXIT: runnable task stall (victim[" in machine.schedctl("logs").stderr


@any_driver
def test_what_a_human_ejected_stays_ejected(machine: Machine) -> None:
    run_well(machine, "fifo")
    before = schedext.enable_seq()

    schedext.eject()

    await_end(machine, "fifo", 1)
    assert polling.stays_untrue(lambda: schedext.state() != "disabled", for_s=2)
    assert schedext.enable_seq() == before
    assert said_by(machine)[:2] == (0, "idle")
    assert "EXIT: disabled by sysrq-S" in machine.schedctl("logs").stderr


@both_drivers
def test_a_killed_container_takes_its_scheduler_along_and_the_next_run_clears_it_away(
    machine: Machine,
) -> None:
    run_well(machine, "fifo")

    os.kill(process_of(machine), signal.SIGKILL)

    await_end(machine, "fifo", 137)
    schedext.await_disabled()
    assert said_by(machine)[:2] == (0, "idle")
    assert machine.containers() == ["fifo"]
    run_well(machine, "alias")
    assert (schedext.ops(), machine.containers()) == ("totally_different", ["alias"])


@both_drivers
def test_a_scheduler_that_ignores_sigterm_is_killed_after_the_grace_period(machine: Machine) -> None:
    run_well(machine, "stubborn")

    stopped = machine.schedctl("stop", "--grace=1")

    assert stopped.code == 0, stopped.stderr
    assert stopped.stdout.startswith("stopped stubborn")
    assert (schedext.state(), machine.containers()) == ("disabled", [])


@any_driver
def test_after_cpu_hotplug_the_same_container_is_attached_again(machine: Machine) -> None:
    run_well(machine, "hotplug")
    pid, before = process_of(machine), schedext.enable_seq()
    try:
        schedext.set_cpu_online(1, online=False)
        polling.until(lambda: schedext.enable_seq() > before, "it is attached again", timeout_s=TIMEOUT_S)
        code, status = machine.schedctl.status()
    finally:
        schedext.set_cpu_online(1, online=True)

    assert (code, status["status"]) == (0, "running")
    assert (status["scheduler"]["pid"], status["kernel"]["enable_seq"]) == (pid, before + 1)


# What is left of a scheduler


@both_drivers
def test_an_ejected_scheduler_that_does_not_exit_is_detached_and_can_be_stopped(machine: Machine) -> None:
    run_well(machine, "lingering")

    schedext.eject()
    schedext.await_disabled()

    code, status, message = said_by(machine)
    assert (code, status) == (2, "managed-detached")
    assert "container lingering runs, but the kernel runs its own scheduler" in message
    assert "container lingering runs already" in machine.run("fifo").stderr
    assert machine.schedctl("stop").code == 0
    assert (said_by(machine), machine.containers()) == (IDLE, [])


@any_driver
def test_no_scheduler_is_started_while_a_strangers_ejected_one_is_held(
    machine: Machine, launcher: Launcher
) -> None:
    stranger = launcher.attach("lingering")
    schedext.eject()
    schedext.await_disabled()

    refused = machine.run("fifo")

    assert (refused.code, machine.containers()) == (1, [])
    assert f"process {stranger.pid} (" in refused.stderr
    assert "still holds a scheduler that the kernel has ejected" in refused.stderr
    assert "\n  next: end the process first: " in refused.stderr
    stranger.send(signal.SIGTERM)
    stranger.wait(TIMEOUT_S)
    run_well(machine, "fifo")
    assert machine.schedctl("stop").code == 0


@any_driver
def test_an_orphan_is_named_as_nobodys_and_stays_until_it_is_ejected(machine: Machine) -> None:
    run_well(machine, "orphan")

    os.kill(process_of(machine), signal.SIGKILL)
    await_end(machine, "orphan", 137)

    assert schedext.is_attached("rig_orphan")
    code, status = machine.schedctl.status()
    assert (code, status["status"], status["owner"]["kind"]) == (2, "orphaned-kernel-state", "orphan")
    assert "the kernel runs rig_orphan, which belongs to no process" in status["message"]
    refused = machine.run("fifo")
    assert refused.code == 1
    assert "Error: the kernel runs rig_orphan already\n  why:  it belongs to no process" in refused.stderr
    schedext.eject()
    schedext.await_disabled()
    assert said_by(machine)[:2] == (0, "idle")

    # its map is registered still, and has the name of the next one: that one's owner is proved all the same
    assert "removing what rig_orphan has left in the kernel\n" in run_well(machine, "orphan").stderr
    assert said_by(machine) == (0, "running", "the kernel runs rig_orphan from container orphan")
    assert machine.schedctl("stop").code == 0
    assert (schedext.state(), machine.containers()) == ("disabled", [])


# Others on the same machine


@any_driver
def test_a_stranger_keeps_the_kernel_and_is_named(machine: Machine, launcher: Launcher) -> None:
    stranger = launcher.attach("alias")

    code, status = machine.schedctl.status()
    refused, forced = machine.run("fifo"), machine.run("fifo", "--force")

    assert (code, status["status"]) == (2, "orphaned-kernel-state")
    assert (status["owner"]["kind"], status["owner"]["pid"]) == ("foreign", stranger.pid)
    assert refused.code == 1
    assert "Error: the kernel runs totally_different already\n" in refused.stderr
    assert f"end that scheduler first: `kill {stranger.pid}`" in refused.stderr
    assert forced.code == 1
    assert "fifo was not attached: its program ended (exit code 1)" in forced.stderr
    assert "attach failed: Device or resource busy" in forced.stderr
    assert (schedext.ops(), machine.containers()) == ("totally_different", [])


@any_driver
def test_a_tcp_congestion_control_is_no_scheduler(machine: Machine, launcher: Launcher) -> None:
    tcp = launcher.start("tcp")
    polling.until(lambda: schedext.links(tcp.pid), "the TCP holder has its link")
    assert said_by(machine) == IDLE

    run_well(machine, "fifo")

    code, status = machine.schedctl.status()
    assert (code, status["status"], status["owner"]["kind"]) == (0, "running", "managed")
    assert machine.schedctl("stop").code == 0
    assert schedext.links(tcp.pid) != []


@contextmanager
def control_group(pid: int, *names: str) -> Iterator[None]:
    """Control groups of these names, one in the other, and the process in the innermost."""
    top = Path("/sys/fs/cgroup")
    inner = top.joinpath(*names)
    inner.mkdir(parents=True)
    (inner / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        polling.until(lambda: (inner / "cgroup.procs").read_text() == "", f"{inner} is empty")
        for depth in range(len(names), 0, -1):
            top.joinpath(*names[:depth]).rmdir()


@pytest.fixture
def kubelets_logs() -> Iterator[Path]:
    """Where a kubelet has a folder for each pod."""
    folder = Path("/var/log/pods")
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@any_driver
def test_a_kubernetes_pod_that_has_the_scheduler_is_named(
    machine: Machine, launcher: Launcher, kubelets_logs: Path
) -> None:
    stranger = launcher.attach("alias")
    # as a kubelet makes them
    with control_group(stranger.pid, "kubepods", "burstable", f"pod{POD}", "c" * 64):
        code, status = machine.schedctl.status()
        refused = machine.run("fifo")
        (kubelets_logs / f"prod_fifo-x7k2p_{POD}").mkdir()
        _, named = machine.schedctl.status()

    assert (code, status["status"], status["owner"]["pod_uid"]) == (2, "orphaned-kernel-state", POD)
    assert f"it belongs to pod {POD} (Kubernetes)" in status["message"]
    assert (refused.code, machine.containers()) == (1, [])
    assert f"pod {POD} (Kubernetes)" in refused.stderr
    assert "it belongs to pod prod/fifo-x7k2p (Kubernetes)" in named["message"]


@pytest.mark.parametrize("driver", ["podman"])
def test_beside_several_what_an_ended_container_left_is_named_and_a_reset_ends_all(
    machine: Machine, launcher: Launcher
) -> None:
    ended = run_well(machine, "fifo", "-o", "json").answer["id"]
    os.kill(process_of(machine), signal.SIGKILL)
    await_end(machine, "fifo", 137)
    before = set(machine.images())
    assert machine.schedctl("pull", signedimages.reference("slow")).code == 0
    (image,) = set(machine.images()) - before
    for name in ("first", "second"):
        machine.start_as_another(image, name, "--load-delay", "600")

    left = launcher.attach("alias")
    with control_group(left.pid, f"libpod-{ended}.scope"):
        code, status, message = said_by(machine)
        reset = machine.schedctl("reset", "--yes")

    assert (code, status) == (2, "multiple-managed")
    assert "the kernel runs totally_different; container fifo started it and has ended" in message
    assert "but left a process behind" in message
    assert (reset.code, schedext.state(), machine.containers()) == (0, "disabled", []), reset.stderr


@pytest.fixture
def usual_sockets(podman: Podman, containerd: Containerd) -> Iterator[None]:
    """Both runtimes answer where every schedctl looks for them."""
    usual = {
        Path("/run/podman/podman.sock"): podman.socket,
        Path("/run/containerd/containerd.sock"): containerd.socket,
    }
    for link, socket in usual.items():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(socket)
    yield
    for link in usual:
        link.unlink()


@pytest.mark.usefixtures("usual_sockets")
def test_one_of_ours_and_one_of_the_go_schedctl_are_counted_together_in_both_runtimes(
    podman: Podman, containerd: Containerd, tmp_path: Path
) -> None:
    ours, others = Machine.using(podman, tmp_path), Machine.using(containerd, tmp_path)
    archive = tmp_path / "slow.tar"
    images.write_archive(images.scheduler("slow"), signedimages.reference("slow"), archive)
    containerd.run("images", "import", str(archive))
    try:
        run_well(ours, "fifo")
        program = ("/usr/bin/scx_rig_slow", "--load-delay", "600")
        others.start_as_another(signedimages.reference("slow"), "slow", *program)

        code, status, message = said_by(ours)
        unclear, chosen = ours.schedctl("stop"), ours.schedctl("stop", "slow")

        assert (code, status) == (2, "multiple-managed")
        assert (
            "container fifo, container slow), and the kernel runs the scheduler of container fifo" in message
        )
        assert (unclear.code, "it is not clear which container is meant" in unclear.stderr) == (1, True)
        assert chosen.code == 0, chosen.stderr
        assert (ours.containers(), others.containers()) == (["fifo"], [])
        assert said_by(ours)[:2] == (0, "running")
        assert schedext.is_attached("rig_fifo")
    finally:
        others.clear()
        ours.clear()
    schedext.await_disabled(timeout_s=TIMEOUT_S)
