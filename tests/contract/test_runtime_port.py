"""Podman and containerd keep every promise of the port to container runtimes.

The fake of unit tests keeps those that need no machine: `CANNOT` lists all others.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from rig.base import polling, processes
from rig.runtimes import image_contents, images
from rig.runtimes.containerd import Containerd as ContainerdService
from rig.runtimes.fakeruntime import FakeRuntime, Program, by_script
from rig.runtimes.image_contents import UNSIGNED
from rig.runtimes.podman import Podman as PodmanService
from schedkit.model.host.containers import ContainerState
from schedkit.model.images.references import Descriptor
from schedkit.runtimes.containerd.client import Containerd
from schedkit.runtimes.containers import Stream
from schedkit.runtimes.errors import (
    BrokenImageError,
    DiskFullError,
    ImageMissingError,
    LogsMissingError,
    NameTakenError,
    NoSuchContainerError,
    NotAnsweringError,
    StartError,
)
from schedkit.runtimes.image_content import ImageContent, Progress
from schedkit.runtimes.podman.client import Podman
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import LOG_LIMIT_BYTES, LeastPrivilege, Mount, Spec

_WAITS_FOR_TERM = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
_IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
_WRITES_TWICE = "trap 'echo last; exit' TERM; echo first; while :; do sleep 0.05; done"
_numbers = itertools.count()


Service: TypeAlias = PodmanService | ContainerdService
_SERVICES: dict[str, type[Service]] = {"podman": PodmanService, "containerd": ContainerdService}
_FAKE = "fake"

# What the fake does when one of these scripts is to run
_PROGRAMS = {
    _WAITS_FOR_TERM: Program(writes=("ready",), code_of_term=3, farewell=("bye",)),
    _IGNORES_TERM: Program(writes=("ready",), code_of_term=None),
    _WRITES_TWICE: Program(writes=("first",), code_of_term=0, farewell=("last",)),
    "echo began": Program(writes=("began",), code=0),
    "true": Program(code=0),
    "exit 1": Program(code=1),
    "exit 5": Program(code=5),
    "exit 7": Program(code=7),
    "kill -SEGV $$": Program(code=128 + signal.SIGSEGV),
    "echo one; echo two >&2": Program(writes=("one",), complains=("two",), code=0),
    "echo one; echo two >&2; exit 4": Program(writes=("one",), complains=("two",), code=4),
    "for i in 1 2 3 4 5; do echo $i; done": Program(writes=("1", "2", "3", "4", "5"), code=0),
    "cat; echo over": Program(writes=("over",), code=0),
}
# What the fake cannot show, and why
CANNOT = {
    "test_a_program_that_is_not_there_is_an_error_and_leaves_nothing": "it executes nothing",
    "test_arguments_and_mounts_reach_the_program": "its programs are no processes",
    "test_a_privileged_one_may_do_all_and_sees_the_hosts_processes": "its programs are no processes",
    "test_with_least_privilege_it_has_what_was_asked_for_and_writes_only_to_run": "they are no processes",
    "test_without_network_it_sees_loopback_alone": "its programs are no processes",
    "test_what_a_program_has_started_is_gone_with_it": "its programs are no processes",
    "test_of_endless_output_a_bounded_part_with_its_end_is_kept": "it keeps all that is written",
    "test_attached_it_reads_what_it_is_given_to_the_end": "its programs read nothing",
    "test_one_of_the_go_schedctl_is_listed_and_stopped_like_ours": "nothing else can make a container in it",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each runtime in its turn, and the fake for what it can show."""
    says_which = any("service" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "service" in metafunc.fixturenames and not says_which:
        fake = () if metafunc.function.__name__ in CANNOT else (_FAKE,)
        metafunc.parametrize("service", (*_SERVICES, *fake), indirect=True, scope="module")


def test_what_the_fake_cannot_show_is_shown_by_the_others() -> None:
    classes = (TestCreating, TestRunning, TestEnding, TestOutput, TestListing)

    assert set(CANNOT) <= {name for each in classes for name in vars(each)}


@pytest.fixture(scope="module")
def service(request: pytest.FixtureRequest) -> Service | None:
    """A runtime on a socket of its own; None: the fake needs none."""
    found: Service | None = None if request.param == _FAKE else request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def runtime(service: Service | None, folder: Path) -> Runtime:
    """The port to it."""
    if service is None:
        return FakeRuntime(by_script(_PROGRAMS), has_every_image=False, is_patient=True)
    return port_to(service, folder / "logs")


def port_to(service: Service, logs: Path) -> Runtime:
    if isinstance(service, PodmanService):
        return Podman(service.socket)
    return Containerd(service.socket, logs=logs)


@pytest.fixture(scope="module")
def image(runtime: Runtime, busybox: Path) -> ImageContent:
    """A loaded image whose entry point is busybox."""
    image = image_contents.content(busybox)
    runtime.load(image)
    return image


Run = Callable[..., str]


@pytest.fixture
def run(runtime: Runtime, image: ImageContent) -> Iterator[Run]:
    """Start a shell script in a container; it is removed after the test."""
    made = []

    def start(script: str, **settings: object) -> str:
        made.append(create(runtime, image, script, **settings))
        runtime.start(made[-1])
        return made[-1]

    yield start
    for container in made:
        runtime.remove(container)


def create(runtime: Runtime, image: ImageContent, script: str, **settings: object) -> str:
    """A prepared container's name."""
    name = f"port-{next(_numbers)}"
    spec = Spec(admission=UNSIGNED, name=name, image=image.reference, args=("sh", "-c", script))
    runtime.create(replace(spec, **settings))  # type: ignore[arg-type] # any fields of a Spec
    return name


def said(runtime: Runtime, container: str, stream: Stream | None = None, *, tail: int | None = None) -> str:
    """What a container wrote so far."""
    lines = [one.data for one in runtime.logs(container, tail=tail) if stream in (None, one.stream)]
    return b"".join(lines).decode()


def await_words(runtime: Runtime, container: str, words: str) -> None:
    polling.until(lambda: words in said(runtime, container), f"{container} says {words!r}")


class TestImages:
    def test_a_loaded_image_is_there_by_its_digest(self, runtime: Runtime, image: ImageContent) -> None:
        assert runtime.has_image(image.reference)

    def test_an_image_that_nobody_loaded_is_not_there(self, runtime: Runtime) -> None:
        assert not runtime.has_image(f"registry.rig.test/nobody@sha256:{'0' * 64}")

    def test_progress_grows_from_layer_to_layer_to_the_whole(self, runtime: Runtime, busybox: Path) -> None:
        seen: list[Progress] = []

        runtime.load(image_contents.content(busybox, "registry.rig.test/rig/watched"), seen.append)

        done = [one.done_bytes for one in seen]
        assert done == sorted(set(done))
        assert seen[-1].done_bytes == seen[-1].total_bytes > 0

    def test_a_source_that_breaks_off_is_heard_and_leaves_no_image(
        self, runtime: Runtime, tmp_path: Path
    ) -> None:
        whole = _image_of(tmp_path, random.Random(1).randbytes(1 << 20))  # no compression makes it short

        def breaks_off(layer: Descriptor) -> Iterator[bytes]:
            yield next(iter(whole.read(layer)))
            raise ConnectionAbortedError("the registry stopped in the middle of a blob")

        with pytest.raises(ConnectionAbortedError, match="in the middle of a blob"):
            runtime.load(replace(whole, read=breaks_off))

        assert not runtime.has_image(whole.reference)
        runtime.load(whole)  # what was begun is not in the way
        assert runtime.has_image(whole.reference)

    def test_a_layer_that_ends_early_is_refused(self, runtime: Runtime, tmp_path: Path) -> None:
        whole = _image_of(tmp_path, b"ends early")

        with pytest.raises(BrokenImageError, match="1 bytes shorter than announced"):
            runtime.load(replace(whole, read=lambda layer: [b"".join(whole.read(layer))[:-1]]))

        assert not runtime.has_image(whole.reference)

    def test_other_bytes_of_the_same_length_are_refused(self, runtime: Runtime, tmp_path: Path) -> None:
        whole = _image_of(tmp_path, b"changed on the way")

        def changed(layer: Descriptor) -> Iterator[bytes]:
            data = b"".join(whole.read(layer))
            yield data[:-20] + bytes(20)

        with pytest.raises(BrokenImageError, match="do not match its digest"):
            runtime.load(replace(whole, read=changed))

        assert not runtime.has_image(whole.reference)


class TestCreating:
    def test_a_created_container_is_prepared_and_does_not_run(
        self, runtime: Runtime, image: ImageContent
    ) -> None:
        name = create(runtime, image, "echo began", labels={"org.schedkit.test": "1"})

        found = runtime.inspect(name)

        assert (found.name, found.state, found.pid, found.exit) == (name, ContainerState.CREATED, None, None)
        assert (found.image, found.started_at) == (image.reference, None)
        assert found.labels["org.schedkit.test"] == "1"
        assert said(runtime, name) == ""
        runtime.remove(name)

    def test_without_its_image_nothing_is_created(self, runtime: Runtime) -> None:
        missing = f"registry.rig.test/nobody@sha256:{'0' * 64}"

        with pytest.raises(ImageMissingError, match="load it first"):
            runtime.create(Spec(admission=UNSIGNED, name="port-missing", image=missing))

        with pytest.raises(NoSuchContainerError):
            runtime.inspect("port-missing")

    def test_a_name_is_given_once(self, runtime: Runtime, image: ImageContent) -> None:
        name = create(runtime, image, "true")

        with pytest.raises(NameTakenError, match=name):
            runtime.create(Spec(admission=UNSIGNED, name=name, image=image.reference))

        assert runtime.inspect(name).state is ContainerState.CREATED
        runtime.remove(name)

    def test_a_program_that_is_not_there_is_an_error_and_leaves_nothing(
        self, runtime: Runtime, tmp_path: Path
    ) -> None:
        image = _with_entry_point(_image_of(tmp_path, b"never run"), "/usr/bin/elsewhere")
        runtime.load(image)

        with pytest.raises(StartError, match="no such file or directory"):
            runtime.create(Spec(admission=UNSIGNED, name="port-unstartable", image=image.reference))

        with pytest.raises(NoSuchContainerError):
            runtime.inspect("port-unstartable")


class TestRunning:
    def test_a_running_container_has_a_pid_and_a_beginning(self, runtime: Runtime, run: Run) -> None:
        found = runtime.inspect(run(_WAITS_FOR_TERM))

        assert found.state is ContainerState.RUNNING
        assert found.pid is not None
        assert found.started_at is not None
        assert found.created_at is not None
        assert found.started_at >= found.created_at

    def test_arguments_and_mounts_reach_the_program(self, runtime: Runtime, run: Run, tmp_path: Path) -> None:
        (tmp_path / "note").write_text("from outside")
        mounts = (Mount(str(tmp_path), "/var/run/scx"), Mount(str(tmp_path / "note"), "/boot/config", True))
        script = "cat /boot/config; echo; echo inside > /var/run/scx/answer; echo > /boot/config"

        name = run(script, mounts=mounts)
        runtime.wait(name, timeout_s=30)

        assert said(runtime, name, Stream.STDOUT) == "from outside\n"
        assert (tmp_path / "answer").read_text() == "inside\n"
        assert "Read-only file system" in said(runtime, name, Stream.STDERR)

    def test_a_privileged_one_may_do_all_and_sees_the_hosts_processes(
        self, runtime: Runtime, run: Run
    ) -> None:
        name = run("grep CapEff /proc/self/status; cat /proc/1/comm; touch /run/written /written && echo ok")
        runtime.wait(name, timeout_s=30)

        capabilities, first, written = said(runtime, name).splitlines()
        assert int(capabilities.split()[1], 16) & _ADMIN
        assert first != "busybox"
        assert written == "ok"

    def test_with_least_privilege_it_has_what_was_asked_for_and_writes_only_to_run(
        self, runtime: Runtime, run: Run
    ) -> None:
        script = "grep CapEff /proc/self/status; touch /run/written && echo ok; touch /written"
        name = run(script, privileges=LeastPrivilege())
        runtime.wait(name, timeout_s=30)

        capabilities, written = said(runtime, name, Stream.STDOUT).splitlines()
        assert int(capabilities.split()[1], 16) == _BPF | _PERFMON
        assert written == "ok"
        assert "Read-only file system" in said(runtime, name, Stream.STDERR)

    def test_without_network_it_sees_loopback_alone(self, runtime: Runtime, run: Run) -> None:
        name = run("ls /sys/class/net")
        runtime.wait(name, timeout_s=30)

        assert said(runtime, name).split() == ["lo"]


_ADMIN, _PERFMON, _BPF = 1 << 21, 1 << 38, 1 << 39


class TestEnding:
    def test_an_exit_code_is_handed_on(self, runtime: Runtime, run: Run) -> None:
        name = run("exit 7")

        ended = runtime.wait(name, timeout_s=30)

        assert ended is not None
        assert (ended.code, ended.signal, str(ended)) == (7, None, "exit code 7")
        assert ended.at is not None
        found = runtime.inspect(name)
        assert (found.state, found.pid, found.exit) == (ContainerState.EXITED, None, ended)

    def test_a_signal_is_told_from_an_exit(self, runtime: Runtime, run: Run) -> None:
        ended = runtime.wait(run("kill -SEGV $$"), timeout_s=30)

        assert ended is not None
        assert str(ended) == "killed by SIGSEGV"

    def test_waiting_ends_when_the_time_is_over(self, runtime: Runtime, run: Run) -> None:
        assert runtime.wait(run(_WAITS_FOR_TERM), timeout_s=0.3) is None

    def test_one_that_heeds_sigterm_is_not_killed(self, runtime: Runtime, run: Run) -> None:
        name = run(_WAITS_FOR_TERM)
        await_words(runtime, name, "ready")

        ended = runtime.stop(name, grace_s=30)

        assert ended is not None
        assert ended.code == 3
        assert said(runtime, name) == "ready\nbye\n"

    def test_one_that_ignores_sigterm_is_killed_after_the_time_given(
        self, runtime: Runtime, run: Run
    ) -> None:
        name = run(_IGNORES_TERM)
        await_words(runtime, name, "ready")

        ended = runtime.stop(name, grace_s=0.5)

        assert str(ended) == "killed by SIGKILL"
        assert runtime.inspect(name).state is ContainerState.EXITED

    def test_what_a_program_has_started_is_gone_with_it(self, runtime: Runtime, run: Run) -> None:
        """It sees the host's processes, so that no namespace takes the others along."""
        seconds = f"{os.getpid()}{next(_numbers):03}"  # nobody else sleeps for so long
        name = run(f"sleep {seconds} & echo started; wait")
        polling.until(lambda: _is_run_by_somebody(seconds), "it has started another")

        runtime.stop(name, grace_s=0.3)

        assert not _is_run_by_somebody(seconds)

    def test_to_stop_what_has_ended_changes_nothing(self, runtime: Runtime, run: Run) -> None:
        name = run("exit 5")
        ended = runtime.wait(name, timeout_s=30)

        assert runtime.stop(name, grace_s=10) == ended

    def test_what_has_ended_can_be_started_again(self, runtime: Runtime, run: Run) -> None:
        name = run(_WAITS_FOR_TERM)
        await_words(runtime, name, "ready")
        first = runtime.inspect(name)
        runtime.stop(name, grace_s=30)

        runtime.start(name)

        again = runtime.inspect(name)
        assert (again.id, again.state) == (first.id, ContainerState.RUNNING)
        assert again.pid not in (None, first.pid)
        # SIGTERM before that would end it without a word: the program has yet to say what it does then
        polling.until(lambda: said(runtime, name).endswith("ready\n"), "it is ready once more")
        runtime.stop(name, grace_s=30)
        assert said(runtime, name).endswith("ready\nbye\n")

    def test_what_was_never_started_has_no_exit(self, runtime: Runtime, image: ImageContent) -> None:
        name = create(runtime, image, "true")

        assert runtime.stop(name, grace_s=10) is None

        runtime.remove(name)

    def test_a_running_one_is_gone_once_removed(self, runtime: Runtime, run: Run) -> None:
        name = run(_IGNORES_TERM)

        runtime.remove(name)

        with pytest.raises(NoSuchContainerError, match=name):
            runtime.inspect(name)
        runtime.remove(name)  # and is not missed

    @pytest.mark.parametrize("question", ["inspect", "start", "stop", "wait", "attach"])
    def test_nobody_speaks_for_a_container_that_is_not_there(self, runtime: Runtime, question: str) -> None:
        with pytest.raises(NoSuchContainerError, match="schedctl ps"):
            getattr(runtime, question)("port-nobody", **({"grace_s": 10} if question == "stop" else {}))


class TestOutput:
    def test_both_streams_are_kept_apart(self, runtime: Runtime, run: Run) -> None:
        name = run("echo one; echo two >&2")
        runtime.wait(name, timeout_s=30)

        assert said(runtime, name, Stream.STDOUT) == "one\n"
        assert said(runtime, name, Stream.STDERR) == "two\n"

    def test_the_last_lines_can_be_had_alone(self, runtime: Runtime, run: Run) -> None:
        name = run("for i in 1 2 3 4 5; do echo $i; done")
        runtime.wait(name, timeout_s=30)

        assert said(runtime, name, tail=2) == "4\n5\n"

    def test_following_goes_on_until_the_end(self, runtime: Runtime, run: Run) -> None:
        name = run(_WRITES_TWICE)
        seen: list[bytes] = []
        follower = threading.Thread(
            target=lambda: seen.extend(one.data for one in runtime.logs(name, follow=True))
        )
        follower.start()
        polling.until(lambda: b"first\n" in seen, "the first line was followed")
        assert follower.is_alive()

        runtime.stop(name, grace_s=30)
        follower.join(30)

        assert not follower.is_alive()
        assert b"".join(seen) == b"first\nlast\n"

    def test_of_endless_output_a_bounded_part_with_its_end_is_kept(self, runtime: Runtime, run: Run) -> None:
        lines = 2 * LOG_LIMIT_BYTES // 100
        name = run(f"yes {'x' * 99} | head -n {lines}; echo the very end")
        runtime.wait(name, timeout_s=120)

        kept = said(runtime, name)

        assert len(kept) <= LOG_LIMIT_BYTES
        assert kept.endswith("the very end\n")

    def test_attached_before_the_start_nothing_is_missed(self, runtime: Runtime, image: ImageContent) -> None:
        name = create(runtime, image, "echo one; echo two >&2; exit 4")

        output = runtime.attach(name)
        runtime.start(name)
        seen = list(output)

        assert b"".join(one.data for one in seen if one.stream is Stream.STDOUT) == b"one\n"
        assert b"".join(one.data for one in seen if one.stream is Stream.STDERR) == b"two\n"
        ended = runtime.wait(name, timeout_s=30)
        assert ended is not None
        assert ended.code == 4
        runtime.remove(name)

    def test_attached_it_reads_what_it_is_given_to_the_end(
        self, runtime: Runtime, image: ImageContent
    ) -> None:
        name = create(runtime, image, "read first; echo got $first; cat; echo over", has_input=True)
        reading, writing = os.pipe()

        output = runtime.attach(name, stdin=reading)
        runtime.start(name)
        os.write(writing, b"one\n")
        seen = next(output).data
        os.write(writing, b"two\nthree")
        os.close(writing)
        seen += b"".join(one.data for one in output)

        assert seen == b"got one\ntwo\nthreeover\n"
        ended = runtime.wait(name, timeout_s=30)
        assert ended is not None
        assert ended.code == 0
        os.close(reading)
        runtime.remove(name)

    def test_a_program_has_no_input_unless_it_was_asked_for(self, runtime: Runtime, run: Run) -> None:
        name = run("cat; echo over")

        assert runtime.wait(name, timeout_s=30) is not None
        assert said(runtime, name) == "over\n"


class TestListing:
    def test_all_of_ours_are_listed_the_oldest_first(self, runtime: Runtime, run: Run) -> None:
        ended, running = run("exit 1"), run(_WAITS_FOR_TERM)
        runtime.wait(ended, timeout_s=30)

        found = runtime.containers()

        assert [one.name for one in found] == [ended, running]
        assert [one.state for one in found] == [ContainerState.EXITED, ContainerState.RUNNING]

    def test_one_of_the_go_schedctl_is_listed_and_stopped_like_ours(
        self, runtime: Runtime, service: Service, image: ImageContent
    ) -> None:
        _run_as_go_schedctl_does(service, image.reference, "go-made", _IGNORES_TERM)

        [found] = runtime.containers()

        assert (found.name, found.state, found.image) == ("go-made", ContainerState.RUNNING, image.reference)
        assert found.pid is not None
        assert str(runtime.stop("go-made", grace_s=0.3)) == "killed by SIGKILL"
        runtime.remove("go-made")
        assert runtime.containers() == ()

    def test_a_list_has_an_answer_while_others_end_and_remove_containers(
        self, runtime: Runtime, run: Run
    ) -> None:
        """One that goes between two questions of a list is no reason to show none of the rest."""
        stays = run("true")
        for _ in range(12):
            name = run(_IGNORES_TERM)
            remover = threading.Thread(target=runtime.remove, args=(name,))
            remover.start()
            while remover.is_alive():
                assert {one.name for one in runtime.containers()} - {name} == {stays}

        assert [one.name for one in runtime.containers()] == [stays]

    def test_those_of_others_are_neither_listed_nor_touched(
        self, podman: PodmanService, busybox: Path
    ) -> None:
        runtime, image = Podman(podman.socket), image_contents.content(busybox)
        runtime.load(image)
        identity = podman.run("create", "--name", "of-others", image.reference).stdout.strip()

        assert runtime.containers() == ()
        for word in ("of-others", identity, identity[:12]):
            runtime.remove(word)
            with pytest.raises(NoSuchContainerError):
                runtime.stop(word, grace_s=10)

        assert podman.inspect("of-others")["Id"] == identity
        podman.run("rm", "of-others")


@pytest.mark.parametrize("service", ["containerd"], indirect=True)
class TestContainerd:
    def test_memory_that_ran_out_is_told_from_a_signal(self, runtime: Runtime, run: Run) -> None:
        greedy = "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"

        ended = runtime.wait(run(greedy, memory_limit_bytes=32 << 20), timeout_s=60)

        assert str(ended) == "killed by the kernel because memory ran out"

    def test_a_name_is_not_believed_to_be_the_digest_in_it(
        self, runtime: Runtime, containerd: ContainerdService, image: ImageContent
    ) -> None:
        wrong = f"registry.rig.test/rig/busybox@sha256:{'1' * 64}"
        containerd.run("images", "tag", image.reference, wrong)

        assert not runtime.has_image(wrong)
        with pytest.raises(ImageMissingError):
            runtime.create(Spec(admission=UNSIGNED, name="port-mistaken", image=wrong))

        containerd.run("images", "remove", wrong)

    def test_the_output_of_an_earlier_container_of_the_name_is_not_its_own(
        self, runtime: Runtime, containerd: ContainerdService, image: ImageContent
    ) -> None:
        spec = Spec(admission=UNSIGNED, name="port-again", image=image.reference, args=("echo", "earlier"))
        runtime.create(spec)
        runtime.start(spec.name)
        runtime.wait(spec.name, timeout_s=30)
        assert said(runtime, spec.name) == "earlier\n"
        containerd.run("tasks", "delete", spec.name)
        containerd.run("containers", "delete", spec.name)  # its output stays

        runtime.create(replace(spec, args=("true",)))

        assert said(runtime, spec.name) == ""
        runtime.remove(spec.name)

    def test_what_has_neither_a_task_nor_a_beginning_is_unknown(
        self, runtime: Runtime, containerd: ContainerdService, image: ImageContent
    ) -> None:
        """As after a restart of the machine one of the Go schedctl, which may have run until then."""
        _run_as_go_schedctl_does(containerd, image.reference, "go-restarted", "exit 0")
        runtime.wait("go-restarted", timeout_s=30)
        containerd.run("tasks", "delete", "go-restarted")

        assert runtime.inspect("go-restarted").state is ContainerState.UNKNOWN

        runtime.remove("go-restarted")

    def test_the_output_of_one_of_the_go_schedctl_was_kept_by_nobody(
        self, runtime: Runtime, containerd: ContainerdService, image: ImageContent
    ) -> None:
        _run_as_go_schedctl_does(containerd, image.reference, "go-silent", "exit 0")

        with pytest.raises(
            LogsMissingError, match="output is kept only for containers that this schedctl started"
        ):
            runtime.logs("go-silent")

        runtime.remove("go-silent")

    def test_the_collector_leaves_a_loaded_image_and_takes_what_was_interrupted(
        self, runtime: Runtime, containerd: ContainerdService, image: ImageContent, tmp_path: Path
    ) -> None:
        whole = _image_of(tmp_path, random.Random(2).randbytes(1 << 20))
        with pytest.raises(BrokenImageError):
            runtime.load(replace(whole, read=lambda layer: [next(iter(whole.read(layer)))]))

        containerd.run("images", "tag", image.reference, "registry.rig.test/rig/passing:v1")
        containerd.run("images", "remove", "--sync", "registry.rig.test/rig/passing:v1")

        name = create(runtime, image, "true")  # all of its layers and its configuration are there
        runtime.remove(name)
        assert containerd.run("content", "active").stdout.splitlines()[1:] == []
        assert containerd.run("leases", "list", "--quiet").stdout == ""
        assert whole.layers[0].digest not in containerd.run("content", "list", "--quiet").stdout


class TestTrouble:
    @pytest.fixture(params=_SERVICES)
    def doomed(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
        """A runtime that a test may spoil."""
        with _SERVICES[request.param](tmp_path) as service:
            yield service

    def test_one_that_is_killed_is_heard_by_who_waits_and_by_who_asks_next(
        self, doomed: Service, busybox: Path, tmp_path: Path
    ) -> None:
        runtime, image = port_to(doomed, tmp_path / "logs"), image_contents.content(busybox)
        runtime.load(image)
        name = create(runtime, image, _WAITS_FOR_TERM)
        runtime.start(name)
        killer = threading.Timer(0.5, lambda: _kill_all(doomed.pids()))

        killer.start()
        with pytest.raises(NotAnsweringError, match="closed the connection") as caught:
            runtime.wait(name, timeout_s=60)

        assert caught.value.acted
        with pytest.raises(NotAnsweringError, match="systemctl"):
            runtime.version()
        # on a busy machine a killed program takes connections for a moment longer
        polling.until(lambda: not _is_listening(doomed.socket), "no program listens")
        with pytest.raises(NotAnsweringError, match="no program listens there"):
            port_to(doomed, tmp_path / "logs").version()

    @pytest.mark.parametrize("kind", _SERVICES)
    def test_a_full_disk_is_named_and_leaves_no_image(self, kind: str, tmp_path: Path) -> None:
        with _SERVICES[kind](_made(tmp_path / "service"), storage_mb=2) as service:
            runtime = port_to(service, tmp_path / "logs")
            image = _image_of(tmp_path, random.Random(3).randbytes(4 << 20))

            with pytest.raises(DiskFullError, match="free disk space"):
                runtime.load(image)

            assert not runtime.has_image(image.reference)


def test_it_says_its_version(runtime: Runtime) -> None:
    assert runtime.version()[0].isdigit()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run_as_go_schedctl_does(service: Service, image: str, name: str, script: str) -> None:
    """With its label or in its namespace, and without anything that we add."""
    words = ["sh", "-c", script]
    if isinstance(service, PodmanService):
        service.run(
            "run", "--detach", "--label=provider=schedkit", "--privileged", "--name", name, image, *words
        )
    else:
        service.run("run", "--detach", "--privileged", image, name, "/usr/bin/busybox", *words)


def _is_run_by_somebody(word: str) -> bool:
    """Whether a process of this machine was started with that argument; one that has ended shows none."""
    return any(word.encode() in _words(file) for file in Path("/proc").glob("[0-9]*/cmdline"))


def _words(command_line: Path) -> list[bytes]:
    with suppress(OSError):
        return command_line.read_bytes().split(b"\0")
    return []


def _kill_all(pids: Iterable[int]) -> None:
    """The oldest first: a daemon that outlives a container by a moment would still tell of its end."""
    began = {pid: int(identity.split()[0]) for pid, identity in processes.identities().items()}
    for pid in sorted(pids, key=lambda pid: began.get(pid, 0)):
        with suppress(ProcessLookupError):  # it went with another
            os.kill(pid, signal.SIGKILL)


def _is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _image_of(folder: Path, program: bytes) -> ImageContent:
    """An image that no other test has loaded."""
    layout = folder / "layout"
    images.write_layout([images.Image("program", program)], layout)
    return image_contents.content(layout, f"registry.rig.test/rig/image-{next(_numbers)}")


def _with_entry_point(image: ImageContent, program: str) -> ImageContent:
    """The same image, said to begin with another program."""
    config = json.loads(image.config.data)
    config["config"]["Entrypoint"] = [program]
    return image_contents.with_config(image, json.dumps(config).encode())
