"""`schedctl switch`, `reset` and `pull`, and a kill -9 at every stage: what the kernel runs, what is left.

Verbs are called in this process: an interpreter takes seconds to start in an emulated guest.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner, Result

from rig.base import polling
from rig.guest import schedext
from rig.guest.schedext import Launcher
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman
from schedkit.model.host import actions
from schedkit.model.host.actions import Action
from schedkit.schedctl.change import executor
from schedkit.schedctl.change.executor import Outcome
from schedkit.schedctl.change.machine import Machine
from schedkit.schedctl.main import main

pytestmark = pytest.mark.kernel("7")

TIMEOUT_S = 120
HOST = "registry.rig.test/rig"
USED = ("fifo", "alias", "bad_init", "orphan", "lingering")


def prepare_on_host() -> None:
    for name in USED:
        images.scheduler(name)
    images.scheduler("fifo", version="2.0.0")
    images.foreign_scheduler()


@dataclass(frozen=True)
class Schedctl:
    """The command, with a runtime and images from layouts: this guest has no network."""

    driver: str
    socket: Path
    home: Path

    def __call__(self, *words: str, layout: Path | None = None) -> Result:
        return CliRunner().invoke(
            main, self.argv(*words, layout=layout), env={"XDG_DATA_HOME": str(self.home)}
        )

    def argv(self, *words: str, layout: Path | None = None) -> list[str]:
        place = str(layout or images.scheduler("fifo"))
        return ["--driver", self.driver, "--socket", str(self.socket), "--layout", place, *words]

    def launch(self, verb: str, name: str, *words: str, version: str = "") -> Result:
        argv, layout = self.launching(verb, name, *words, version=version)
        return self(*argv, layout=layout)

    def launching(self, verb: str, name: str, *words: str, version: str = "") -> tuple[list[str], Path]:
        layout = images.scheduler(name, version=version)
        reference = f"{HOST}/{name}@{images.digest(layout)}"
        patience = [] if verb == "pull" else ["--timeout=60"]
        return [verb, reference, "--allow-unsigned", *patience, *words], layout

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self("status", "-o", "json").stdout))

    def containers(self) -> dict[str, str]:
        """The states of all, by name."""
        found = json.loads(self("ps", "-o", "json").stdout)["containers"]
        return {each["name"]: each["state"] for each in found}


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """The guest's own Podman, as a machine would run it."""
    with Podman(tmp_path_factory.mktemp("podman"), root=Path("/"), isolated=False) as podman:
        yield podman


@pytest.fixture
def schedctl(podman: Podman, tmp_path: Path) -> Iterator[Schedctl]:
    """The command with Podman; afterwards it has no container, and the kernel its own scheduler."""
    yield Schedctl("podman", podman.socket, tmp_path)
    podman.run("rm", "--all", "--force", "--time=0")
    if schedext.state() != "disabled":
        schedext.eject()
    schedext.await_disabled(timeout_s=TIMEOUT_S)


def done(result: Result) -> Result:
    """The result of a call that was to succeed."""
    assert result.exit_code == 0, result.output
    return result


# Switching


def test_a_switch_replaces_what_runs_and_reports_the_gap_by_the_kernels_log(schedctl: Schedctl) -> None:
    first = done(schedctl.launch("switch", "fifo"))
    assert "the kernel runs rig_fifo from container fifo; schedkit ran nothing before" in first.stdout
    before = schedext.enable_seq()

    switched = json.loads(done(schedctl.launch("switch", "alias", "-o", "json")).stdout)

    assert (schedext.state(), schedext.ops()) == ("enabled", "totally_different")
    assert (switched["changed"], switched["confirmed"], switched["ops"]) == (True, True, "totally_different")
    assert switched["previous"]["name"] == "fifo"
    assert (switched["gap_source"], 0 < switched["gap_seconds"] < TIMEOUT_S) == ("kernel-log", True)
    assert schedctl.containers() == {"alias": "running"}

    again = done(schedctl.launch("switch", "alias"))
    assert again.stdout.startswith("nothing to do: ")
    assert schedext.enable_seq() == before + 1


def test_another_version_of_the_same_scheduler_takes_its_place(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "fifo"))

    done(schedctl.launch("switch", "fifo", version="2.0.0"))

    assert schedctl.containers() == {"fifo-2": "running"}
    assert schedctl.status()["status"] == "running"


def test_a_switch_that_fails_brings_the_old_one_back_and_says_both(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "fifo"))
    old = schedctl.status()["scheduler"]["container_id"]

    failed = schedctl.launch("switch", "bad_init")

    assert (failed.exit_code, failed.stdout) == (1, "")
    what, why, _ = failed.stderr.splitlines()[-3:]
    assert what.startswith(
        "Error: bad_init was not attached: its program ended (exit code 1); the kernel runs"
    )
    assert "the kernel runs rig_fifo again, after " in what
    assert "the kernel says: rig_bad_init: runtime error" in why
    assert (schedext.state(), schedext.ops()) == ("enabled", "rig_fifo")
    status = schedctl.status()
    assert (status["status"], status["scheduler"]["container_id"]) == ("running", old)
    assert schedctl.containers() == {"fifo": "running"}


def test_a_strangers_scheduler_is_ended_only_if_its_process_was_named(
    schedctl: Schedctl, launcher: Launcher
) -> None:
    stranger = launcher.attach("alias")

    refused = schedctl.launch("switch", "fifo")
    mistaken = schedctl.launch("switch", "fifo", "--evict=1")
    assert (refused.exit_code, mistaken.exit_code, schedext.ops()) == (1, 1, "totally_different")
    assert f"add --evict {stranger.pid}" in refused.stderr

    done(schedctl.launch("switch", "fifo", f"--evict={stranger.pid}"))

    assert (schedext.ops(), stranger.exit_code()) == ("rig_fifo", 0)


# Resetting


def test_a_reset_says_what_it_will_do_and_ends_with_the_kernels_own_scheduler(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "fifo"))

    planned = done(schedctl("reset", "--dry-run"))
    assert planned.stdout.splitlines() == [
        "would stop container fifo",
        "would wait until the kernel runs its own scheduler, and eject what stays without its process",
        "would remove container fifo",
        "the kernel runs rig_fifo",
    ]
    assert schedext.ops() == "rig_fifo"

    unsure = schedctl("reset")
    assert (unsure.exit_code, schedext.ops()) == (1, "rig_fifo"), "nobody can be asked"
    assert "add `--yes`" in unsure.stderr

    reset = done(schedctl("reset", "--yes"))
    assert "will stop container fifo" in reset.stderr
    assert reset.stdout == "the kernel runs its own scheduler\n"
    assert (schedext.state(), schedctl.containers()) == ("disabled", {})
    assert "nothing to do" in done(schedctl("reset")).stdout


def test_on_a_terminal_a_reset_asks_first_and_a_no_changes_nothing(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "fifo"))
    child, terminal = pty.fork()
    if child == 0:
        ask_on_terminal(schedctl.argv("reset"))

    said = read_until(terminal, "Go on? [y/N]: ")
    os.write(terminal, b"n\n")
    said += read_until(terminal, "you said no")
    _, ended = os.waitpid(child, 0)

    assert (os.waitstatus_to_exitcode(ended), schedext.ops()) == (1, "rig_fifo")
    assert "will stop container fifo" in said


def ask_on_terminal(argv: list[str]) -> NoReturn:
    """Call schedctl with what this process has as its terminal, instead of what pytest put there."""
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - descriptors
    try:
        main(argv)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    finally:
        os._exit(os.EX_SOFTWARE)


def read_until(terminal: int, words: str) -> str:
    """What is written to the terminal, up to those words."""
    said = ""
    while words not in said:
        assert select.select([terminal], [], [], TIMEOUT_S)[0], f"no {words!r} in {said!r}"
        said += os.read(terminal, 1024).decode()
    return said


def test_a_reset_ejects_an_orphan(schedctl: Schedctl, launcher: Launcher) -> None:
    loader = launcher.attach("orphan")
    loader.send(signal.SIGKILL)
    loader.wait(TIMEOUT_S)
    assert schedctl.status()["next"] == "eject it: `schedctl reset`"

    reset = json.loads(done(schedctl("reset", "--yes", "-o", "json")).stdout)

    assert (schedext.state(), reset["kernel_state"], reset["ops"]) == ("disabled", "disabled", None)


def test_a_reset_removes_what_an_orphan_that_a_human_ejected_has_left(
    schedctl: Schedctl, launcher: Launcher
) -> None:
    loader = launcher.attach("orphan")
    loader.send(signal.SIGKILL)
    loader.wait(TIMEOUT_S)
    schedext.eject()
    schedext.await_disabled()
    stranger = launcher.attach("fifo")

    forced = schedctl.launch("run", "alias", "--force")

    # on kernels before 7 the stranger's would go with the map
    assert (forced.exit_code, schedext.ops()) == (1, "rig_fifo")
    stranger.send(signal.SIGTERM)
    stranger.wait(TIMEOUT_S)

    told, reset, again = (done(schedctl("reset", *words)).stdout for words in (["--dry-run"], ["--yes"], []))

    assert told.splitlines()[0] == "would remove what the ejected scheduler rig_orphan has left in the kernel"
    assert reset == "the kernel runs its own scheduler\n"
    assert again == "nothing to do: the kernel runs its own scheduler\n"


def test_a_reset_ends_an_ejected_holder_that_does_not_exit(schedctl: Schedctl, launcher: Launcher) -> None:
    holder = launcher.attach("lingering")
    schedext.eject()
    schedext.await_disabled()
    assert "still holds a scheduler" in schedctl.launch("run", "fifo").stderr

    done(schedctl("reset", "--yes"))

    assert holder.exit_code() is not None
    done(schedctl.launch("run", "fifo"))


def test_a_reset_ends_a_strangers_scheduler_only_if_its_process_was_named(
    schedctl: Schedctl, launcher: Launcher
) -> None:
    stranger = launcher.attach("fifo")

    refused = schedctl("reset", "--yes")
    assert (refused.exit_code, schedext.ops()) == (1, "rig_fifo")

    done(schedctl("reset", "--yes", f"--evict={stranger.pid}"))

    assert (schedext.state(), stranger.exit_code()) == ("disabled", 0)


def test_what_the_kernel_keeps_after_the_end_of_our_container_is_ejected_by_stop(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "orphan"))

    done(schedctl("stop"))

    assert (schedext.state(), schedctl.containers()) == ("disabled", {})


def test_a_status_quotes_why_ours_is_not_attached_and_a_reset_ends_it(schedctl: Schedctl) -> None:
    done(schedctl.launch("run", "lingering"))
    schedext.eject()
    schedext.await_disabled()

    status = schedctl.status()

    assert status["status"] == "managed-detached"
    assert status["kernel_words"] == "rig_lingering: disabled by sysrq-S"
    assert "EXIT: disabled by sysrq-S" in status["last_words"]
    done(schedctl("reset", "--yes"))
    assert (schedctl.containers(), schedctl.status()["status"]) == ({}, "idle")


# Pulling


def test_a_pull_loads_an_image_once_and_refuses_those_for_other_machines(schedctl: Schedctl) -> None:
    pulled = json.loads(done(schedctl.launch("pull", "alias", "-o", "json")).stdout)
    assert pulled["image"].endswith(f"@{images.digest(images.scheduler('alias'))}")
    assert done(schedctl.launch("pull", "alias")).stdout == f"podman has {pulled['image']} already\n"

    foreign = images.foreign_scheduler()
    refused = schedctl("pull", f"{HOST}/fifo@{images.digest(foreign)}", "--allow-unsigned", layout=foreign)
    assert (refused.exit_code, "loading" in refused.stderr) == (1, False)
    assert "is not for this machine" in refused.stderr


# A kill -9 at every stage


def killed_after(kind: type[Action], argv: list[str]) -> None:
    """Call schedctl in a process of its own, which is killed as soon as it has done such an action."""
    child = os.fork()
    if child == 0:
        try:
            _die_after(kind)
            main(argv)
        finally:
            os._exit(1)
    _, ended = os.waitpid(child, 0)
    assert (os.WIFSIGNALED(ended), ended & 0x7F) == (True, signal.SIGKILL), f"it ended with {ended:#x}"


def _die_after(kind: type[Action]) -> None:
    perform = executor.perform

    def perform_and_die(action: Action, machine: Machine, so_far: Outcome) -> Outcome:
        outcome = perform(action, machine, so_far)
        if isinstance(action, kind):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    executor.perform = perform_and_die  # in the child alone


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (actions.Create, {"fifo": "created"}),
        (actions.Start, {"fifo": "running"}),
        (actions.AwaitAttachment, {"fifo": "running"}),
    ],
)
def test_a_killed_run_leaves_what_the_next_call_names_and_the_next_change_clears_up(
    schedctl: Schedctl, kind: type[Action], left: dict[str, str]
) -> None:
    argv, layout = schedctl.launching("run", "fifo")

    killed_after(kind, schedctl.argv(*argv, layout=layout))

    assert schedctl.containers() == left
    assert named_in(schedctl.status()) == set(left)
    done(schedctl.launch("switch", "alias"))
    assert (schedctl.containers(), schedext.ops()) == ({"alias": "running"}, "totally_different")


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (actions.Create, {"fifo": "running", "alias": "created"}),
        (actions.AwaitFree, {"fifo": "exited", "alias": "created"}),
        (actions.Start, {"fifo": "exited", "alias": "running"}),
        (actions.AwaitAttachment, {"fifo": "exited", "alias": "running"}),
        (actions.Discard, {"alias": "running"}),
    ],
)
def test_a_killed_switch_leaves_what_the_next_call_names_and_a_reset_clears_up(
    schedctl: Schedctl, kind: type[Action], left: dict[str, str]
) -> None:
    done(schedctl.launch("run", "fifo"))
    argv, layout = schedctl.launching("switch", "alias")

    killed_after(kind, schedctl.argv(*argv, layout=layout))

    # Podman goes on tidying up what was stopped
    polling.until(lambda: schedctl.containers() == left, f"there is {left}", timeout_s=TIMEOUT_S)
    assert named_in(schedctl.status()) == set(left)
    done(schedctl("reset", "--yes"))
    assert (schedctl.containers(), schedext.state()) == ({}, "disabled")


@pytest.mark.full
@pytest.mark.parametrize("tenths", range(0, 60, 3))
def test_at_whatever_moment_a_switch_is_killed_nothing_is_left_unnamed(
    schedctl: Schedctl, tenths: int
) -> None:
    done(schedctl.launch("run", "fifo"))
    argv, layout = schedctl.launching("switch", "alias")
    child = os.fork()
    if child == 0:
        try:
            main(schedctl.argv(*argv, layout=layout))
        finally:
            os._exit(1)

    time.sleep(tenths / 10)  # the moment itself, which no event announces
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    # what Podman was asked for before, it may still do
    polling.until(
        lambda: set(schedctl.containers()) == named_in(schedctl.status()), "all is named", timeout_s=TIMEOUT_S
    )
    # it refuses as long as Podman still changes what it has told that it will do
    polling.until(lambda: schedctl("reset", "--yes").exit_code == 0, "it is reset", timeout_s=TIMEOUT_S)
    assert (schedctl.containers(), schedext.state()) == ({}, "disabled")


def named_in(status: dict[str, Any]) -> set[str]:
    """The containers that a status names."""
    left = {each["name"] for each in status.get("leftovers", [])}
    return left | ({status["scheduler"]["name"]} if "scheduler" in status else set())


# containerd


def test_with_containerd_a_switch_that_fails_brings_the_old_one_back(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Containerd(tmp_path_factory.mktemp("containerd"), root=Path("/"), isolated=False) as containerd:
        schedctl = Schedctl("containerd", containerd.socket, tmp_path)
        done(schedctl.launch("run", "fifo"))

        failed = schedctl.launch("switch", "bad_init")
        assert (failed.exit_code, schedext.ops()) == (1, "rig_fifo")
        assert "the kernel runs rig_fifo again, after " in failed.stderr

        done(schedctl.launch("switch", "alias"))
        assert schedext.ops() == "totally_different"
        done(schedctl("reset", "--yes"))
        assert (schedctl.containers(), schedext.state()) == ({}, "disabled")
