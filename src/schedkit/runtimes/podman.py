"""Podman over its REST API: the libpod endpoints of version 4, which 5 serves as well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode  # pathlib has imported it already

from schedkit.runtimes import podmanjson
from schedkit.runtimes.containers import PROVIDER_LABEL, Container, Exit, Output, State, Stopped
from schedkit.runtimes.errors import (
    ContainerRuntimeError,
    ImageMissingError,
    NameTakenError,
    NoSuchContainerError,
    RefusedError,
    SilentError,
    TooOldError,
    no_such_container,
    not_started,
    refusal,
)
from schedkit.runtimes.unixhttp import Answer, Request, Server

if TYPE_CHECKING:
    from schedkit.runtimes.contents import ImageContent, Progress
    from schedkit.runtimes.specs import Spec

_API = "/v4.0.0/libpod"
_OLDEST = (4, 0)
_OK = range(200, 300)
_NOT_MODIFIED, _NOT_FOUND = 304, 404
_SWITCHED = 101
_LOAD_TIMEOUT_S = 600  # to unpack the layers, once it has all of them
_SHORTEST_WAIT_S = 0.05  # no time at all would mean: do not even ask
_LONG_POLL, _SHORT_POLL = "250ms", "10ms"  # how often Podman itself looks whether a container has ended


class Podman:
    """The Podman service that listens at a socket."""

    name = "Podman"

    def __init__(self, socket: Path) -> None:
        self._server = Server(socket)

    def version(self) -> str:
        """Its version, from the runtime itself: it answers, and is new enough."""
        with self._server.ask(Request("GET", "/libpod/_ping")) as answer:
            version = answer.headers.get("libpod-api-version", "")
        if not version:
            hint = "name the socket of Podman with --socket"
            raise RefusedError(f"what answers at {self._server.path} is not Podman", hint)
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
            raise TooOldError(f"Podman {version} is too old", "update it to 4.0 or newer")
        return version

    def has_image(self, reference: str) -> bool:
        """Whether the image can be run without loading it."""
        with self._ask("GET", f"images/{_quoted(reference)}/exists") as answer:
            if answer.status == _NOT_FOUND:
                return False
            self._require(answer, f"to look for {reference}")
        return True

    def load(self, image: ImageContent, progress: Callable[[Progress], None] | None = None) -> None:
        """Keep exactly these bytes under the image's reference; see the port."""
        from schedkit.runtimes.archives import archive  # noqa: PLC0415 - `status` goes without
        from schedkit.runtimes.contents import Meter, parts_of  # noqa: PLC0415 - as above

        parts = parts_of(image)
        body = archive(image, parts, Meter(parts, progress))
        kind = {"Content-Type": "application/x-tar", "Connection": "close"}
        request = Request("POST", f"{_API}/images/load", body, kind, timeout_s=_LOAD_TIMEOUT_S)
        with self._server.ask(request) as answer:
            self._require(answer, f"to load {image.reference}")
            names = json.loads(answer.read()).get("Names") or []
        # an answer without an error is no proof: Podman 4.3 has them for failures as well
        if image.reference not in names or not self.has_image(image.reference):
            raise refusal(self.name, f"to load {image.reference}", f"it kept {', '.join(names) or 'nothing'}")

    def create(self, spec: Spec) -> Container:
        """Prepare everything up to the start of the program; after a failure nothing is left."""
        container = self._create(spec)
        try:
            self._advance(container, "init", spec.name)
            return self.inspect(container)
        except BaseException:
            with suppress(ContainerRuntimeError):
                self.remove(container)
            raise

    def start(self, container: str) -> None:
        """Begin the program; raise `StartError` when it cannot be executed."""
        self._advance(container, "start", container)

    def containers(self) -> tuple[Container, ...]:
        """All of schedkit's, the oldest first, also those of the Go schedctl and those that have ended."""
        filters = json.dumps({"label": ["=".join(PROVIDER_LABEL)]})
        with self._ask("GET", "containers/json", all="true", filters=filters) as answer:
            self._require(answer, "to list containers")
            listed = json.loads(answer.read()) or []
        return tuple(sorted(self._inspected(listed), key=lambda one: str(one.created_at)))

    def inspect(self, container: str) -> Container:
        """What is known about one."""
        return podmanjson.container(self._inspect(container))

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        """The last `tail` lines of its output, or all that was kept; `follow` goes on until its end."""
        wanted = {"stdout": "true", "stderr": "true", "follow": str(follow).lower()}
        wanted |= {"tail": str(tail)} if tail is not None else {}
        with self._about(container, "GET", "logs", wanted, timeout_s=None if follow else 60) as answer:
            self._require(answer, f"to show the output of {container}")
            yield from podmanjson.outputs(answer.pieces())

    def attach(self, container: str) -> Iterator[Output]:
        """What its program writes, as it comes and until its end; asked before its start, none is missed."""
        wanted = {"stream": "true", "stdout": "true", "stderr": "true", "stdin": "false"}
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        answer = self._about(container, "POST", "attach", wanted, headers=headers, timeout_s=None)
        if answer.status != _SWITCHED:
            with answer:
                self._require(answer, f"to attach to {container}")
        return _attached(answer)

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        """How it ended, once it has; None if it still runs after that time."""
        return self._wait(container, timeout_s, poll=_LONG_POLL)

    def stop(self, container: str, *, grace_s: float = 10) -> Stopped:
        """SIGTERM, and SIGKILL for what still runs after that time; returns when it is gone."""
        if not self._kill(container, "SIGTERM"):
            return Stopped(self.inspect(container).exit, forced=False)
        if ended := self._wait(container, grace_s, poll=_SHORT_POLL):
            return Stopped(ended, forced=False)
        forced = self._kill(container, "SIGKILL")
        return Stopped(self._wait(container, None, poll=_SHORT_POLL), forced=forced)

    def remove(self, container: str) -> None:
        """Delete it with its output, and kill it before if it still runs; it may be gone already."""
        path = f"containers/{_quoted(container)}"
        with self._ask("DELETE", path, force="true", v="true", timeout="0") as answer:
            if answer.status != _NOT_FOUND:
                self._require(answer, f"to remove {container}")

    def _create(self, spec: Spec) -> str:
        from schedkit.runtimes.podmanspec import create_body  # noqa: PLC0415 - `status` goes without

        headers = {"Content-Type": "application/json", "Connection": "close"}
        body = create_body(spec)
        with self._server.ask(Request("POST", f"{_API}/containers/create", body, headers)) as answer:
            if answer.status in _OK:
                return str(json.loads(answer.read())["Id"])
            said = podmanjson.reason(answer.read())
        if answer.status == _NOT_FOUND or "image not known" in said:
            raise ImageMissingError(f"Podman does not have {spec.image}: {said}", "load it first")
        if "already in use" in said:
            hint = "remove that one, or choose another name"
            raise NameTakenError(f"Podman has another container named {spec.name}", hint)
        raise refusal(self.name, f"to create {spec.name}", said)

    def _advance(self, container: str, step: str, name: str) -> None:
        with self._about(container, "POST", step) as answer:
            if answer.status not in (*_OK, _NOT_MODIFIED):
                raise not_started(self.name, name, podmanjson.reason(answer.read()))

    def _inspect(self, container: str) -> dict[str, Any]:
        with self._about(container, "GET", "json") as answer:
            self._require(answer, f"to inspect {container}")
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def _inspected(self, listed: Iterable[dict[str, Any]]) -> Iterator[Container]:
        for one in listed:
            with suppress(NoSuchContainerError):  # it went between the two questions
                yield self.inspect(one["Id"])

    def _wait(self, container: str, timeout_s: float | None, *, poll: str) -> Exit | None:
        # two conditions: Podman calls it stopped when the process is gone, and exited once it has tidied up
        query = f"condition=stopped&condition=exited&interval={poll}"
        path = f"{_API}/containers/{_quoted(container)}/wait?{query}"
        with suppress(SilentError):
            patience_s = None if timeout_s is None else max(timeout_s, _SHORTEST_WAIT_S)
            with self._server.ask(Request("POST", path, timeout_s=patience_s)) as answer:
                _require_container(answer, container)
                self._require(answer, f"to wait for {container}")
                answer.read()
            return self.inspect(container).exit
        return None

    def _kill(self, container: str, signal: str) -> bool:
        """False: it does not run."""
        with self._about(container, "POST", "kill", {"signal": signal}) as answer:
            # versions differ in how they say that there is nothing to kill: look instead
            if answer.status not in _OK and self.inspect(container).state is not State.RUNNING:
                return False
            self._require(answer, f"to send {signal} to {container}")
        return True

    def _about(
        self,
        container: str,
        method: str,
        what: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = 60,
    ) -> Answer:
        """An answer about a container that exists."""
        path = f"{_API}/containers/{_quoted(container)}/{what}?{urlencode(query or {})}"
        answer = self._server.ask(Request(method, path, headers=headers, timeout_s=timeout_s))
        _require_container(answer, container)
        return answer

    def _ask(self, method: str, path: str, **query: str) -> Answer:
        return self._server.ask(Request(method, f"{_API}/{path}?{urlencode(query)}"))

    def _require(self, answer: Answer, doing: str) -> None:
        if answer.status not in _OK:
            raise refusal(self.name, doing, podmanjson.reason(answer.read()))


def _attached(answer: Answer) -> Iterator[Output]:
    with answer:
        yield from podmanjson.outputs(answer.raw())


def _quoted(name: str) -> str:
    """As one part of a path."""
    return quote(name, safe="")


def _require_container(answer: Answer, container: str) -> None:
    if answer.status == _NOT_FOUND:
        with answer:
            raise no_such_container("Podman", container)
