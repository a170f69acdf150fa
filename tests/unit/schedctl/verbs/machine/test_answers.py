"""How the verbs about this machine answer: status, ps, doctor, and what run hands to a runtime."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rig.base import polling
from rig.builders.looks import held
from rig.runtimes.fakeruntime import FakeRuntime
from rig.runtimes.image_contents import UNSIGNED
from schedkit.kernel import held_objects
from schedkit.model.catalog import Entry, Listed, Needs
from schedkit.model.host.actions import AwaitFree, Discard, Plan, Stop
from schedkit.model.host.containers import (
    CATALOG_NAME_LABEL,
    DIGEST_LABEL,
    IMAGE_LABEL,
    OPTIONS_LABEL,
    SIGNER_LABEL,
    Container,
    ContainerState,
    Exit,
)
from schedkit.model.host.holders import HeldLink, HeldObjects, SchedulerMap
from schedkit.model.host.processes import Hold, Process, Proof
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.images.configs import MIN_KERNEL, NEEDS_TRACING, ImageConfig, Run
from schedkit.model.images.content import Content, content_of, digest_of
from schedkit.model.images.manifests import Manifest, render_manifest
from schedkit.model.images.references import Descriptor, Digest, parse_reference
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.model.readiness.checks import Outcome
from schedkit.model.readiness.facts import Facts, KernelFacts, RuntimeFacts
from schedkit.model.readiness.table import examine
from schedkit.oci.images.inspection import Inspected
from schedkit.oci.images.layout import Layout
from schedkit.runtimes.containers import Output, Stream
from schedkit.runtimes.errors import NoSocketError, SilentError
from schedkit.runtimes.specs import Mount
from schedkit.schedctl.answers.answer import Answer, Format, render
from schedkit.schedctl.change import container_spec, snapshot, why_detached
from schedkit.schedctl.change import lock as locking
from schedkit.schedctl.change.container_spec import Order, arguments, describe, mounts, name_of, privileges
from schedkit.schedctl.change.this_kernel import ThisKernel
from schedkit.schedctl.problems.problem import ExitCode, Problem, explain
from schedkit.schedctl.settings.table import Settings
from schedkit.schedctl.source import needs as imageneeds
from schedkit.schedctl.source.choose import Chosen, choose_image, needs_tracing
from schedkit.schedctl.source.fetch import Fetchable
from schedkit.schedctl.verbs.images import pull
from schedkit.schedctl.verbs.machine import doctor, ps, reset, run, status, stop, switch
from schedkit.schedctl.verbs.machine.launch import SchedulerRun
from schedkit.schedctl.verbs.machine.status_schema import StatusShown
from schedkit.schedctl.wiring import drivers, runtimes, socket_of

GOLDEN = Path(__file__).parents[4] / "golden/schedctl"
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ID = "ab" * 32
LABELS = {CATALOG_NAME_LABEL: "scx_fifo", DIGEST_LABEL: f"sha256:{'0' * 64}", SIGNER_LABEL: "key.pub"}
RUNNING = Container(
    ID,
    "scx_fifo",
    "podman",
    ContainerState.RUNNING,
    7,
    "registry.example/fifo:1",
    "cafe",
    LABELS,
    created_at=STARTED,
    started_at=STARTED,
)
ENDED = Container(
    "old",
    "old",
    "containerd",
    ContainerState.EXITED,
    image="registry.example/old",
    created_at=STARTED,
    exit=Exit(137),
)
ATTACHED = KernelState(State.ENABLED, "fifo", enable_seq=3, switch_all=True, nr_rejected=0, hotplug_seq=1)


def attached_by(process: Process, *containers: Container) -> Snapshot:
    return Snapshot(ATTACHED, Proof(Hold.LINK, process), HeldObjects(), containers)


OWN = attached_by(Process(7, command="scx_fifo"), RUNNING)
FOREIGN = attached_by(Process(9, command="scx_lavd", cgroups=("/system.slice/scx.service",)), RUNNING, ENDED)
UID = "11111111-2222-3333-4444-555555555555"
OF_A_POD = attached_by(
    Process(9, command="scx_fifo", cgroups=(f"/kubepods/pod{UID}/{'ef' * 32}",), pod="prod/fifo-x7k2p")
)
IDLE = Snapshot(KernelState(State.DISABLED, enable_seq=3), held=HeldObjects(), containers=())


# What status says


@pytest.mark.parametrize(
    ("look", "file", "code"),
    [
        pytest.param(IDLE, "status-idle", ExitCode.DONE, id="nothing runs"),
        pytest.param(OWN, "status-running", ExitCode.DONE, id="ours runs"),
        pytest.param(FOREIGN, "status-mismatch", ExitCode.DISCREPANCY, id="a stranger's runs"),
        pytest.param(OF_A_POD, "status-pod", ExitCode.DISCREPANCY, id="a pod's runs"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_status_is_the_golden_one(look: Snapshot, file: str, code: ExitCode, form: Format) -> None:
    answer = status.answer(look, "podman")

    suffix = {"text": "txt"}.get(form, form)
    assert render(answer, form) == (GOLDEN / f"{file}.{suffix}").read_text()
    assert answer.exit_code is code


@pytest.mark.parametrize("look", [IDLE, OWN, FOREIGN, OF_A_POD])
def test_status_has_the_form_of_its_schema(look: Snapshot) -> None:
    msgspec.convert(json.loads(render(status.answer(look, "podman"), "json")), StatusShown, strict=True)


def test_why_ours_is_not_attached_is_told_in_the_words_of_kernel_and_scheduler() -> None:
    look = IDLE._replace(containers=(RUNNING,))

    answer = status.answer(look, "podman", lambda _: ("fifo: runtime error", "load failed"))

    shown = json.loads(render(answer, "json"))
    assert (shown["kernel_words"], shown["last_words"]) == ("fifo: runtime error", "load failed")
    assert "\nKernel says:  fifo: runtime error\n" in render(answer, "text")


def test_status_agrees_with_reset_about_what_an_ended_container_left_in_the_kernel() -> None:
    look = attached_by(Process(9, command="child", cgroups=("/schedkit/old",)), ENDED)

    shown = json.loads(render(status.answer(look, "podman"), "json"))

    assert (shown["status"], shown["owner"]["kind"]) == ("orphaned-kernel-state", "managed")
    assert shown["next"] == "end that process: `schedctl reset`"


def test_nobody_is_asked_why_where_all_is_well() -> None:
    def asked(found: Container) -> tuple[str, str]:
        pytest.fail(f"why is {found} not attached?")

    for look in (IDLE, OWN, FOREIGN):
        status.answer(look, "podman", asked)


def test_words_since_a_container_began_are_the_kernels_and_its_own(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    now_us = int(time.monotonic() * 1e6)
    (tmp_path / "dev/kmsg").write_text(
        f'3,1,{now_us - 900_000_000},-;sched_ext: BPF scheduler "past" disabled (runtime error)\n'
        f'3,2,{now_us},-;sched_ext: BPF scheduler "fifo" disabled (runnable task stall)\n'
    )

    def found(*, minutes_ago: int) -> tuple[str, str]:
        began = datetime.now(UTC) - timedelta(minutes=minutes_ago)
        one = RUNNING._replace(started_at=began)
        runtime = FakeRuntime()
        runtime.have(one, wrote=("farewell",))
        return why_detached.find(tmp_path, {"podman": runtime}, one)

    assert found(minutes_ago=1) == ("fifo: runnable task stall", "farewell")
    assert found(minutes_ago=-1) == ("", "farewell")


def test_when_a_program_began_is_asked_of_the_kernel_since_clocks_are_set(tmp_path: Path) -> None:
    ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - 60) * os.sysconf("SC_CLK_TCK"))
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text(f"7 (scx_fifo) S{' 1' * 18} {ticks} 1\n")
    yesterday = datetime.now(UTC) - timedelta(days=1)

    began = why_detached.began_us(tmp_path, RUNNING._replace(started_at=yesterday))

    assert began is not None
    assert began / 1e6 == pytest.approx(time.monotonic() - 60, abs=5)


def test_a_runtime_that_is_there_and_does_not_answer_is_a_warning() -> None:
    assert status.answer(IDLE._replace(problems=("containerd sleeps",)), "podman").warnings == (
        "containerd sleeps",
    )


# Which runtimes are asked


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
    runtime = FakeRuntime()
    runtime.failing["containers"] = error

    look = snapshot.look(ThisKernel(tmp_path), {"podman": runtime})

    assert (look.containers, look.problems) == (None, problems)


@pytest.mark.parametrize(("answering", "silent"), [("podman", "containerd"), ("containerd", "podman")])
def test_a_runtime_without_a_socket_has_not_said_whose_its_containers_are(
    answering: str, silent: str, tmp_path: Path
) -> None:
    look = snapshot.look(ThisKernel(tmp_path), {answering: FakeRuntime()})

    assert (look.containers, look.problems, look.silent) == ((), (), (silent,))


@pytest.mark.parametrize(
    ("state", "is_thorough", "walks"),
    [
        pytest.param("enabled", True, 1, id="for a change"),
        pytest.param("enabled", False, 1, id="for a status"),
        pytest.param("disabled", True, 1, id="for a change, and nothing is attached"),
        pytest.param("disabled", False, 0, id="for a status, and nothing is attached"),
    ],
)
def test_one_look_walks_through_all_processes_once_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, is_thorough: bool, walks: int
) -> None:
    (tmp_path / "sys/kernel/sched_ext/root").mkdir(parents=True)
    (tmp_path / "sys/kernel/sched_ext/state").write_text(state)
    (tmp_path / "sys/kernel/sched_ext/root/ops").write_text("mini")
    seen: list[Path] = []
    found = HeldObjects((Process(7),), (HeldLink(7, 1, 10),), (), (SchedulerMap(10, "mini"),))

    def gather(root: Path) -> HeldObjects:
        seen.append(root)
        return found

    monkeypatch.setattr(held_objects, "gather", gather)  # BPF maps are for root alone

    look = snapshot.look(ThisKernel(tmp_path), {}, is_thorough=is_thorough)

    assert len(seen) == walks
    assert look.held == (found if walks else None)


def test_the_socket_that_is_named_is_the_chosen_drivers() -> None:
    settings = Settings(driver="containerd", socket="/x.sock")

    assert socket_of(settings, "containerd") == Path("/x.sock")
    assert socket_of(settings, "podman") == Path(Settings().podman_socket)
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
    answer = diagnosis(problem="no program listens there")
    said = json.loads(render(answer, "json"))

    assert answer.exit_code is ExitCode.FAILED
    assert said["summary"]["blocking"] == sum(
        check["status"] == "fail" and check["severity"] == "error" for check in said["checks"]
    )
    [found] = [check for check in said["checks"] if check["id"] == "runtime.any"]
    assert (found["status"], found["severity"], found["remediation"] != "") == ("fail", "error", True)


def test_what_an_image_needs_is_its_own_word_before_the_catalogs() -> None:
    needs = Needs(boot_config=True, capabilities=("BPF",), kernel_options=("KALLSYMS_ALL",))
    listed = Listed(
        "x", Entry("registry.example/x", min_kernel="6.12", architectures=("arm64",), needs=needs), "test"
    )
    chosen = Chosen(parse_reference("registry.example/x"), listed)
    config = ImageConfig("amd64", "linux", config=Run(labels={MIN_KERNEL: "6.13"}))
    digest = Digest(f"sha256:{'0' * 64}")

    known = imageneeds.describe(
        chosen, Inspected(digest, (config.platform,), config, ()), called={"scx_bpf_kick_cpu"}
    )
    unseen = imageneeds.describe(chosen, None, problem="no network")

    assert (known.min_kernel, known.architectures, known.problem) == ("6.13", ("x86_64",), "")
    assert (unseen.min_kernel, unseen.architectures, unseen.problem) == ("6.12", ("aarch64",), "no network")
    assert (known.kfuncs, unseen.kfuncs) == (("scx_bpf_kick_cpu",), ())
    assert (known.options, known.reads_config, known.capabilities) == (("KALLSYMS_ALL",), True, ("CAP_BPF",))


def test_layers_that_cannot_be_read_leave_the_rest_of_the_image_known() -> None:
    chosen = Chosen(parse_reference("registry.example/x"), None)
    config = ImageConfig("amd64", "linux", config=Run(labels={MIN_KERNEL: "6.13"}))
    digest = Digest(f"sha256:{'0' * 64}")
    layers = [
        Descriptor(f"application/vnd.oci.image.layer.v1.tar+{kind}", digest, 1) for kind in ("gzip", "zstd")
    ]

    unread = imageneeds.unreadable(layers, reads_zstd=False)
    known = imageneeds.describe(chosen, Inspected(digest, (config.platform,), config, ()), unread=unread)
    found = {each.id: each for each in examine(Facts(KernelFacts(release="6.18"), image=known))}

    assert imageneeds.unreadable(layers[:1], reads_zstd=False) == ""
    assert imageneeds.unreadable(layers, reads_zstd=True) == ""
    assert (found["image.found"].status, found["image.min_kernel"].status) == (Outcome.PASS, Outcome.PASS)
    assert found["image.kfuncs"].status is Outcome.SKIP
    assert found["image.kfuncs"].detail.startswith("the image's layers are compressed with zstd")


@pytest.mark.skipif("zst" in tarfile.TarFile.OPEN_METH, reason="this Python reads zstd")
def test_an_image_in_zstd_is_found_and_not_called_broken(tmp_path: Path) -> None:
    layout, image = Layout(tmp_path), parse_reference("registry.example/x:1")
    parts = {
        "application/vnd.oci.image.config.v1+json": b'{"architecture": "amd64", "os": "linux"}',
        "application/vnd.oci.image.layer.v1.tar+zstd": b"\x28\xb5\x2f\xfd",
    }
    config, layer = (Descriptor(kind, digest_of(data), len(data)) for kind, data in parts.items())
    for part, data in zip((config, layer), parts.values(), strict=True):
        layout.push_blob(image.repository, part, partial(list[bytes], [data]))
    manifest = render_manifest(config=config, layers=(layer,))
    layout.push_manifest(image.repository, content_of(manifest), tag="1")

    known = imageneeds.find_needs(layout, choose_image({}, str(image)))

    assert (known.problem, known.architectures) == ("", ("x86_64",))
    assert "zstd" in known.unread


# What changes answer

RUN = {
    "name": "scx_lavd",
    "id": ID,
    "driver": "podman",
    "image": f"registry.example/lavd:1@{LABELS[DIGEST_LABEL]}",
    "digest": LABELS[DIGEST_LABEL],
    "signer": "key.pub",
}
CONFIRMED: dict[str, Any] = {**RUN, "confirmed": True, "ops": "lavd", "enable_seq": 4}
OLD = switch.Predecessor(name="scx_fifo", id="cd" * 32, driver="podman")
SWITCHED = switch.SchedulerSwitched(
    **CONFIRMED, changed=True, previous=OLD, gap_seconds=0.125, gap_source="kernel-log"
)
KNOWN = Container(ID, "scx_fifo", "podman", ContainerState.RUNNING, 7)
RESET = Plan((Stop(KNOWN), AwaitFree(), Discard(KNOWN)))
CHANGES = {
    "run": run.answer(SchedulerRun(**CONFIRMED), []),
    "switch": switch.answer(SWITCHED, []),
    "stop": stop.answer(KNOWN, IDLE.kernel, []),
    "reset": reset.answer(RESET, IDLE, is_dry=False),
    "reset-dry": reset.answer(RESET, OWN, is_dry=True),
    "pull": pull.answer(
        pull.ImagePulled(image=RUN["image"], digest=RUN["digest"], driver="podman", signer=None, loaded=True),
        [],
    ),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("verb", CHANGES)
def test_a_change_is_answered_as_the_golden_file_has_it(verb: str, form: Format) -> None:
    suffix = {"text": "txt"}.get(form, form)

    assert render(CHANGES[verb], form) == (GOLDEN / f"{verb}.{suffix}").read_text()


@pytest.mark.parametrize(
    ("different", "words"),
    [
        ({"changed": False}, "nothing to do: the kernel runs lavd from container scx_lavd, with the same"),
        ({"confirmed": False, "ops": None}, "started scx_lavd; `schedctl status` says whether"),
        ({"previous": None}, "the kernel runs lavd from container scx_lavd; schedkit ran nothing before"),
        ({"gap_source": "observation"}, "its own scheduler for at most 0.12 s"),
    ],
)
def test_a_switch_says_what_it_did(different: dict[str, Any], words: str) -> None:
    answer = switch.answer(msgspec.structs.replace(SWITCHED, **different), [])

    assert words in render(answer, "text")


def test_what_a_reset_cannot_remove_is_a_warning() -> None:
    left = IDLE._replace(held=held(pinned=(SchedulerMap(4, "mini"),)))

    assert "a link of mini is still pinned" in reset.answer(Plan(()), left, is_dry=False).warnings[0]


def test_a_pulled_image_that_was_there_is_said_to_be() -> None:
    there = pull.ImagePulled(image="x@y", digest="y", driver="podman", signer=None, loaded=False)

    assert render(pull.answer(there, []), "text") == "podman has x@y already\n"


# What run hands over

FIFO = "registry.example/schedulers/fifo:1"
LISTED = Chosen(
    parse_reference(FIFO),
    Listed("scx_fifo", Entry(FIFO, presets={"server": ("--slow",)}), "test"),
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

    # to the letter: `switch` takes other words for other options, and would replace what runs already
    assert carried.pop(OPTIONS_LABEL) == (
        '{"args": ["--slow", "--more"], "preset": "server", "leastPrivilege": false}'
    )
    assert carried == {
        CATALOG_NAME_LABEL: "scx_fifo",
        IMAGE_LABEL: "registry.example/schedulers/fifo:1",
        DIGEST_LABEL: digest,
    }


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(Entry(FIFO, presets={"server": ("--slower",)}), id="what a preset means"),
        pytest.param(
            Entry(FIFO, presets={"server": ("--slow",)}, needs=Needs(capabilities=("SYS_NICE",))),
            id="which capabilities it needs",
        ),
    ],
)
def test_what_the_catalog_has_changed_makes_another_container(changed: Entry) -> None:
    order = Order(preset="server", least_privilege=True)
    later = Chosen(LISTED.reference, Listed("scx_fifo", changed, "test"))

    one, other = (
        describe(each, order, each.reference, None, None)[OPTIONS_LABEL] for each in (LISTED, later)
    )

    assert one != other


def test_capabilities_that_nobody_knows_are_a_warning_where_others_are_taken_away() -> None:
    entry = Entry(FIFO, needs=Needs(capabilities=("SYS_NICE",)))
    known = Chosen(LISTED.reference, Listed("scx_fifo", entry, "test"))
    unlisted = Chosen(LISTED.reference, None)
    least = Order(least_privilege=True)

    def told(chosen: Chosen, order: Order) -> list[str]:
        return container_spec.warnings(chosen, order, UNLABELLED, Path("/nowhere"))

    assert told(known, least) == told(LISTED, Order()) == []
    assert told(unlisted, least)[0].startswith("the capabilities that fifo needs are not known")
    assert "CAP_BPF and CAP_PERFMON" in told(LISTED, least)[0]


def test_the_kernels_config_is_shown_where_libbpf_looks_unless_proc_has_it(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    config = tmp_path / "boot/config-6.18"
    config.write_text("CONFIG_BPF=y\n")
    sockets = Mount(str(tmp_path / "var/run/scx"), "/var/run/scx")

    assert mounts(tmp_path, "6.18", tracing=False) == (
        sockets,
        Mount(str(config), "/boot/config-6.18", read_only=True),
    )

    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_BPF=y\n"))
    assert mounts(tmp_path, "6.18", tracing=False) == (sockets,)


def test_what_the_kernel_can_trace_is_shown_to_who_needs_it_where_the_machine_has_it(tmp_path: Path) -> None:
    tracing = tmp_path / "sys/kernel/tracing"
    shown = Mount(str(tracing), "/sys/kernel/tracing", read_only=True)
    tracing.mkdir(parents=True)
    assert shown not in mounts(tmp_path, "6.18", tracing=True)

    (tracing / "available_events").touch()
    assert shown in mounts(tmp_path, "6.18", tracing=True)
    assert shown not in mounts(tmp_path, "6.18", tracing=False)


TRACES = Listed("scx_lavd", Entry("registry.example/lavd:2", needs=Needs(tracing=True)), "test")
UNLABELLED = ImageConfig("amd64", "linux")


def labelled(value: str) -> ImageConfig:
    return ImageConfig("amd64", "linux", config=Run(labels={NEEDS_TRACING: value}))


@pytest.mark.parametrize(
    ("word", "config", "is_needed"),
    [
        pytest.param("scx_lavd", UNLABELLED, True, id="by its name"),
        pytest.param("registry.example/lavd:1", UNLABELLED, True, id="by its repository, in another version"),
        pytest.param("registry.example/copy/lavd:1", UNLABELLED, False, id="an image that nobody knows"),
        pytest.param("registry.example/own:1", labelled("true"), True, id="an image that says so itself"),
        pytest.param("scx_lavd", labelled("false"), False, id="an image that knows better"),
        pytest.param("scx_lavd", labelled("maybe"), True, id="a label that says nothing"),
        pytest.param("registry.example/own:1", labelled("maybe"), False, id="only a label that says nothing"),
    ],
)
def test_who_needs_what_the_kernel_can_trace(word: str, config: ImageConfig, is_needed: bool) -> None:
    chosen = choose_image({"scx_lavd": TRACES}, word)

    assert needs_tracing(chosen, config) is is_needed


def test_doctor_and_run_mean_the_same_images(tmp_path: Path) -> None:
    chosen, own = choose_image({"scx_lavd": TRACES}, "registry.example/own:1"), labelled("true")
    digest = Digest(f"sha256:{'0' * 64}")
    tracing = tmp_path / "sys/kernel/tracing"
    tracing.mkdir(parents=True)
    (tracing / "available_events").touch()
    part = Descriptor("application/octet-stream", digest, 0)
    empty = Content(part, b"")
    found = Fetchable(chosen.reference.pinned(digest), empty, empty, Manifest(2, part), empty, own)

    spec = container_spec.specify(
        chosen, Order(), found, image="x", admission=UNSIGNED, policy=None, root=tmp_path
    )

    assert "/sys/kernel/tracing" in {mount.target for mount in spec.mounts}
    assert imageneeds.describe(chosen, Inspected(digest, (), own, ())).reads_tracing
    assert not imageneeds.describe(chosen, None).reads_tracing
    assert imageneeds.describe(choose_image({"scx_lavd": TRACES}, "scx_lavd"), None).reads_tracing


def test_who_runs_it_where_nothing_can_be_traced_is_told_before_it_fails(tmp_path: Path) -> None:
    chosen = choose_image({"scx_lavd": TRACES}, "scx_lavd")

    [told] = container_spec.warnings(chosen, Order(), UNLABELLED, tmp_path)

    assert told.startswith("scx_lavd reads /sys/kernel/tracing")
    assert "`mount -t tracefs tracefs /sys/kernel/tracing`" in told


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

    assert why_detached.joined(outputs()) == "one / two"


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

    assert "(schedctl run fifo, since " in met.value.why


def test_who_waits_is_told_for_whom_and_then_has_its_turn(tmp_path: Path) -> None:
    lock, told = tmp_path / "lock", threading.Event()

    def change() -> None:
        with locking.exclusive(lock, "run fifo"):
            told.wait(30)

    first = threading.Thread(target=change)
    first.start()
    polling.until(lambda: lock.exists() and lock.read_text() != "", "the first has begun")
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        told.set()

    with locking.exclusive(lock, "stop", tell=tell):
        first.join()

    assert len(lines) == 1
    assert f"waiting for process {os.getpid()} (schedctl run fifo, since " in lines[0]


def test_a_change_that_is_over_is_in_nobodys_way(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locking.exclusive(lock, "run fifo"):
        pass

    with locking.exclusive(lock, "stop", patience_s=0):
        assert "(schedctl stop, since " in lock.read_text()
