"""Changes of a machine in memory, played and written down: who did what when, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from rig.guest.fakekernel import FakeKernel
from rig.runtimes.fakeruntime import FakeRuntime, Program
from rig.runtimes.image_contents import UNSIGNED
from schedkit.model.host.actions import Action, Plan
from schedkit.model.host.containers import Container, ContainerState
from schedkit.model.host.switch_reset_plans import describe
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.change.machine import Machine, NewContainer, Stops

_OLD_ID, _OLD_PID = "ab" * 32, 70
STOPPING_S, ATTACHING_S = 0.25, 0.4  # what a program takes to end, and to attach its scheduler


class Transcript:
    """Everything that happens to a machine on which `scx_fifo` runs."""

    def __init__(self, title: str) -> None:
        self._lines = [title, ""]
        self.kernel = FakeKernel(lambda line: self.note("kernel", line))
        self.runtime = FakeRuntime(
            began=self.kernel.began,
            ended=self.kernel.ended,
            note=lambda line: self.note("podman", line),
        )
        self.program = self.attaching("fifo")
        running = Container(_OLD_ID, "scx_fifo", "podman", ContainerState.RUNNING, _OLD_PID)
        self.old = self.runtime.have(running, self.program)
        self.kernel.began(self.old)
        self.note("before", "container scx_fifo was started")
        self.kernel.attach(_OLD_PID, "fifo")

    def attaching(self, ops: str) -> Program:
        """One that attaches a scheduler of that name a moment after its beginning."""

        def begin(container: Container) -> None:
            self.kernel.after(ATTACHING_S, lambda: self.kernel.attach(container.pid or 0, ops))

        return Program(begins=begin, code_of_term=0)

    def new(self, name: str, program: Program) -> Machine:
        """The machine, with a container that is asked for."""
        self.runtime.programs = lambda _: program
        self.runtime.hooks["stop scx_fifo"] = lambda: self.kernel.sleep(STOPPING_S)
        asked_for = NewContainer("podman", Spec(admission=UNSIGNED, name=name, image="image"))
        return self.machine(asked_for)

    def machine(self, new: NewContainer | None = None) -> Machine:
        """The machine as a change sees it; what goes on beside the change is done before it."""

        def tell(line: str) -> None:
            self.note("schedctl", line)

        return Machine(self.kernel, {"podman": self.runtime}, tell, new=new, stops=Stops(_at_once))

    def write(self, *lines: str) -> None:
        """What stands there without a time."""
        self._lines.extend(lines)

    def write_plan(self, plan: Plan) -> None:
        """All that can happen, as it is told before it does."""
        parts: tuple[tuple[str, Sequence[Action]], ...] = (
            ("it will", plan.steps),
            ("if one of these fails, and the container was created, it will", plan.on_failure),
            ("and if the old one was told to stop by then, it will", plan.way_back),
            ("in the end it will", plan.afterwards),
        )
        for words, steps in parts:
            self.write("", words, *(f"  {line}" for line in describe(steps)))
        self.write("")

    def note(self, who: str, line: str) -> None:
        """Somebody does something now."""
        self._lines.append(f"{self.kernel.clock:7.2f} s  {who:<10}{line}")

    def write_end(self) -> None:
        """What is there when all is over."""
        runs = self.kernel.state().ops or "its own scheduler"
        left = [f"container {each.name} ({each.state.value})" for each in self.runtime.containers()]
        self.write("", f"the kernel runs {runs}; there is {', '.join(left) or 'no container'}")

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


def _at_once(stop: Callable[[], None]) -> Future[None]:
    done: Future[None] = Future()
    stop()
    done.set_result(None)
    return done
