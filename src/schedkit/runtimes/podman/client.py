"""Podman over its REST API: the libpod endpoints of version 4, which 5 serves as well."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode  # pathlib has imported it already

from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.runtimes.containers import CREATION_LABEL, KILL_TIMEOUT_S, PROVIDER_LABEL, Output
from schedkit.runtimes.errors import (
    ContainerRuntimeError,
    HungUpError,
    ImageMissingError,
    NameTakenError,
    NoSuchContainerError,
    NotAnsweringError,
    RefusedError,
    SilentError,
    TooOldError,
    no_such_container,
    not_started,
    refusal,
    still_there,
)
from schedkit.runtimes.podman import answers
from schedkit.runtimes.podman.request import Request
from schedkit.runtimes.podman.server import Server

if TYPE_CHECKING:
    from schedkit.runtimes.image_content import ImageContent, Meter, Progress
    from schedkit.runtimes.podman.http import Answer
    from schedkit.runtimes.specs import Spec

_API = "/v4.0.0/libpod"
_OLDEST = (4, 0)
_OK = range(200, 300)
_NOT_MODIFIED, _NOT_FOUND = 304, 404
_SWITCHED = 101
_LOAD_TIMEOUT_S = 600  # to unpack the layers, once it has all of them
_SHORTEST_WAIT_S = 0.05  # no time at all would mean: do not even ask
_LONG_POLL, _SHORT_POLL = "250ms", "10ms"  # how often Podman itself looks whether a container has ended
_SHORTEST_PREFIX = 4  # of an id
# before a question that Podman could not answer is put again: it trips over processes that are just ending
_ASK_AGAIN_AFTER_S = (0.05, 0.1, 0.2)
# Podman calls it stopped when its first process is gone, and exited once it has ended the others as well
_ENDED, _TIDIED_UP = "condition=stopped&condition=exited", "condition=exited"

T = TypeVar("T")


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
            raise RefusedError(f"the program at {self._server.path} is not Podman", hint)
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
        from schedkit.runtimes.image_content import Meter  # noqa: PLC0415 - `status` goes without

        meter = Meter(image, progress)
        try:
            names = self._load(image, meter)
        except HungUpError:  # see `Server.ask`; to load an image twice is to have it once
            meter.restart()
            names = self._load(image, meter)
        # an answer without an error is no proof: Podman 4.3 has them for failures as well
        if image.reference not in names or not self.has_image(image.reference):
            raise refusal(
                self.name, f"to load {image.reference}", f"it stored {', '.join(names) or 'nothing'}"
            )

    def _load(self, image: ImageContent, meter: Meter) -> list[str]:
        """The names under which Podman says that it kept the image."""
        from schedkit.runtimes.podman.archive import archive  # noqa: PLC0415 - `status` goes without

        body = archive(image, meter)
        kind = {"Content-Type": "application/x-tar", "Connection": "close"}
        request = Request("POST", f"{_API}/images/load", body, kind, timeout_s=_LOAD_TIMEOUT_S)
        with self._server.ask(request) as answer:
            self._require(answer, f"to load {image.reference}")
            return list(self._said(answer, dict).get("Names") or [])

    def create(self, spec: Spec) -> Container:
        """Prepare everything up to the start of the program; after a failure nothing is left."""
        mark = os.urandom(16).hex()
        try:
            made = self._create(spec, mark)
            self._advance(made, "init", spec.name)
            return self._inspect(made)
        except BaseException:
            # found by its mark: Podman may have made it without being able to tell us its id
            with suppress(ContainerRuntimeError):
                for listed in self._listed((CREATION_LABEL, mark)):
                    self._remove(listed["Id"])
            raise

    def start(self, container: str) -> None:
        """Begin the program, also again after its end; raise `StartError` when it cannot be executed."""
        self._advance(self._id(container), "start", container)

    def containers(self) -> tuple[Container, ...]:
        """All of schedkit's, the oldest first, also those of the Go schedctl and those that have ended."""
        listed = self._listed(PROVIDER_LABEL)
        return tuple(sorted(self._inspected(listed), key=lambda one: str(one.created_at)))

    def inspect(self, container: str) -> Container:
        """What is known about one."""
        return self._inspect(self._id(container))

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        """The last `tail` lines of its output, or all that was kept; `follow` goes on until its end."""
        wanted = {"stdout": "true", "stderr": "true", "follow": str(follow).lower()}
        wanted |= {"tail": str(tail)} if tail is not None else {}
        found = self._id(container)
        with self._about(found, "GET", "logs", wanted, timeout_s=None if follow else 60) as answer:
            self._require(answer, f"to show the output of {container}")
            yield from answers.outputs(answer.pieces())

    def attach(self, container: str, *, stdin: int | None = None) -> Iterator[Output]:
        """What its program writes, as it comes and until its end; see the port about `stdin`."""
        has_input = str(stdin is not None).lower()
        wanted = {"stream": "true", "stdout": "true", "stderr": "true", "stdin": has_input}
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
        answer = self._about(self._id(container), "POST", "attach", wanted, headers=headers, timeout_s=None)
        if answer.status != _SWITCHED:
            with answer:
                self._require(answer, f"to attach to {container}")
        if stdin is not None:
            answer.feed(stdin)
        return _attached(answer)

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        """How it ended, once it has; None if it still runs after that time."""
        return self._wait(self._id(container), timeout_s, poll=_LONG_POLL)

    def stop(self, container: str, *, grace_s: float) -> Exit | None:
        """SIGTERM, and SIGKILL for what still runs after that time; returns when it is gone."""
        found = self._id(container)
        if self._inspect(found).state is ContainerState.CREATED:
            return None
        if self._kill(found, "SIGTERM") and not self._wait(found, grace_s, poll=_SHORT_POLL):
            self._kill(found, "SIGKILL")
        if not self._is_reached(found, _TIDIED_UP, KILL_TIMEOUT_S, poll=_SHORT_POLL):
            raise still_there(self.name, container)
        return self._inspect(found).exit

    def remove(self, container: str) -> None:
        """Delete it with its output, and kill it before if it still runs; it may be gone already."""
        with suppress(NoSuchContainerError):
            self._remove(self._id(container))

    def _id(self, word: str) -> str:
        """The id of the container of schedkit's with that name or id; nobody else's is touched by a word."""
        listed = {str(one["Id"]): one.get("Names") or () for one in self._listed(PROVIDER_LABEL)}
        named = [one for one, names in listed.items() if word in names]
        begun = [one for one in listed if len(word) >= _SHORTEST_PREFIX and one.startswith(word)]
        found = named or begun
        if len(found) != 1:
            raise no_such_container(self.name, word)
        return found[0]

    def _listed(self, label: tuple[str, str]) -> list[dict[str, Any]]:
        """What Podman's list says about the containers with a label, whatever their state."""
        found = _patiently(lambda: self._list(label))
        # not left to the filter alone: what is found is what will be acted upon
        return [one for one in found if (one.get("Labels") or {}).get(label[0]) == label[1]]

    def _list(self, label: tuple[str, str]) -> list[dict[str, Any]]:
        filters = json.dumps({"label": ["=".join(label)]})
        with self._ask("GET", "containers/json", all="true", filters=filters) as answer:
            self._require(answer, "to list containers")
            return self._said(answer, list | None) or []

    def _remove(self, found: str) -> None:
        path = f"containers/{found}"
        with self._ask("DELETE", path, force="true", v="true", timeout="0") as answer:
            _require_container(answer, found)
            self._require(answer, f"to remove {found}", found)

    def _create(self, spec: Spec, mark: str) -> str:
        from schedkit.runtimes.podman.create_body import create_body  # noqa: PLC0415 - `status` goes without

        headers = {"Content-Type": "application/json", "Connection": "close"}
        body = create_body(spec, mark)
        with self._server.ask(Request("POST", f"{_API}/containers/create", body, headers)) as answer:
            if answer.status in _OK:
                with self._understanding():
                    return str(self._said(answer, dict)["Id"])
            said = answers.reason(answer.read())
        if answer.status == _NOT_FOUND or "image not known" in said:
            raise ImageMissingError(f"Podman does not have {spec.image}: {said}", "load it first")
        if "already in use" in said:
            hint = "remove that container, or choose another name"
            raise NameTakenError(f"Podman has another container named {spec.name}", hint)
        raise refusal(self.name, f"to create {spec.name}", said)

    def _advance(self, found: str, step: str, name: str) -> None:
        with self._about(found, "POST", step) as answer:
            if answer.status not in (*_OK, _NOT_MODIFIED):
                raise not_started(self.name, name, answers.reason(answer.read()))

    def _inspect(self, found: str) -> Container:
        said = _patiently(lambda: self._inspection(found))
        with self._understanding():
            return answers.container(said)

    def _inspection(self, found: str) -> dict[str, Any]:
        with self._about(found, "GET", "json") as answer:
            self._require(answer, f"to inspect {found}", found)
            return dict(self._said(answer, dict))

    def _inspected(self, listed: Iterable[dict[str, Any]]) -> Iterator[Container]:
        for one in listed:
            with suppress(NoSuchContainerError):  # it went between the two questions
                yield self._inspect(one["Id"])

    def _wait(self, found: str, timeout_s: float | None, *, poll: str) -> Exit | None:
        if not self._is_reached(found, _ENDED, timeout_s, poll=poll):
            return None
        return self._inspect(found).exit

    def _is_reached(self, found: str, conditions: str, timeout_s: float | None, *, poll: str) -> bool:
        """Whether one of the conditions holds within that time; None: however long it takes."""
        path = f"{_API}/containers/{found}/wait?{conditions}&interval={poll}"
        patience_s = None if timeout_s is None else max(timeout_s, _SHORTEST_WAIT_S)
        try:
            with self._server.ask(Request("POST", path, timeout_s=patience_s)) as answer:
                _require_container(answer, found)
                self._require(answer, f"to wait for {found}", found)
                answer.read()
        except SilentError:
            return False
        return True

    def _kill(self, found: str, signal: str) -> bool:
        """False: it has ended."""
        with self._about(found, "POST", "kill", {"signal": signal}) as answer:
            # versions differ in how they say that there is nothing to kill: look instead
            if answer.status not in _OK and self._inspect(found).state is ContainerState.EXITED:
                return False
            self._require(answer, f"to send {signal} to {found}", found)
        return True

    def _about(
        self,
        found: str,
        method: str,
        what: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = 60,
    ) -> Answer:
        """An answer about a container that exists."""
        path = f"{_API}/containers/{found}/{what}?{urlencode(query or {})}"
        answer = self._server.ask(Request(method, path, headers=headers, timeout_s=timeout_s))
        _require_container(answer, found)
        return answer

    def _ask(self, method: str, path: str, **query: str) -> Answer:
        return self._server.ask(Request(method, f"{_API}/{path}?{urlencode(query)}"))

    def _require(self, answer: Answer, doing: str, found: str | None = None) -> None:
        """Raise Podman's refusal; `found` is the container that it may no longer have."""
        if answer.status in _OK:
            return
        body = answer.read()
        # what goes while Podman looks at it is not its status 404, but an internal error
        if found is not None and answers.is_of_a_missing_container(body):
            raise no_such_container(self.name, found)
        raise refusal(self.name, doing, answers.reason(body))

    def _said(self, answer: Answer, kind: Any) -> Any:  # noqa: ANN401 - JSON
        """The answer, which is of that kind or an error."""
        with self._understanding():
            said = json.loads(answer.read())
            if not isinstance(said, kind):
                raise TypeError(f"it is a {type(said).__name__}")
        return said

    @contextmanager
    def _understanding(self) -> Iterator[None]:
        """Say it in our words when an answer is not what Podman documents."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "check which program owns the socket, and name Podman's socket with --socket"
            problem = f"an answer of Podman cannot be understood: {error!r}"
            raise NotAnsweringError(problem, hint, acted=True) from error


def _patiently(question: Callable[[], T]) -> T:
    """The answer to a question that changes nothing; put again, for a moment, if Podman has none."""
    for pause_s in _ASK_AGAIN_AFTER_S:
        with suppress(RefusedError):
            return question()
        time.sleep(pause_s)
    return question()


def _attached(answer: Answer) -> Iterator[Output]:
    with answer:
        yield from answers.outputs(answer.raw())


def _quoted(name: str) -> str:
    """As one part of a path."""
    return quote(name, safe="")


def _require_container(answer: Answer, container: str) -> None:
    if answer.status == _NOT_FOUND:
        with answer:
            raise no_such_container("Podman", container)
