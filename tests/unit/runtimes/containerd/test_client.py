"""containerd's adapter against a small containerd: what it believes, and what it leaves behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.containers import ContainerState
from schedkit.runtimes.containerd.calls import CallError
from schedkit.runtimes.containerd.client import Containerd
from schedkit.runtimes.containerd.rpc import Rpc
from schedkit.runtimes.errors import (
    BrokenImageError,
    ImageMissingError,
    NameTakenError,
    NotAnsweringError,
    RefusedError,
    SilentError,
)
from schedkit.runtimes.specs import Spec

DIGEST, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
IMAGE = f"registry.rig.test/rig/one@{DIGEST}"
SILENCE = SilentError("containerd said nothing", "ask again", acted=True)
CONTENT = {
    DIGEST: {"config": {"digest": "sha256:c"}},
    "sha256:c": {"rootfs": {"diff_ids": ["sha256:d"]}, "config": {"Entrypoint": ["/one"]}},
    OTHER: {"manifests": []},
}


class Daemon:
    """Records, tasks and images; what is in `failing` is done, and then answered with that error."""

    def __init__(self) -> None:
        self.images = {IMAGE: DIGEST}
        self.records: dict[str, SimpleNamespace] = {}
        self.statuses: dict[str, int] = {}  # of tasks
        self.failing: dict[str, Exception] = {}
        self.asked: list[str] = []

    def message(self, kind: str, /, **fields: object) -> Any:  # noqa: ANN401 - as in the port
        return SimpleNamespace(kind=kind, **fields)

    def call(self, method: str, /, *, lease: str = "", timeout_s: float | None = None, **fields: Any) -> Any:  # noqa: ANN401, ARG002 - as in the port
        self.asked.append(method)
        answer = getattr(self, f"_{method.replace('.', '_').lower()}", lambda **_: SimpleNamespace(mounts=[]))
        result = answer(**fields)
        if method in self.failing:
            raise self.failing[method]
        return result

    def later(self, method: str, /, **_: object) -> Callable[[], bool]:
        raise CallError("UNIMPLEMENTED", method)

    def read(self, method: str, /, **fields: object) -> Iterator[Any]:
        self.asked.append(method)
        yield SimpleNamespace(data=json.dumps(CONTENT[str(fields["digest"])]).encode())

    def converse(self, method: str, /, requests: Iterable[Any], *, lease: str) -> None:
        raise CallError("UNIMPLEMENTED", f"{method} {requests} {lease}")

    def _images_get(self, name: str) -> SimpleNamespace:
        digest = _known(self.images, name)
        return SimpleNamespace(image=SimpleNamespace(target=SimpleNamespace(digest=digest)))

    def _containers_create(self, container: dict[str, Any]) -> None:
        if container["id"] in self.records:
            raise CallError("ALREADY_EXISTS", "there is one")
        zero = SimpleNamespace(seconds=0, nanos=0)
        self.records[container["id"]] = SimpleNamespace(created_at=zero, **container)

    def _containers_get(self, id: str) -> SimpleNamespace:  # noqa: A002 - containerd's name for it
        return SimpleNamespace(container=_known(self.records, id))

    def _containers_delete(self, id: str) -> None:  # noqa: A002 - as above
        del self.records[id]

    def _tasks_create(self, container_id: str, **_: object) -> None:
        self.statuses[container_id] = 1

    def _tasks_get(self, container_id: str) -> SimpleNamespace:
        status, zero = _known(self.statuses, container_id), SimpleNamespace(seconds=0, nanos=0)
        return SimpleNamespace(process=SimpleNamespace(status=status, pid=7, exit_status=0, exited_at=zero))

    def _tasks_kill(self, container_id: str, **_: object) -> None:
        self.statuses[container_id] = 3

    def _tasks_delete(self, container_id: str) -> None:
        del self.statuses[container_id]


def _known(kept: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever is kept
    if name not in kept:
        raise CallError("NOT_FOUND", name)
    return kept[name]


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def runtime(daemon: Daemon, tmp_path: Path) -> Containerd:
    runtime = Containerd(tmp_path / "socket", logs=tmp_path / "logs")
    vars(runtime)["_rpc"] = daemon  # in place of a connection
    return runtime


SPEC = Spec(admission=UNSIGNED, name="scx_one", image=IMAGE)


def test_what_is_created_is_prepared_and_carries_no_mark_that_is_shown(
    runtime: Containerd, daemon: Daemon
) -> None:
    made = runtime.create(SPEC)

    assert (made.state, dict(made.labels)) == (ContainerState.CREATED, {"provider": "schedkit"})
    assert len(daemon.records["scx_one"].labels) == 2


@pytest.mark.parametrize(
    "step", ["Containers.Create", "Snapshots.Prepare", "Tasks.Create", "Snapshots.Mounts"]
)
def test_a_creation_whose_answer_is_lost_leaves_nothing(
    runtime: Containerd, daemon: Daemon, step: str
) -> None:
    daemon.failing[step] = SILENCE

    with pytest.raises(SilentError):
        runtime.create(SPEC)

    assert (daemon.records, daemon.statuses) == ({}, {})


def test_a_creation_that_fails_leaves_the_container_that_has_its_name(
    runtime: Containerd, daemon: Daemon
) -> None:
    runtime.create(SPEC)

    with pytest.raises(NameTakenError):
        runtime.create(SPEC)

    assert (list(daemon.records), daemon.statuses) == (["scx_one"], {"scx_one": 1})


def test_an_image_is_what_its_digest_says_and_not_its_name(runtime: Containerd, daemon: Daemon) -> None:
    assert runtime.has_image(IMAGE)
    daemon.images[IMAGE] = OTHER

    assert not runtime.has_image(IMAGE)
    with pytest.raises(ImageMissingError):
        runtime.create(SPEC)


def test_an_index_is_told_from_an_image(runtime: Containerd, daemon: Daemon) -> None:
    index = f"registry.rig.test/rig/two@{OTHER}"
    daemon.images[index] = OTHER

    with pytest.raises(BrokenImageError, match="not an image for one platform"):
        runtime.create(Spec(admission=UNSIGNED, name="scx_two", image=index))


@pytest.mark.parametrize("trouble", [SILENCE, CallError("UNAVAILABLE", "busy")])
def test_a_program_that_has_begun_has_begun_also_if_nobody_can_write_it_down(
    runtime: Containerd, daemon: Daemon, trouble: Exception
) -> None:
    runtime.create(SPEC)
    daemon.failing["Containers.Update"] = trouble

    runtime.start("scx_one")

    assert "Tasks.Start" in daemon.asked


def test_without_a_task_and_a_beginning_nobody_knows_what_it_did(runtime: Containerd, daemon: Daemon) -> None:
    runtime.create(SPEC)
    daemon.statuses.clear()

    assert runtime.inspect("scx_one").state is ContainerState.UNKNOWN


@pytest.mark.parametrize("status", [0, 9], ids=["unknown", "of a later containerd"])
def test_what_may_run_is_stopped(runtime: Containerd, daemon: Daemon, status: int) -> None:
    runtime.create(SPEC)
    daemon.statuses["scx_one"] = status

    runtime.stop("scx_one", grace_s=10)

    assert "Tasks.Kill" in daemon.asked


def test_output_of_an_earlier_container_is_gone_before_the_next_begins(
    runtime: Containerd, tmp_path: Path
) -> None:
    (tmp_path / "logs/scx_one").mkdir(parents=True)
    (tmp_path / "logs/scx_one/log").write_text("earlier\n")

    runtime.create(SPEC)

    assert not (tmp_path / "logs/scx_one").exists()


def test_a_place_for_output_that_cannot_be_made_is_an_error_of_ours(
    runtime: Containerd, daemon: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("in the way")

    with pytest.raises(RefusedError, match="cannot be kept"):
        runtime.create(SPEC)

    assert daemon.records == {}


class Mute:
    """A server of gRPC that takes what is written, and ends every conversation or says nothing in it."""

    def __init__(self, socket: Path, *, hangs: bool) -> None:
        self.over = threading.Event()
        self.hangs = hangs
        self.server = grpc.server(ThreadPoolExecutor(2))
        handler: Any = grpc.stream_stream_rpc_method_handler(self.answer)
        service = grpc.method_handlers_generic_handler(
            "containerd.services.content.v1.Content", {"Write": handler}
        )
        self.server.add_generic_rpc_handlers((service,))
        self.server.add_insecure_port(f"unix://{socket}")
        self.server.start()

    def answer(self, _: object, __: object) -> Iterator[bytes]:
        if self.hangs:
            self.over.wait(20)
        return iter(())

    def stop(self) -> None:
        self.over.set()
        self.server.stop(0).wait(10)


@pytest.mark.parametrize("hangs", [True, False], ids=["says nothing", "ends it"])
def test_a_conversation_that_containerd_leaves_is_given_up(tmp_path: Path, hangs: bool) -> None:
    server = Mute(tmp_path / "socket", hangs=hangs)
    rpc = Rpc(tmp_path / "socket", "test", write_timeout_s=0.3)
    expected = SilentError if hangs else NotAnsweringError

    with pytest.raises(expected) as caught:
        rpc.converse("Content.Write", [rpc.message("WriteContent", ref="one")], lease="")

    assert caught.type is expected
    server.stop()
