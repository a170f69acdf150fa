"""Schedulers of the catalog, built by their recipes, live a whole life under `schedctl`, with both runtimes.

What the kernel runs is read beside `schedctl` after each step. The first run builds them, which takes 5 to 15
minutes for each; attaching one under emulation takes up to two. So the module is `full`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import cache
from rig.build import recipes
from rig.guest import schedext
from rig.guest.user_machine import Machine
from rig.registries import signedimages
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

# the 7.x kernels of Debian's releases so far describe their functions in a way that real schedulers refuse
pytestmark = [
    pytest.mark.kernel("6", only=True),
    pytest.mark.full,
    # to build them all; a guest that hangs is given up much earlier
    pytest.mark.timeout(3 * 3600),
]

SCHEDULERS = ("scx_bpfland", "scx_rusty", "scx_lavd")
BPF_AND_PERFMON = 1 << 39 | 1 << 38
TIMEOUT_S = 240


def signed() -> Path:
    """Their signed images under their names in the catalog, and the FIFO; on the host, which can build."""
    versions = [recipes.version(name) for name in SCHEDULERS]
    key = cache.digest(*SCHEDULERS, *versions, images.digest(images.scheduler("fifo")))
    return cache.entry("signed-images", f"real-{key}", _sign)


def _sign(folder: Path) -> None:
    wanted = {signedimages.reference("fifo"): images.scheduler("fifo")}
    with tempfile.TemporaryDirectory() as scratch:
        for name in SCHEDULERS:
            layout = Path(scratch) / name
            wanted[recipes.package(name, recipes.program(name), layout)] = layout
        signedimages.sign(folder, wanted)


prepare_on_host = signed


@pytest.fixture(params=["podman", "containerd"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """Each driver in its turn; afterwards the kernel runs its own scheduler."""
    service: Podman | Containerd = request.getfixturevalue(request.param)
    machine = Machine.using(service, tmp_path, signed())
    yield machine
    machine.clear()
    schedext.await_disabled(timeout_s=TIMEOUT_S)


def words_for(name: str) -> list[str]:
    """How a user asks for the version that the recipe builds."""
    return [name, f"--version={recipes.version(name)}", f"--timeout={TIMEOUT_S}", "-o", "json"]


def what_runs() -> tuple[str, str | None, bool]:
    """The kernel's own word, read beside `schedctl`."""
    return schedext.state(), schedext.ops(), schedext.takes_all_tasks()


def ops_of(name: str) -> str:
    """What the kernel calls it: schedulers of the scx project build it from name, version and target."""
    return f"{name.removeprefix('scx_')}_{recipes.version(name)}_x86_64_unknown_linux_gnu"


NONE = ("disabled", None, False)
FIFO = ("enabled", "rig_fifo", True)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_it_is_run_verified_and_shown_and_stopped(machine: Machine, name: str) -> None:
    doctor = machine.schedctl(
        "doctor", "-o", "json", "--image", f"ghcr.io/schedkit/{name}:{recipes.version(name)}"
    )
    assert (doctor.code, doctor.answer["summary"]["blocking"]) == (0, 0), doctor.stdout
    assert what_runs() == NONE

    ran = machine.schedctl("run", *words_for(name))

    assert ran.code == 0, ran.stderr
    assert what_runs() == ("enabled", ops_of(name), True)
    assert (ran.answer["ops"], ran.answer["signer"]) == (ops_of(name), signedimages.SIGNER)
    code, status = machine.schedctl.status()
    assert (code, status["status"], status["owner"]["kind"]) == (0, "running", "managed")
    pid = status["scheduler"]["pid"]
    assert "struct_ops" in {link.kind for link in schedext.links(pid)}
    assert machine.schedctl("ps").stdout.splitlines()[1].split() == [str(pid), ran.answer["id"][:12], name]
    logs = machine.schedctl("logs")
    assert name in logs.stdout + logs.stderr
    assert Path("/var/run/scx/root/stats").is_socket()

    stopped = machine.schedctl("stop")

    assert stopped.stdout == f"stopped {name}; the kernel runs its own scheduler\n", stopped.stderr
    assert (what_runs(), machine.containers()) == (NONE, [])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_it_gives_way_to_another_and_comes_back_until_a_reset(machine: Machine, name: str) -> None:
    assert machine.schedctl("run", *words_for(name)).code == 0
    assert what_runs() == ("enabled", ops_of(name), True)

    away = machine.schedctl("switch", signedimages.reference("fifo"), "--timeout=90", "-o", "json")
    assert (away.code, what_runs(), machine.containers()) == (0, FIFO, ["fifo"]), away.stderr
    assert (away.answer["previous"]["name"], away.answer["gap_source"]) == (name, "kernel-log")

    back = machine.schedctl("switch", *words_for(name))
    assert (back.code, machine.containers()) == (0, [name]), back.stderr
    assert what_runs() == ("enabled", ops_of(name), True)

    reset = machine.schedctl("reset", "--yes")
    assert (reset.code, reset.stdout) == (0, "the kernel runs its own scheduler\n"), reset.stderr
    assert (what_runs(), machine.containers()) == (NONE, [])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_it_needs_no_more_privileges_than_were_measured(machine: Machine, name: str) -> None:
    ran = machine.schedctl("run", *words_for(name), "--least-privilege")

    assert ran.code == 0, ran.stderr
    assert what_runs() == ("enabled", ops_of(name), True)
    assert granted(machine.schedctl.status()[1]["scheduler"]["pid"]) == BPF_AND_PERFMON
    assert machine.schedctl("stop").code == 0
    assert (what_runs(), machine.containers()) == (NONE, [])


def granted(pid: int) -> int:
    """The capabilities of a process, one bit for each."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)
