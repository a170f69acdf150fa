"""Podman's adapter against a small libpod: whom it acts upon, and what it believes."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.containers import ContainerState
from schedkit.runtimes.errors import NoSuchContainerError, NotAnsweringError, RefusedError
from schedkit.runtimes.podman.client import Podman
from schedkit.runtimes.specs import Spec

OURS = {"provider": "schedkit"}
RUSTY, POSTGRES = "5e1f" * 16, "c0de" * 16


class Libpod:
    """Containers by their id, and every request about one; `spoiled` answers are no JSON.

    `failures` are internal errors with which it answers as many inspections. Unless it `is_filtering`, it
    lists all containers, whatever it was asked for.
    """

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, str]] = []  # method, the word in the path, what was asked
        self.spoiled: set[str] = set()
        self.failures: list[dict[str, Any]] = []
        self.is_filtering = True

    def add(self, identity: str, name: str, labels: dict[str, str], status: str = "running") -> None:
        self.containers[identity] = {"name": name, "labels": labels, "status": status}

    def listed(self, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        wanted = dict(label.split("=", 1) for label in filters["label"])
        return [
            {"Id": identity, "Names": [one["name"]], "Labels": one["labels"]}
            for identity, one in self.containers.items()
            if not self.is_filtering or wanted.items() <= one["labels"].items()
        ]

    def found(self, word: str) -> str | None:
        """As Podman does it: by name or by the beginning of an id, whosever it is."""
        by_name = [each for each, one in self.containers.items() if one["name"] == word]
        return next(iter(by_name or [each for each in self.containers if each.startswith(word)]), None)

    def inspected(self, identity: str) -> dict[str, Any]:
        one, zero = self.containers[identity], "0001-01-01T00:00:00Z"
        return {
            "Id": identity,
            "Name": one["name"],
            "ImageName": "registry.rig.test/rig/one",
            "Image": "",
            "Config": {"Labels": one["labels"]},
            "Created": zero,
            "State": {
                "Status": one["status"],
                "StartedAt": zero,
                "FinishedAt": zero,
                "Pid": 0,
                "ExitCode": 0,
                "OOMKilled": False,
            },
        }

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, object]:
        parts, query = urlsplit(target), parse_qs(urlsplit(target).query)
        _, _, word, what = (*map(unquote, parts.path.removeprefix("/v4.0.0/").split("/")), "", "")[:4]
        if word == "json":
            return 200, self.listed(json.loads(query["filters"][0]))
        if word == "create":
            wanted = json.loads(body)
            self.add("fee1" * 16, wanted["name"], wanted["labels"], "created")
            return 201, {"Id": "fee1" * 16}
        return self._about(method, word, what)

    def _about(self, method: str, word: str, what: str) -> tuple[int, object]:
        self.asked.append((method, word, what))
        identity = self.found(word)
        if identity is None:
            return 404, {"message": "no such container"}
        if method == "DELETE":
            del self.containers[identity]
        elif what == "json":
            return (500, self.failures.pop(0)) if self.failures else (200, self.inspected(identity))
        elif what == "kill":
            self.containers[identity]["status"] = "exited"
        return 200, {}


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the libpod of its server."""

    protocol_version = "HTTP/1.1"
    server: LibpodServer

    def _reply(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, said = self.server.libpod.answer(self.command, self.path, body)
        is_spoiled = any(word in self.path for word in self.server.libpod.spoiled)
        content = b"<html>" if is_spoiled else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = _reply  # noqa: N815 - names of the standard library

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LibpodServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A libpod behind a socket."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.libpod = Libpod()
        super().__init__(str(path), Handler)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LibpodServer]:
    with LibpodServer(tmp_path / "socket") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture
def libpod(server: LibpodServer) -> Libpod:
    """One container of ours, and a database of somebody else's."""
    server.libpod.add(RUSTY, "scx_rusty", OURS)
    server.libpod.add(POSTGRES, "postgres", {"app": "shop"})
    return server.libpod


@pytest.fixture
def podman(libpod: Libpod, tmp_path: Path) -> Podman:
    assert libpod.containers
    return Podman(tmp_path / "socket")


@pytest.mark.parametrize("word", ["postgres", POSTGRES, POSTGRES[:12]])
@pytest.mark.parametrize("question", ["inspect", "start", "stop", "wait", "attach"])
def test_somebody_elses_container_is_none_of_ours_by_whatever_word(
    podman: Podman, libpod: Libpod, question: str, word: str
) -> None:
    with pytest.raises(NoSuchContainerError, match="schedctl ps"):
        getattr(podman, question)(word, **({"grace_s": 10} if question == "stop" else {}))

    assert libpod.asked == []


@pytest.mark.parametrize("word", ["postgres", POSTGRES, POSTGRES[:12]])
def test_somebody_elses_container_is_not_removed(podman: Podman, libpod: Libpod, word: str) -> None:
    podman.remove(word)

    assert POSTGRES in libpod.containers
    assert libpod.asked == []


def test_a_list_that_was_not_filtered_makes_nobodys_container_ours(podman: Podman, libpod: Libpod) -> None:
    libpod.is_filtering = False

    podman.remove("postgres")

    assert [each.name for each in podman.containers()] == ["scx_rusty"]
    assert POSTGRES in libpod.containers


def test_somebody_elses_output_is_not_shown(podman: Podman) -> None:
    with pytest.raises(NoSuchContainerError):
        list(podman.logs("postgres"))


@pytest.mark.parametrize("word", ["scx_rusty", RUSTY, RUSTY[:4]])
def test_ours_is_acted_upon_by_its_whole_id_alone(podman: Podman, libpod: Libpod, word: str) -> None:
    podman.stop(word, grace_s=10)
    podman.remove(word)

    assert {asked for _, asked, _ in libpod.asked} == {RUSTY}
    assert list(libpod.containers) == [POSTGRES]


def test_a_name_of_ours_that_begins_anothers_id_is_ours(podman: Podman, libpod: Libpod) -> None:
    libpod.add("ab12" * 16, POSTGRES[:8], OURS)

    assert podman.inspect(POSTGRES[:8]).id == "ab12" * 16


def test_the_beginning_of_two_ids_names_neither(podman: Podman, libpod: Libpod) -> None:
    libpod.add("5e1f" * 15 + "0000", "scx_lavd", OURS)

    with pytest.raises(NoSuchContainerError):
        podman.stop("5e1f", grace_s=10)

    assert libpod.asked == []


@pytest.mark.parametrize(
    "spoiled", ["/containers/create", f"/{'fee1' * 16}/json"], ids=["its id", "how it is"]
)
def test_a_creation_whose_answer_is_lost_leaves_nothing(podman: Podman, libpod: Libpod, spoiled: str) -> None:
    libpod.spoiled = {spoiled}
    before = set(libpod.containers)

    with pytest.raises(NotAnsweringError, match="cannot be understood"):
        podman.create(Spec(admission=UNSIGNED, name="scx_new", image="registry.rig.test/rig/one@sha256:0"))

    assert set(libpod.containers) == before


def test_marks_of_ours_are_not_shown_and_cannot_be_taken(podman: Podman, libpod: Libpod) -> None:
    spec = Spec(
        admission=UNSIGNED, name="scx_new", image="one", labels={"provider": "other", "org.schedkit.x": "1"}
    )

    made = podman.create(spec)

    assert (made.state, dict(made.labels)) == (ContainerState.CREATED, OURS | {"org.schedkit.x": "1"})
    assert len(libpod.containers) == 3


# as Podman 4.3 words them
GONE = {
    "cause": "no such container",
    "message": f"container {RUSTY} does not exist in database: no such container",
}
ENDING = {"cause": "no such process", "message": "read /proc/583/cgroup: no such process"}


def test_one_that_goes_while_podman_looks_at_it_is_not_listed(podman: Podman, libpod: Libpod) -> None:
    libpod.add("ab12" * 16, "scx_lavd", OURS)
    libpod.failures = [GONE]

    assert [one.name for one in podman.containers()] == ["scx_lavd"]


def test_one_whose_process_ends_while_podman_looks_at_it_is_looked_at_again(
    podman: Podman, libpod: Libpod
) -> None:
    libpod.failures = [ENDING]

    assert [one.name for one in podman.containers()] == ["scx_rusty"]


def test_a_failure_that_stays_is_told_in_podmans_words(podman: Podman, libpod: Libpod) -> None:
    libpod.failures = [ENDING] * 100

    with pytest.raises(RefusedError, match="read /proc/583/cgroup: no such process"):
        podman.containers()


@pytest.mark.parametrize("question", ["/containers/json", f"/{RUSTY}/json"], ids=["a list", "an inspection"])
def test_an_answer_that_is_none_of_podmans_is_an_error_of_ours(
    podman: Podman, libpod: Libpod, question: str
) -> None:
    libpod.spoiled = {question}

    with pytest.raises(NotAnsweringError, match="cannot be understood"):
        podman.inspect("scx_rusty")
