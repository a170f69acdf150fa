"""What ends before a program is started: the words of `schedctl`, and a kernel and a runtime as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.base import cache, processes
from rig.guest import btf, kernels, schedext
from rig.guest.schedctl_in_process import Ended
from rig.guest.schedext import Launcher
from rig.guest.user_machine import Machine
from rig.registries import signedimages
from rig.registries.distribution import IMAGE_MANIFEST
from rig.registries.hostile import Server, always, answer, cut_off
from rig.runtimes import images
from rig.runtimes.containerd import Containerd
from rig.runtimes.podman import Podman

pytestmark = pytest.mark.kernel("7")

NOBODY = 65534
INSERT = "scx_bpf_dsq_insert_vtime"
both_drivers = pytest.mark.parametrize("driver", ["podman", "containerd"])


def prepare_on_host() -> None:
    signedimages.layout()
    malformed_btf("7")


@pytest.fixture
def machine(driver: str, request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """The machine with that runtime, which nothing is to come of."""
    service: Podman | Containerd = request.getfixturevalue(driver)
    return Machine.using(service, tmp_path)


@pytest.fixture
def driver() -> str:
    """Podman, for rows that no runtime takes part in."""
    return "podman"


def assert_refused(machine: Machine, ended: Ended, *words: str) -> None:
    """It failed with these words and a next step, and nothing has changed."""
    assert (ended.code, ended.stdout) == (1, "")
    assert [each for each in words if each not in ended.stderr] == [], ended.stderr
    assert "\n  next: " in ended.stderr
    assert (schedext.state(), machine.containers()) == ("disabled", [])


def is_blocking(finding: dict[str, str]) -> bool:
    return (finding["status"], finding["severity"]) == ("fail", "error")


# Images


def test_an_image_for_another_kind_of_machine_is_refused_before_it_is_loaded(machine: Machine) -> None:
    refused = machine.run("arm64")

    assert_refused(machine, refused, "is not for this machine", "linux/arm64", "linux/amd64")
    assert "loading" not in refused.stderr
    assert machine.images() == []


def test_an_image_that_nobody_signed_is_refused_before_it_is_loaded(machine: Machine) -> None:
    refused = machine.run(signedimages.UNSIGNED)

    assert_refused(
        machine, refused, f"cannot run {signedimages.reference(signedimages.UNSIGNED)}", "(step 3)"
    )
    assert machine.images() == []


@both_drivers
def test_a_disk_that_is_full_is_named_and_keeps_nothing_of_the_image(machine: Machine) -> None:
    with machine.full_disk():
        failed = machine.run("alias")

    assert_refused(machine, failed, "has no disk space left", "free disk space where it keeps its images")
    assert machine.images() == []


@pytest.fixture
def broken_registry() -> Iterator[str]:
    """The name of the FIFO in a registry that hangs up in the middle of its layer, whenever it is asked."""
    layout = images.scheduler("fifo")
    digest = images.digest(layout)
    manifest = blob(layout, digest)
    parts = json.loads(manifest)
    config, layer = parts["config"]["digest"], parts["layers"][0]["digest"]
    behaviours = {
        f"/v2/rig/fifo/manifests/{digest}": always(answer(200, manifest, Content_Type=IMAGE_MANIFEST)),
        f"/v2/rig/fifo/blobs/{config}": always(answer(200, blob(layout, config))),
        f"/v2/rig/fifo/blobs/{layer}": cut_off(blob(layout, layer)),
    }
    with Server(behaviours) as server:
        yield f"{server.host}/rig/fifo@{digest}"


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()


@both_drivers
def test_a_registry_that_stops_in_the_middle_of_a_layer_is_named_and_nothing_of_the_image_is_kept(
    machine: Machine, broken_registry: str
) -> None:
    failed = machine.from_registries().schedctl("run", broken_registry, "--allow-unsigned")

    assert_refused(machine, failed, f"cannot run {broken_registry}", "was interrupted", "try again later")
    assert machine.images() == []


# Users


@pytest.fixture
def open_to_all(tmp_path: Path) -> None:
    """Files of this project and this test can be read by every user of the guest."""
    for folder in (Path(__file__), signedimages.layout(), tmp_path):
        for parent in folder.parents:
            parent.chmod(parent.stat().st_mode | 0o555)
    tmp_path.chmod(0o755)


@pytest.mark.usefixtures("open_to_all")
def test_without_root_nothing_changes_and_what_is_needed_is_said(machine: Machine) -> None:
    run = machine.schedctl.as_user(NOBODY, "run", signedimages.reference("fifo"))
    stop = machine.schedctl.as_user(NOBODY, "stop")
    doctor = machine.schedctl.as_user(NOBODY, "doctor", "-o", "json")

    assert_refused(machine, run, "this user may not use", "run as root")
    assert_refused(machine, stop, "run as root")
    failed = {each["id"]: each["remediation"] for each in doctor.answer["checks"] if is_blocking(each)}
    assert (doctor.code, list(failed)) == (
        1,
        ["caps.cap_bpf", "caps.cap_sys_admin", "caps.cap_perfmon", "runtime.any"],
    )
    assert [each for each in failed.values() if "as root" not in each] == []


@pytest.mark.usefixtures("open_to_all")
def test_without_root_the_scheduler_is_shown_but_not_whose_it_is(
    machine: Machine, launcher: Launcher
) -> None:
    launcher.attach("fifo")

    ended = machine.schedctl.as_user(NOBODY, "status", "-o", "json")

    assert (ended.code, ended.answer["status"]) == (2, "orphaned-kernel-state")
    assert (ended.answer["kernel"]["ops"], ended.answer["owner"]["kind"]) == ("rig_fifo", "unknown")
    assert "as root" in ended.answer["next"]


# Kernels


@both_drivers
def test_the_doctor_finds_the_machine_well(machine: Machine, kernel_kind: str) -> None:
    said = machine.schedctl("doctor", "-o", "json")

    is_sound = kernels.obtain(kernel_kind).note is None
    blocking = [each["id"] for each in said.answer["checks"] if is_blocking(each)]
    assert (said.code, blocking) == ((0, []) if is_sound else (1, ["kernel.btf_kfuncs"]))


def malformed_btf(kind: str) -> Path:
    """The BTF of that kernel as an old pahole would have made it."""

    def fill(folder: Path) -> None:
        good = btf.obtain(kind).read_bytes()
        (folder / "vmlinux").write_bytes(btf.with_malformed_kfunc(good, INSERT))

    return cache.entry("btf", f"{kernels.obtain(kind).release}-malformed", fill) / "vmlinux"


@pytest.fixture
def misdescribed_kernel(kernel_kind: str) -> Iterator[None]:
    """The running kernel describes one function wrongly."""
    processes.run(["mount", "--bind", str(malformed_btf(kernel_kind)), str(btf.RUNNING)])
    yield
    processes.run(["umount", str(btf.RUNNING)])


@pytest.mark.usefixtures("misdescribed_kernel")
def test_the_doctor_names_the_function_that_the_kernel_describes_wrongly(machine: Machine) -> None:
    said = machine.schedctl("doctor", "-o", "json")

    (found,) = [each for each in said.answer["checks"] if is_blocking(each)]
    assert (said.code, found["id"]) == (1, "kernel.btf_kfuncs")
    assert INSERT in found["detail"]
    assert "boot another build of this kernel" in found["remediation"]
