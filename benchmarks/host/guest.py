"""What is measured beside a kernel with sched_ext: `python -m benchmarks.host.guest ROUNDS`.

Prints the courses as JSON. Contenders take turns.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.host import kernellog
from benchmarks.host.courses import (
    BEGUN,
    ENDED,
    PODMAN,
    SCHEDCTL,
    Attachment,
    Courses,
    Gap,
    attachment,
    gap,
)
from benchmarks.host.kernellog import NotToldError, Record
from rig.base import polling
from rig.base.errors import RigError
from rig.base.progress import say
from rig.guest import schedext, schedulers
from rig.runtimes import image_contents, images
from rig.runtimes.image_contents import UNSIGNED
from rig.runtimes.podman import Podman
from schedkit.runtimes.podman.client import Podman as Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl.main import VERBS

SCHEDULERS = ("fifo", "alias")
_REPOSITORY = "registry.rig.test/rig"
_TIMEOUT_S = 240
T = TypeVar("T")


class Bench:
    """A Podman with two schedulers' images in it, and both contenders."""

    def __init__(self, podman: Podman) -> None:
        self._podman = podman
        self._images = {
            name: image_contents.content(images.scheduler(name), f"{_REPOSITORY}/{name}")
            for name in SCHEDULERS
        }
        self._runtime = Runtime(podman.socket)
        for image in self._images.values():
            self._runtime.load(image)

    def attach(self, who: str) -> Attachment:
        """The first scheduler, from nothing."""
        first = SCHEDULERS[0]
        words = self._podman_run(first) if who == PODMAN else self._schedctl("run", first)
        return self._timed(words, first, lambda log, after: attachment(who, log, after=after))

    def switch(self, who: str) -> Gap:
        """From the first scheduler to the second, which Podman has prepared, as `schedctl` does itself."""
        first, second = SCHEDULERS
        self._start(first)
        if who == PODMAN:
            self._create(second)
            command = shlex.join(self._podman.command(remote=False))
            words = ["sh", "-c", f"{command} stop {first} && {command} start {second}"]
        else:
            words = self._schedctl("switch", second)
        return self._timed(words, second, lambda log, after: gap(who, log, after=after))

    def _create(self, name: str) -> None:
        self._runtime.create(Spec(admission=UNSIGNED, name=name, image=self._images[name].reference))

    def _start(self, name: str) -> None:
        self._create(name)
        self._runtime.start(name)
        _await_attached(name)

    def clear(self) -> None:
        """No container is left, and the kernel runs its own scheduler."""
        self._podman.run("rm", "--all", "--force", "--time=0")
        schedext.await_disabled(timeout_s=_TIMEOUT_S)

    def _podman_run(self, name: str) -> list[str]:
        options = ["--detach", "--name", name, "--privileged", "--pid=host"]
        return [*self._podman.command(remote=False), "run", *options, self._images[name].reference]

    def _schedctl(self, verb: str, name: str) -> list[str]:
        program = [sys.executable, "-m", "benchmarks.host.ours", "--socket", str(self._podman.socket)]
        layout = ["--layout", str(images.scheduler(name))]
        return [
            *program,
            *layout,
            verb,
            self._images[name].reference,
            "--allow-unsigned",
            f"--timeout={_TIMEOUT_S}",
        ]

    def _timed(self, words: Sequence[str], name: str, read: Callable[[Sequence[Record], int], T]) -> T:
        """Run it between two marks, read the kernel's log about it, and clear up."""
        after = kernellog.last_number(kernellog.read())
        marks = [f"echo {shlex.quote(mark)} > /dev/kmsg" for mark in (BEGUN, ENDED)]
        self._do(["sh", "-c", f"{marks[0]} && {shlex.join(words)} && {marks[1]}"], name)
        found = polling.until(lambda: _told(read, after), "the kernel's log tells all of it")
        self.clear()
        return found

    def _do(self, words: Sequence[str], name: str) -> None:
        """Run it, until the kernel has the scheduler of that name."""
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            raise RigError(f"`{shlex.join(words)}` ended with {done.returncode}: {done.stderr}")
        _await_attached(name)


def _await_attached(name: str) -> None:
    ops = schedulers.catalog()[name].ops_name
    polling.until(lambda: schedext.is_attached(ops), f"{name} is attached", timeout_s=_TIMEOUT_S)


def _told(read: Callable[[Sequence[Record], int], T], after: int) -> T | None:
    """None: the kernel has not written it yet, which it does a moment after it says `enabled`."""
    try:
        return read(kernellog.read(), after)
    except NotToldError:
        return None


def take_turns(course: Callable[[str], T], rounds: int) -> list[T]:
    """All rounds of both."""
    found: list[T] = []
    for _ in range(rounds):
        for who in (PODMAN, SCHEDCTL):
            found.append(course(who))
            say(f"{who}: {found[-1]}")
    return found


def main(rounds: int) -> None:
    """Measure, and print."""
    with Podman(Path(tempfile.mkdtemp()), root=Path("/"), isolated=False) as podman:
        bench = Bench(podman)
        take_turns(bench.attach, 1)  # fills caches, and does not count
        attachments = take_turns(bench.attach, rounds)
        gaps = take_turns(bench.switch, rounds) if "switch" in VERBS else []
    print(msgspec.json.encode(Courses(os.uname().release, attachments, gaps)).decode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
