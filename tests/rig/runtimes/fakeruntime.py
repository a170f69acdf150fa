"""A container runtime in memory: the port's promises, as far as they can be kept without a machine.

`tests/contract/test_runtime_port.py` holds it to the same promises as Podman and containerd. What it cannot
keep is listed there, with the reason.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from schedkit.model.host.containers import Container, ContainerState, Exit
from schedkit.runtimes.containers import Output, Stream
from schedkit.runtimes.errors import ImageMissingError, NameTakenError, no_such_container
from schedkit.runtimes.image_content import ImageContent, Meter, Progress, whole_layer
from schedkit.runtimes.specs import Spec

_KILLED, _TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def _nothing(container: Container) -> None:
    """Nothing else happens."""


@dataclass(frozen=True)
class Program:
    """What a container's program does once it is started; what it writes it writes line by line, at once."""

    writes: tuple[str, ...] = ()
    complains: tuple[str, ...] = ()  # the same, on stderr
    code: int | None = None  # that it ends with, at once; None: it goes on until it is told to end
    code_of_term: int | None = _TERMINATED  # that it ends with after SIGTERM; None: it does not listen
    farewell: tuple[str, ...] = ()  # what it writes before that
    begins: Callable[[Container], None] = _nothing  # what else it does, such as to attach a scheduler


@dataclass
class _Record:
    container: Container
    program: Program
    output: list[Output] = field(default_factory=list)

    def write(self, stream: Stream, lines: tuple[str, ...]) -> None:
        self.output.extend(Output(stream, f"{line}\n".encode()) for line in lines)


class FakeRuntime:
    """Has the containers that it was told to create, and others that are put there with `have`."""

    name = "Podman"

    def __init__(
        self,
        programs: Callable[[Spec], Program] = lambda _: Program(),
        *,
        driver: str = "podman",
        has_every_image: bool = True,
        is_patient: bool = False,
        began: Callable[[Container], None] = _nothing,
        ended: Callable[[Container], None] = _nothing,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.asked: list[str] = []  # all that changes something, by the container's name
        self.failing: dict[str, BaseException] = {}  # by what is asked: "start fifo", or "start" of any
        self.silences: dict[str, int] = {}  # how often that fails; as often as it is asked, if it is not here
        self.interrupted: dict[str, signal.Signals] = {}  # what comes while that is done
        self.hooks: dict[str, Callable[[], object]] = {}  # what happens while that is done
        self.programs, self._driver = programs, driver
        self._began, self._ended, self._note = began, ended, note
        self._is_patient = is_patient  # False: beside a clock that stands still nothing is worth waiting for
        self._images: set[str] | None = None if has_every_image else set()
        self._records: dict[str, _Record] = {}
        self._changed = threading.Condition(threading.RLock())
        self._ticks, self._pids, self._ids = itertools.count(), itertools.count(100), itertools.count(1)

    def have(
        self, container: Container, program: Program | None = None, *, wrote: tuple[str, ...] = ()
    ) -> Container:
        """Put a container there, as if it had been created before."""
        self._records[container.id] = record = _Record(container, program or Program())
        record.write(Stream.STDERR, wrote)
        return container

    def lose(self, word: str) -> None:
        """Somebody else removes a container."""
        del self._records[self._record(word).container.id]

    def end(self, word: str, code: int) -> None:
        """Its program ends by itself."""
        with self._changed:
            self._finish(self._record(word), code)

    def version(self) -> str:
        self._ask("version")
        return "5.0.0"

    def has_image(self, reference: str) -> bool:
        return self._images is None or reference in self._images

    def load(self, image: ImageContent, progress: Callable[[Progress], None] | None = None) -> None:
        meter = Meter(image, progress)
        for layer in image.layers:
            for _ in meter.count(whole_layer(image, layer)):
                pass
        if self._images is not None:
            self._images.add(image.reference)

    def create(self, spec: Spec) -> Container:
        self._ask("create", spec.name, is_change=True)
        if not self.has_image(spec.image):
            raise ImageMissingError(f"{self.name} does not have {spec.image}", "load it first")
        with self._changed:
            if any(each.container.name == spec.name for each in self._records.values()):
                hint = "remove that container, or choose another name"
                raise NameTakenError(f"{self.name} has another container named {spec.name}", hint)
            made = Container(
                f"{next(self._ids):064x}",
                spec.name,
                self._driver,
                ContainerState.CREATED,
                image=spec.image,
                image_id="an image",
                labels=dict(spec.labels),
                created_at=self._now(),
            )
            return self.have(made, self.programs(spec))

    def start(self, container: str) -> None:
        record = self._asked("start", container, is_change=True)
        with self._changed:
            pid, began = next(self._pids), self._now()
            record.container = record.container._replace(
                state=ContainerState.RUNNING, pid=pid, started_at=began, exit=None
            )
            self._began(record.container)
            record.write(Stream.STDOUT, record.program.writes)
            record.write(Stream.STDERR, record.program.complains)
            record.program.begins(record.container)
            if record.program.code is not None:
                self._finish(record, record.program.code)
            self._changed.notify_all()

    def containers(self) -> tuple[Container, ...]:
        self._ask("containers")
        with self._changed:
            found = [each.container for each in self._records.values()]
        return tuple(sorted(found, key=lambda one: str(one.created_at)))

    def inspect(self, container: str) -> Container:
        return self._asked("inspect", container).container

    def logs(self, container: str, *, tail: int | None = None, follow: bool = False) -> Iterator[Output]:
        record = self._asked("follow" if follow else "logs", container, is_change=follow)
        first = 0 if tail is None else max(len(record.output) - tail, 0)
        return self._followed(record, first) if follow else iter(record.output[first:])

    def attach(self, container: str, *, stdin: int | None = None) -> Iterator[Output]:  # noqa: ARG002 - it reads nothing
        record = self._asked("attach", container)
        return self._followed(record, len(record.output))

    def wait(self, container: str, *, timeout_s: float | None = None) -> Exit | None:
        record = self._asked("wait", container)
        with self._changed:
            patience_s = timeout_s if self._is_patient else 0
            self._changed.wait_for(lambda: record.container.exit is not None, patience_s)
        return record.container.exit

    def stop(self, container: str, *, grace_s: float) -> Exit | None:  # noqa: ARG002 - who does not listen is killed at once
        record = self._asked("stop", container, is_change=True)
        with self._changed:
            if not record.container.is_running:
                return record.container.exit
            code = record.program.code_of_term
            record.write(Stream.STDOUT, record.program.farewell)
            self._finish(record, _KILLED if code is None else code)
            return record.container.exit

    def remove(self, container: str) -> None:
        self._ask("remove", self._name(container), is_change=True)
        with self._changed:
            record = self._found(container)
            if record is None:
                return
            if record.container.is_running:
                self._finish(record, _KILLED)
            del self._records[record.container.id]

    def _followed(self, record: _Record, first: int) -> Iterator[Output]:
        while self._has_more(record, first):
            yield record.output[first]
            first += 1

    def _has_more(self, record: _Record, known: int) -> bool:
        """Whether it writes more than that, sooner or later."""
        with self._changed:
            self._changed.wait_for(lambda: len(record.output) > known or record.container.exit is not None)
            return len(record.output) > known

    def _finish(self, record: _Record, code: int) -> None:
        running, ended = record.container, Exit(code, self._now())
        record.container = running._replace(state=ContainerState.EXITED, pid=None, exit=ended)
        self._ended(running)
        self._changed.notify_all()

    def _asked(self, question: str, word: str, *, is_change: bool = False) -> _Record:
        self._ask(question, self._name(word), is_change=is_change)
        return self._record(word)

    def _ask(self, question: str, name: str = "", *, is_change: bool = False) -> None:
        call = f"{question} {name}".strip()
        if is_change:
            self.asked.append(call)
            self._note(call)
        if hook := self.hooks.get(call):
            hook()
        if call in self.interrupted:
            signal.raise_signal(self.interrupted[call])
        for each in (call, question):
            if each in self.failing and self.silences.get(each, 1):
                self.silences[each] = self.silences.get(each, 0) - 1
                raise self.failing[each]

    def _name(self, word: str) -> str:
        record = self._found(word)
        return record.container.name if record else word

    def _record(self, word: str) -> _Record:
        record = self._found(word)
        if record is None:
            raise no_such_container(self.name, word)
        return record

    def _found(self, word: str) -> _Record | None:
        return next((each for each in self._records.values() if word in each.container[:2]), None)

    def _now(self) -> datetime:
        return _BEGINNING + timedelta(seconds=next(self._ticks))


def by_script(scripts: Mapping[str, Program]) -> Callable[[Spec], Program]:
    """The programs that stand for shell scripts, which a fake does not run."""
    return lambda spec: scripts[spec.args[-1]] if spec.args else Program()
