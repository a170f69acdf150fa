"""What plans of `model.lifecycle` do to this machine: one case for each action."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from schedkit.kernel import kmsg, observation, ownership
from schedkit.model.exits import LogReading, last_words
from schedkit.model.host import HostObservation, OurContainer, attribute
from schedkit.model.lifecycle import (
    Action,
    AwaitAttachment,
    AwaitRelease,
    Course,
    Create,
    Discard,
    Evidence,
    Known,
    Listen,
    Refused,
    Start,
    Stop,
    explain_failure,
    is_released,
    judge_start,
    left_in_kernel,
)
from schedkit.runtimes.containers import Output
from schedkit.runtimes.errors import ContainerRuntimeError
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.errors import Problem

GRACE_S = 10.0
_RELEASE_TIMEOUT_S = 30.0
_POLL_S = 0.05
_LAST_LINES = 5


@dataclass(slots=True)
class Stage:
    """Where a plan is played: this machine, the container that is asked for, and what came of it."""

    root: Path
    runtimes: Mapping[str, Runtime]
    driver: str
    tell: Callable[[str], None]
    spec: Spec | None = None
    timeout_s: float = 30.0
    grace_s: float = GRACE_S
    outputs: Iterable[Output] = ()
    attached: HostObservation | None = None
    log_seq: int = field(default=-1)  # of the kernel's log before anything was done

    def play(self, plan: Iterable[Action]) -> None:
        """Do all of it; after a failure the container that was asked for is gone again."""
        self.log_seq = kmsg.read(self.root).last_seq
        is_created = False
        try:
            for action in plan:
                self.perform(action)
                is_created = is_created or isinstance(action, Create)
        except BaseException:
            if is_created:
                self.clear()
            raise

    def perform(self, action: Action) -> None:
        """Do one thing."""
        match action:
            case Discard(container):
                self.runtimes[container.driver].remove(container.id)
            case Create():
                self._runtime.create(self._spec)
            case Listen():
                self.outputs = self._runtime.attach(self._spec.name)
            case Start():
                self.tell(f"starting {self._spec.name}")
                self._runtime.start(self._spec.name)
            case AwaitAttachment():
                self.tell("waiting for the kernel")
                self._await_attachment()
            case Stop(container):
                self.tell(f"stopping {container.name}")
                self.runtimes[container.driver].stop(container.id, grace_s=self.grace_s)
            case AwaitRelease(container):
                self._await_release(container)

    def clear(self) -> None:
        """Remove what was created; the failure that led here is told, not what comes on top."""
        with suppress(ContainerRuntimeError):
            self._runtime.stop(self._spec.name, grace_s=self.grace_s)
        with suppress(ContainerRuntimeError):
            self._runtime.remove(self._spec.name)

    @property
    def _runtime(self) -> Runtime:
        return self.runtimes[self.driver]

    @property
    def _spec(self) -> Spec:
        if self.spec is None:
            raise TypeError("the plan creates a container, and none was asked for")
        return self.spec

    def _await_attachment(self) -> None:
        found = self._runtime.inspect(self._spec.name)
        container = OurContainer(found.id, found.name, found.pid or 0)
        deadline = time.monotonic() + self.timeout_s
        course, seen = self._look(container, deadline)
        while course is Course.WAITING:
            time.sleep(_POLL_S)
            course, seen = self._look(container, deadline)
        if course is not Course.ATTACHED:
            raise problem(self._failure(course, seen))
        self.attached = seen

    def _look(self, container: OurContainer, deadline: float) -> tuple[Course, HostObservation]:
        # in this order: what lives now may have attached something by the time the kernel is asked
        is_alive = container.pid > 0 and (self.root / "proc" / str(container.pid)).exists()
        seen = observation.observe(self.root)
        is_over = time.monotonic() >= deadline
        return judge_start(seen, container, is_alive=is_alive, is_over=is_over), seen

    def _failure(self, course: Course, seen: HostObservation) -> Refused:
        name = self._spec.name
        ended = self._runtime.wait(name, timeout_s=5) if course is Course.ENDED else None
        log = kmsg.read(self.root, after_seq=self.log_seq)
        evidence = Evidence(
            str(ended or ""), _kernel_words(log), self._last_words(), attribute(seen.proof, [])
        )
        return explain_failure(name, course, evidence, timeout_s=self.timeout_s)

    def _last_words(self) -> str:
        try:
            outputs = self._runtime.logs(self._spec.name, tail=_LAST_LINES)
            return joined(outputs)
        except ContainerRuntimeError:
            return ""

    def _await_release(self, container: Known) -> None:
        deadline = time.monotonic() + _RELEASE_TIMEOUT_S
        while True:
            seen = observation.observe(self.root)
            if is_released(seen, ownership.gather(self.root).processes, container.ours):
                break
            if time.monotonic() > deadline:
                raise Problem(
                    f"{container.name} was stopped, but the kernel has not let go of its scheduler",
                    why=f"it says `{seen.kernel.state}`",
                    remedy="`schedctl status` says who holds it",
                )
            time.sleep(_POLL_S)
        if remains := left_in_kernel(seen):
            raise problem(remains)


def problem(refused: Refused) -> Problem:
    """A refusal, as users are told problems."""
    return Problem(refused.what, why=refused.why, remedy=refused.remedy)


def joined(outputs: Iterator[Output]) -> str:
    """What a program wrote, on one line."""
    text = b"".join(output.data for output in outputs).decode(errors="replace")
    return " / ".join(line.strip() for line in text.splitlines() if line.strip())


def _kernel_words(log: LogReading) -> str:
    return last_words(log) or " / ".join(remark.text for remark in log.remarks)
