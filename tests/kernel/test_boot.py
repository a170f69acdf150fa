"""`schedkit.service` where systemd is PID 1: it is active only while the kernel runs its scheduler.

The guest is looked at from outside, through its kernel, systemd and Podman: `schedctl` is no witness here.
Every start of the unit starts Podman, and Python twice, under emulation: the module is `full`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig.base import polling
from rig.base.errors import RigError
from rig.guest import kernels, systemd, vm
from rig.runtimes import images

pytestmark = [pytest.mark.own_guest, pytest.mark.full]

_UNIT = Path(__file__).parents[2] / "packaging/systemd/schedkit.service"
_CHOICE = "etc/schedkit/boot.env"
_TIMEOUT_S = 180  # each start of Python takes seconds in an emulated guest
_PATIENCE = "[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\n"  # emulated, beside others
_REFERENCE = "registry.rig.test/rig"
# powered off, a machine stays for a last look
_POWEROFF = "[Unit]\nSuccessAction=none\n[Service]\nType=oneshot\nExecStart=true\n"


@pytest.fixture(scope="module", autouse=True)
def kernel_kind() -> str:
    """The guest is this module's own, so that no other decides about its kernel."""
    return "7"


def choice(name: str, *, digest: str = "", more: str = "") -> str:
    """What a machine's owner writes, with an image from a folder: the guest has no network."""
    layout = images.scheduler(name)
    lines = [
        f"SCHEDULER={_REFERENCE}/{name}@{digest or images.digest(layout)}",
        "OPTIONS=--allow-unsigned --timeout 60",
        f"SCHEDCTL_LAYOUT={layout}",
        more,
    ]
    return "\n".join(lines)


class Machine:
    """A guest with the unit installed."""

    def __init__(self, guest: vm.Guest) -> None:
        self._guest = guest

    def __call__(self, command: str, *, timeout_s: float = _TIMEOUT_S) -> str:
        return self._guest.run(command, timeout_s=timeout_s).output.strip()

    def choose(self, name: str, *, digest: str = "", more: str = "") -> None:
        text = choice(name, digest=digest, more=more)
        self(f"cat > /{_CHOICE} <<'END'\n{text}\nEND")

    def start(self) -> bool:
        """Whether `systemctl start` said that it was."""
        return self._guest.run("systemctl start schedkit", timeout_s=_TIMEOUT_S).exit_code == 0

    def shows(self, *names: str) -> list[str]:
        """What systemd says about the unit."""
        answers = self(f"systemctl show schedkit -p {','.join(names)}").splitlines()
        found = dict(line.split("=", 1) for line in answers)
        return [found[name] for name in names]

    def kernel(self) -> tuple[str, str]:
        """State and ops."""
        folder = "/sys/kernel/sched_ext"
        state, _, ops = self(f"cat {folder}/state; cat {folder}/root/ops 2>/dev/null").partition("\n")
        return state, ops

    def enable_seq(self) -> int:
        return int(self("cat /sys/kernel/sched_ext/enable_seq"))

    def containers(self) -> str:
        return self("podman ps --all --quiet")

    def journal(self) -> str:
        """What the unit wrote since it was last started."""
        return self('journalctl -o cat "_SYSTEMD_INVOCATION_ID=$(systemctl show schedkit -P InvocationID)"')

    def await_active(self) -> None:
        self._await(lambda: self.shows("ActiveState") == ["active"], "schedkit.service is active")

    def await_end(self) -> list[str]:
        """The state that the unit ends in, and the result."""
        ended = {"inactive", "failed"}
        self._await(lambda: ended.issuperset(self.shows("ActiveState")), "schedkit.service has ended")
        return self.shows("ActiveState", "Result")

    def await_supervisor(self, container: str) -> None:
        """Before that, a signal would end it before it could do anything about it."""
        self._await(lambda: f"watching {container}" in self.journal(), f"{container} is supervised")

    def _await(self, is_reached: Callable[[], bool], what: str) -> None:
        try:
            polling.until(is_reached, what, timeout_s=_TIMEOUT_S, poll_s=0.5)
        except RigError as error:
            raise RigError(f"{error}; the unit wrote:\n{self.journal()}") from error


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """It boots with fifo as the chosen scheduler."""
    root = tmp_path_factory.mktemp("root")
    files = {
        "etc/systemd/system/schedkit.service": _UNIT.read_text(),
        "etc/systemd/system/schedkit.service.d/emulated.conf": _PATIENCE,
        "etc/systemd/system/systemd-poweroff.service.d/rig.conf": _POWEROFF,
        _CHOICE: choice("fifo"),
    }
    systemd.lay_root(root, files, {"schedkit.service": "multi-user.target"})
    with vm.Guest(kernels.obtain("7"), vm.Settings(name="systemd", systemd_root=root)) as guest:
        yield Machine(guest)


@pytest.fixture
def attached(machine: Machine) -> Machine:
    """With fifo in the kernel and supervised, from boot on or started again."""
    machine.choose("fifo")
    assert machine.start(), machine.journal()
    machine.await_supervisor("fifo")
    return machine


@pytest.fixture
def idle(machine: Machine) -> Machine:
    """With nothing attached, and a unit that nothing has happened to yet."""
    machine("systemctl stop schedkit; systemctl reset-failed schedkit")
    assert machine.kernel() == ("disabled", "")
    return machine


def test_the_chosen_scheduler_is_attached_at_boot(machine: Machine) -> None:
    machine.await_active()

    assert machine.kernel() == ("enabled", "rig_fifo")
    assert "the kernel runs rig_fifo from container fifo" in machine.journal()


def test_a_humans_sysrq_is_not_undone(attached: Machine) -> None:
    attachments = attached.enable_seq()

    attached("echo S > /proc/sysrq-trigger")

    assert attached.await_end() == ["failed", "exit-code"]
    assert attached.shows("NRestarts") == ["0"]
    assert (attached.kernel(), attached.enable_seq()) == (("disabled", ""), attachments)
    assert "fifo was ejected by hand, with SysRq-S" in attached.journal()


def test_an_image_that_is_gone_leaves_the_kernels_own_scheduler_and_a_failed_unit(idle: Machine) -> None:
    idle.choose("fifo", digest="sha256:" + "0" * 64)

    assert not idle.start()

    assert idle.shows("ActiveState", "Result", "NRestarts") == ["failed", "exit-code", "0"]
    assert idle.kernel() == ("disabled", "")
    assert "Error: cannot run" in idle.journal()


def test_a_scheduler_that_the_kernel_refuses_leaves_a_failed_unit_with_the_kernels_words(
    idle: Machine,
) -> None:
    idle.choose("bad_init")

    assert not idle.start()

    assert idle.shows("ActiveState", "Result", "NRestarts") == ["failed", "exit-code", "0"]
    assert idle.kernel() == ("disabled", "")
    assert "the kernel says: rig_bad_init: " in idle.journal()


def test_stopping_the_unit_detaches_the_scheduler_and_removes_its_container(attached: Machine) -> None:
    attached("systemctl stop schedkit")

    assert attached.await_end() == ["inactive", "success"], attached.journal()
    assert (attached.kernel(), attached.containers()) == (("disabled", ""), "")


def test_a_unit_is_not_active_because_an_ejected_program_goes_on(idle: Machine) -> None:
    idle.choose("lingering")
    assert idle.start(), idle.journal()

    idle("echo S > /proc/sysrq-trigger")

    assert idle.await_end() == ["failed", "exit-code"]
    assert "lingering was ejected by hand, with SysRq-S" in idle.journal()
    assert (idle.kernel(), idle.containers()) == (("disabled", ""), "")


def test_a_scheduler_that_is_stopped_by_hand_is_no_failure(attached: Machine) -> None:
    attached("schedctl stop")

    assert attached.await_end() == ["inactive", "success"]
    assert attached.kernel() == ("disabled", "")


def test_what_the_kernel_would_keep_after_a_crash_is_taken_out_of_it(idle: Machine) -> None:
    idle.choose("orphan")
    assert idle.start(), idle.journal()
    idle.await_supervisor("orphan")
    assert idle.kernel() == ("enabled", "rig_orphan")

    idle("podman kill --signal=KILL --all")

    assert idle.await_end() == ["failed", "exit-code"]
    assert (idle.kernel(), idle.containers()) == (("disabled", ""), "")
    assert "orphan has ended: killed by SIGKILL" in idle.journal()


def test_a_supervisor_that_is_killed_takes_its_scheduler_along(attached: Machine) -> None:
    attached("systemctl kill --signal=KILL schedkit")

    assert attached.await_end() == ["failed", "signal"]
    assert (attached.kernel(), attached.containers()) == (("disabled", ""), "")


def test_without_a_choice_nothing_is_started(idle: Machine) -> None:
    idle(f"rm /{_CHOICE}")

    assert idle.start()

    assert idle.shows("ActiveState", "ConditionResult") == ["inactive", "no"]


def test_systemd_finds_nothing_wrong_with_the_unit_and_little_that_it_could_do_without(
    machine: Machine,
) -> None:
    assert machine("systemd-analyze verify schedkit.service") == ""

    said = machine("systemd-analyze security --threshold=40 schedkit.service; echo $?")
    assert said.splitlines()[-1] == "0", said


def test_a_machine_that_is_powered_off_leaves_no_failure_behind(attached: Machine) -> None:
    """The last one: nothing starts on this machine any more, Podman included."""
    # answers lie in the share, which must not be unmounted before they are read
    attached("mkdir -p /run/systemd/system/mnt-share.mount.d")
    attached("printf '[Unit]\\nDefaultDependencies=no\\n' > /run/systemd/system/mnt-share.mount.d/stay.conf")
    attached("systemctl daemon-reload")

    attached("systemctl start --no-block poweroff.target")

    assert attached.await_end() == ["inactive", "success"], attached.journal()
    assert attached.kernel() == ("disabled", "")
