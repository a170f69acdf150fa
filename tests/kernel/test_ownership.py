"""Whose the attached scheduler is, proved on a real kernel: also where links, names and processes mislead."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import polling, processes
from rig.guest import schedext, schedulers
from rig.guest.schedext import Launcher
from rig.runtimes import images
from rig.runtimes.podman import Podman
from schedkit.kernel import held_objects, kmsg, structops, sysfs
from schedkit.kernel.observation import observe
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.holders import Leftovers, leftovers
from schedkit.model.host.owners import OwnerKind
from schedkit.model.host.processes import Hold, Proof, place_of
from schedkit.model.host.status_words import Status, judge
from schedkit.model.kernel.log import ExitKind
from schedkit.schedctl.change import forced_ends

# on 6.x kernels the late end of an ejected link takes the next scheduler along
pytestmark = pytest.mark.kernel("7", "6")

ROOT = Path("/")
EXIT_TIMEOUT_S = 60
_IMAGE = "registry.rig.test/rig/alias:v1"
LOOK = (
    "from pathlib import Path; from schedkit.kernel.observation import observe;"
    "proof = observe(Path('/')).proof; print(proof.hold, proof.reason)"
)


def prepare_on_host() -> None:
    schedulers.built()
    images.scheduler("alias")


def proved() -> Proof:
    return observe(ROOT).proof


def holder() -> tuple[Hold, int | None]:
    proof = proved()
    return proof.hold, proof.process.pid if proof.process else None


def left_behind() -> list[int]:
    left = remains()
    assert left.gaps == ()
    return [process.pid for process in left.processes]


def remains() -> Leftovers:
    return leftovers(sysfs.read(ROOT), held_objects.gather(ROOT))


def test_the_process_that_attached_is_the_owner(launcher: Launcher) -> None:
    fifo = launcher.attach("fifo")

    proof = proved()

    assert (proof.hold, proof.reason) == (Hold.LINK, "")
    assert proof.process is not None
    assert (proof.process.pid, proof.process.command) == (fifo.pid, str(schedulers.binary("fifo")))


def test_an_ops_name_unlike_the_programs_is_no_obstacle(launcher: Launcher) -> None:
    alias = launcher.attach("alias")

    assert holder() == (Hold.LINK, alias.pid)


@pytest.mark.parametrize("order", [("tcp", "fifo"), ("fifo", "tcp")], ids=["before", "after"])
def test_a_holder_of_another_struct_ops_is_not_the_owner(launcher: Launcher, order: tuple[str, str]) -> None:
    started = {name: launcher.start(name) if name == "tcp" else launcher.attach(name) for name in order}
    polling.until(lambda: schedext.links(started["tcp"].pid), "the TCP holder has its link")

    assert holder() == (Hold.LINK, started["fifo"].pid)
    assert left_behind() == []


@pytest.mark.usefixtures("no_old_registrations")
def test_a_tcp_holder_alone_is_no_scheduler(launcher: Launcher) -> None:
    tcp = launcher.start("tcp")
    polling.until(lambda: schedext.links(tcp.pid), "the TCP holder has its link")

    assert structops.read(ROOT).schedulers == ()
    assert holder() == (Hold.NOTHING, None)


def test_an_ejected_holder_is_a_leftover_and_its_successor_of_the_same_name_the_owner(
    launcher: Launcher,
) -> None:
    first = launcher.attach("lingering")
    schedext.eject()
    schedext.await_disabled()
    assert holder() == (Hold.NOTHING, None)
    assert left_behind() == [first.pid]

    second = launcher.attach("lingering")

    assert holder() == (Hold.LINK, second.pid)
    assert left_behind() == [first.pid]


@pytest.mark.usefixtures("no_old_registrations")
def test_a_loader_without_a_link_owns_its_scheduler_until_it_ends(launcher: Launcher) -> None:
    orphan = launcher.attach("orphan")
    assert holder() == (Hold.MAP, orphan.pid)

    orphan.send(signal.SIGKILL)
    orphan.wait(EXIT_TIMEOUT_S)

    proof = proved()
    assert (proof.hold, proof.process) == (Hold.NOBODY, None)
    assert "without a link" in proof.reason
    assert judge(observe(ROOT)._replace(containers=())).owner.kind is OwnerKind.ORPHAN


@pytest.mark.usefixtures("no_old_registrations")
def test_an_orphan_is_detached_by_unregistering_its_map(launcher: Launcher) -> None:
    launcher.attach("orphan").send(signal.SIGKILL)
    map_id = polling.until(lambda: proved().map_id if proved().hold is Hold.NOBODY else None, "an orphan")

    structops.unregister(map_id)

    schedext.await_disabled()


@pytest.mark.usefixtures("no_old_registrations")
def test_the_map_of_an_ejected_orphan_stays_registered_until_somebody_removes_it(launcher: Launcher) -> None:
    orphan = launcher.attach("orphan")
    orphan.send(signal.SIGKILL)
    orphan.wait(EXIT_TIMEOUT_S)
    schedext.eject()
    schedext.await_disabled()

    (scheduler,) = structops.read(ROOT).schedulers
    assert (scheduler.ops, scheduler.is_registered) == ("rig_orphan", True)


@pytest.fixture
def bpf_files(tmp_path: Path) -> Iterator[Path]:
    """A BPF filesystem of the test's own."""
    folder = tmp_path / "bpf"
    folder.mkdir()
    processes.run(["mount", "-t", "bpf", "bpf", str(folder)], timeout_s=EXIT_TIMEOUT_S)
    yield folder
    processes.run(["umount", str(folder)], timeout_s=EXIT_TIMEOUT_S)


def pin(link_id: int, file: Path) -> None:
    """Keep a link by a file, whatever happens to its process."""
    link = bpf(30, struct.pack("=III", link_id, 0, 0))  # BPF_LINK_GET_FD_BY_ID
    name = ctypes.create_string_buffer(bytes(file))
    bpf(6, struct.pack("=QII", ctypes.addressof(name), link, 0))  # BPF_OBJ_PIN
    os.close(link)


def bpf(command: int, attributes: bytes) -> int:
    """By its number on amd64, which is all that guests are."""
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(321, command, attributes, len(attributes))
    assert result >= 0, os.strerror(ctypes.get_errno())
    return result


@pytest.mark.usefixtures("no_old_registrations")
def test_a_scheduler_whose_link_is_pinned_is_nobodys_and_left_behind_when_it_is_ejected(
    launcher: Launcher, bpf_files: Path
) -> None:
    fifo = launcher.attach("fifo")
    (link,) = schedext.links(fifo.pid)
    pin(link.link_id, bpf_files / "fifo")
    assert holder() == (Hold.LINK, fifo.pid)

    fifo.send(signal.SIGKILL)
    fifo.wait(EXIT_TIMEOUT_S)

    proof = proved()
    assert (proof.hold, proof.map_id) == (Hold.NOBODY, link.map_id)
    assert "pinned" in proof.reason
    schedext.eject()
    schedext.await_disabled()
    assert [each.ops for each in remains().pinned] == ["rig_fifo"]
    (bpf_files / "fifo").unlink()
    polling.until(lambda: remains().are_excluded, "nothing is left of it")


@pytest.mark.usefixtures("no_old_registrations")
def test_a_pinned_scheduler_is_detached_by_its_link_and_the_next_survives_the_pin(
    launcher: Launcher, bpf_files: Path
) -> None:
    """Without SysRq, which is forbidden to the unit for boot."""
    seen = kmsg.read(ROOT).last_seq
    fifo = launcher.attach("fifo")
    (link,) = schedext.links(fifo.pid)
    pin(link.link_id, bpf_files / "fifo")
    fifo.send(signal.SIGKILL)
    fifo.wait(EXIT_TIMEOUT_S)
    assert proved().hold is Hold.NOBODY

    forced_ends.eject(ROOT, is_blind=False)

    schedext.await_disabled()
    assert [each.kind for each in kmsg.read(ROOT, after_seq=seen).exits] == [ExitKind.UNREG]
    polling.until(lambda: remains().are_excluded, "nothing but the pin is left of it")
    alias = launcher.attach("alias")
    (bpf_files / "fifo").unlink()
    assert holder() == (Hold.LINK, alias.pid)


def test_a_scheduler_that_attached_itself_again_still_has_its_owner(launcher: Launcher) -> None:
    hotplug = launcher.attach("hotplug")
    expected = schedext.enable_seq() + 1
    try:
        schedext.set_cpu_online(1, online=False)
        hotplug.await_ready(lambda: schedext.enable_seq() == expected, timeout_s=EXIT_TIMEOUT_S)

        polling.until(lambda: holder() == (Hold.LINK, hotplug.pid), "it is the owner again")
    finally:
        schedext.set_cpu_online(1, online=True)


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        pytest.param(["--bounding-set=-sys_ptrace"], "CAP_SYS_PTRACE is needed", id="without CAP_SYS_PTRACE"),
        pytest.param(["--bounding-set=-sys_admin"], "CAP_SYS_ADMIN is needed", id="without CAP_SYS_ADMIN"),
    ],
)
def test_without_its_powers_the_owner_is_unknown_and_the_reason_says_which(
    launcher: Launcher, prefix: list[str], reason: str
) -> None:
    launcher.attach("fifo")

    said = processes.run(["setpriv", *prefix, sys.executable, "-c", LOOK], timeout_s=EXIT_TIMEOUT_S).stdout

    assert said.startswith("unknown ")
    assert reason in said


def test_from_inside_a_process_namespace_the_owner_is_unknown(launcher: Launcher) -> None:
    launcher.attach("fifo")
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", LOOK]

    said = processes.run(words, timeout_s=EXIT_TIMEOUT_S).stdout

    assert said.startswith("unknown ")
    assert "the host's process namespace is needed" in said


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """The guest's own Podman, with the image of a scheduler whose ops name is unlike its own."""
    archive = tmp_path_factory.mktemp("image") / "alias.tar"
    images.write_archive(images.scheduler("alias"), _IMAGE, archive)
    with Podman(tmp_path_factory.mktemp("podman"), root=ROOT, isolated=False) as podman:
        podman.run("load", "--input", str(archive))
        yield podman


def test_a_scheduler_in_a_container_is_ours_when_the_container_is(podman: Podman) -> None:
    podman.run("run", "--detach", "--name", "alias", "--privileged", "--pid=host", _IMAGE)
    try:
        polling.until(lambda: schedext.is_attached("totally_different"), "it is attached", timeout_s=120)
        container = podman.inspect("alias")
        pid = container["State"]["Pid"]
        ours = Container(container["Id"], "alias", "podman", ContainerState.RUNNING, pid)
        observation = observe(ROOT)
        process = observation.proof.process

        assert process is not None
        assert place_of(process).container_id == ours.id
        assert judge(observation._replace(containers=(ours,))).status is Status.RUNNING
        by_control_group = ours._replace(pid=None)
        assert judge(observation._replace(containers=(by_control_group,))).status is Status.RUNNING
        stranger = judge(observation._replace(containers=()))
        assert (stranger.status, stranger.owner.kind) == (Status.ORPHANED, OwnerKind.FOREIGN)
        assert stranger.owner.container_id == ours.id
    finally:
        podman.run("kill", "alias")
    schedext.await_disabled()
