"""How the verbs about this machine answer: status, ps, doctor, and what run hands to a runtime."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from schedkit.model.catalog import Entry, Listed, Needs
from schedkit.model.host import HostObservation
from schedkit.model.images import Digest, parse_reference
from schedkit.model.kernel import SchedExt, State
from schedkit.model.owners import Hold, Process, Proof
from schedkit.model.readiness import Facts, KernelFacts, RuntimeFacts
from schedkit.runtimes.containers import Container, Exit, Output, Stream
from schedkit.runtimes.containers import State as ContainerState
from schedkit.runtimes.errors import NoSocketError, SilentError
from schedkit.runtimes.specs import Mount
from schedkit.schedctl import acting, doctor, hosts, locking, ps, status
from schedkit.schedctl.choosing import Chosen
from schedkit.schedctl.errors import ExitCode, Problem, explain
from schedkit.schedctl.hosts import Found, Look
from schedkit.schedctl.labels import CATALOG_NAME, DIGEST, IMAGE, OPTIONS, SIGNER
from schedkit.schedctl.orders import Order, arguments, describe, mounts, name_of, privileges
from schedkit.schedctl.output import Answer, Format, render
from schedkit.schedctl.settings import Settings
from schedkit.schedctl.status import StatusShown
from schedkit.schedctl.wiring import SOCKETS, drivers, runtimes, socket_of

GOLDEN = Path(__file__).parents[1] / "golden/schedctl"
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "ab" * 32
LABELS = {CATALOG_NAME: "scx_fifo", DIGEST: f"sha256:{'0' * 64}", SIGNER: "key.pub"}
RUNNING = Found(
    "podman",
    Container(
        ID, "scx_fifo", "registry.example/fifo:1", "cafe", LABELS, ContainerState.RUNNING, STARTED, STARTED, 7
    ),
)
ENDED = Found(
    "containerd",
    Container("old", "old", "registry.example/old", None, {}, ContainerState.EXITED, STARTED, exit=Exit(137)),
)
ATTACHED = SchedExt(State.ENABLED, "fifo", enable_seq=3, switch_all=True, nr_rejected=0, hotplug_seq=1)


def attached_by(process: Process) -> HostObservation:
    return HostObservation(ATTACHED, Proof(Hold.LINK, process))


OWN = Look(attached_by(Process(7, command="scx_fifo")), (RUNNING,))
FOREIGN = Look(
    attached_by(Process(9, command="scx_lavd", cgroups=("/system.slice/scx.service",))), (RUNNING, ENDED)
)
IDLE = Look(HostObservation(SchedExt(State.DISABLED, enable_seq=3)), ())


# What status says


@pytest.mark.parametrize(
    ("look", "file", "code"),
    [
        pytest.param(IDLE, "status-idle", ExitCode.DONE, id="nothing runs"),
        pytest.param(OWN, "status-running", ExitCode.DONE, id="ours runs"),
        pytest.param(FOREIGN, "status-mismatch", ExitCode.DISCREPANCY, id="a stranger's runs"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_status_is_the_golden_one(look: Look, file: str, code: ExitCode, form: Format) -> None:
    answer = status.answer(look, "podman")

    suffix = {"text": "txt"}.get(form, form)
    assert render(answer, form) == (GOLDEN / f"{file}.{suffix}").read_text()
    assert answer.exit_code is code


@pytest.mark.parametrize("look", [IDLE, OWN, FOREIGN])
def test_status_has_the_form_of_its_schema(look: Look) -> None:
    msgspec.convert(json.loads(render(status.answer(look, "podman"), "json")), StatusShown, strict=True)


def test_a_runtime_that_is_there_and_does_not_answer_is_a_warning() -> None:
    assert status.answer(IDLE._replace(problems=("containerd sleeps",)), "podman").warnings == (
        "containerd sleeps",
    )


def test_status_imports_nothing_that_is_slow_to_import() -> None:
    probe = (
        "import sys\nfrom schedkit.schedctl.main import main\n"
        "try: main(['status'])\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    slow = {"msgspec", "ssl", "cryptography", "rich", "yaml", "tuf"}
    assert set(done.stderr.split()) & slow == set()
    assert done.stdout.startswith("Status:")


# Which runtimes are asked


class Silent:
    """A runtime that never answers."""

    name = "Podman"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def containers(self) -> tuple[Container, ...]:
        raise self._error


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        (NoSocketError("there is none", "start it"), ()),
        (SilentError("it sleeps", "wake it"), ("it sleeps; wake it",)),
    ],
)
def test_a_runtime_that_is_not_installed_is_no_problem_but_a_silent_one_is(
    error: Exception, problems: tuple[str, ...], tmp_path: Path
) -> None:
    look = hosts.look(tmp_path, {"podman": Silent(error)})  # type: ignore[dict-item]  # it only fails

    assert (look.containers, look.problems) == (None, problems)


def test_the_socket_that_is_named_is_the_chosen_drivers() -> None:
    settings = Settings(driver="containerd", socket="/x.sock")

    assert socket_of(settings, "containerd") == Path("/x.sock")
    assert socket_of(settings, "podman") == SOCKETS["podman"]
    assert drivers(settings) == ["containerd", "podman"]


def test_only_runtimes_whose_sockets_are_there_are_asked(tmp_path: Path) -> None:
    there = tmp_path / "podman.sock"
    there.touch()

    assert "podman" in runtimes(Settings(socket=str(there)))
    assert "podman" not in runtimes(Settings(socket=str(tmp_path / "none.sock")))


# What ps and doctor say


def test_ps_lists_what_runs_with_its_pid_and_what_has_ended_without() -> None:
    assert render(ps.answer(FOREIGN), "text") == (
        "PID  ID            NAME\n7    abababababab  scx_fifo\n-    old           old\n"
    )


def test_ps_is_the_golden_one_as_json() -> None:
    assert render(ps.answer(FOREIGN), "json") == (GOLDEN / "ps.json").read_text()


def test_without_any_runtime_ps_says_so_instead_of_nothing() -> None:
    with pytest.raises(Problem, match="neither Podman nor containerd answers"):
        ps.answer(IDLE._replace(containers=None))


def diagnosis(*, problem: str) -> Answer:
    kernel = KernelFacts(release="6.18.0", state=State.DISABLED, capabilities=frozenset({"CAP_BPF"}))
    return doctor.answer(
        Facts(kernel, (RuntimeFacts("podman", "/p.sock", problem=problem, version="4.3.1"),))
    )


def test_doctor_is_the_golden_one() -> None:
    assert render(diagnosis(problem=""), "text") == (GOLDEN / "doctor.txt").read_text()


def test_doctor_fails_with_what_blocks_and_says_what_to_do() -> None:
    answer = diagnosis(problem="nobody listens there")
    said = json.loads(render(answer, "json"))

    assert answer.exit_code is ExitCode.FAILED
    assert said["summary"]["blocking"] == sum(
        check["status"] == "fail" and check["severity"] == "error" for check in said["checks"]
    )
    [found] = [check for check in said["checks"] if check["id"] == "runtime.any"]
    assert (found["status"], found["severity"], found["remediation"] != "") == ("fail", "error", True)


# What run hands over

LISTED = Chosen(
    parse_reference("registry.example/schedulers/fifo:1"),
    Listed("scx_fifo", Entry("registry.example/schedulers/fifo:1", presets={"server": ("--slow",)}), "test"),
)


def test_flags_of_a_preset_come_before_the_users_own() -> None:
    assert arguments(LISTED, Order(preset="server", args=("--more",))) == ("--slow", "--more")
    assert arguments(LISTED, Order(args=("--more",))) == ("--more",)


@pytest.mark.parametrize("chosen", [LISTED, Chosen(LISTED.reference, None)])
def test_a_preset_that_there_is_not_is_refused(chosen: Chosen) -> None:
    with pytest.raises(Problem, match="has no preset 'latency'"):
        arguments(chosen, Order(preset="latency"))


def test_a_container_is_called_as_the_catalog_or_the_repository_does() -> None:
    assert name_of(LISTED) == "scx_fifo"
    assert name_of(Chosen(LISTED.reference, None)) == "fifo"


def test_a_container_carries_what_it_is_and_nothing_that_is_not_known() -> None:
    digest = Digest(f"sha256:{'0' * 64}")
    order = Order(args=("--more",), preset="server")

    carried = describe(LISTED, order, LISTED.reference.pinned(digest), None, None)

    assert json.loads(carried.pop(OPTIONS)) == {
        "args": ["--more"],
        "preset": "server",
        "leastPrivilege": False,
    }
    assert carried == {
        CATALOG_NAME: "scx_fifo",
        IMAGE: "registry.example/schedulers/fifo:1",
        DIGEST: digest,
    }


def test_the_kernels_config_is_shown_where_libbpf_looks_unless_proc_has_it(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    config = tmp_path / "boot/config-6.18"
    config.write_text("CONFIG_BPF=y\n")
    sockets = Mount(str(tmp_path / "var/run/scx"), "/var/run/scx")

    assert mounts(tmp_path, "6.18") == (sockets, Mount(str(config), "/boot/config-6.18", read_only=True))

    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_BPF=y\n"))
    assert mounts(tmp_path, "6.18") == (sockets,)


def test_the_capabilities_of_the_catalog_are_added_to_what_all_need() -> None:
    listed = Listed("x", Entry("registry.example/x", needs=Needs(capabilities=("SYS_NICE", "BPF"))), "test")

    assert privileges(Chosen(LISTED.reference, listed)).capabilities == (
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_NICE",
    )


def test_last_words_are_told_on_one_line() -> None:
    def outputs() -> Iterator[Output]:
        yield Output(Stream.STDOUT, b"one\n\n tw")
        yield Output(Stream.STDERR, b"o\n")

    assert acting.joined(outputs()) == "one / two"


def test_errors_of_runtimes_are_told_with_what_to_do() -> None:
    problem = explain(SilentError("it sleeps", "wake it"))

    assert problem is not None
    assert (problem.what, problem.remedy) == ("it sleeps", "wake it")


# One change at a time


def test_a_second_change_waits_for_the_first_and_names_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with (
        locking.exclusive(lock, "run fifo"),
        pytest.raises(Problem) as met,
        locking.exclusive(lock, "stop", patience_s=0),
    ):
        pytest.fail("both changed at once")

    assert "(run fifo)" in met.value.why


def test_a_change_that_is_over_is_in_nobodys_way(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locking.exclusive(lock, "run fifo"):
        pass

    with locking.exclusive(lock, "stop", patience_s=0):
        assert "(stop)" in lock.read_text()
