"""What it costs to start a command, in CPU time: the kernel's own account of each process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rig.base.errors import RigError, Unavailable
from rig.runtimes import image_contents, images
from rig.runtimes.containerd import Containerd
from rig.runtimes.image_contents import UNSIGNED
from rig.runtimes.podman import Podman
from schedkit.runtimes.containerd.client import Containerd as ContainerdRuntime
from schedkit.runtimes.podman.client import Podman as PodmanRuntime
from schedkit.runtimes.port import Runtime
from schedkit.runtimes.specs import Spec
from schedkit.schedctl import wiring
from schedkit.schedctl.settings.table import DRIVERS, Settings

INTERPRETER = "python -c pass"
CLICK = "python -c 'import click'"
HELP = "schedctl --help"
STATUS = "schedctl status, no socket"
PODMAN = "schedctl status, Podman"
CONTAINERD = "schedctl status, containerd"
_SCHEDCTL = str(Path(sys.executable).with_name("schedctl"))


@dataclass(frozen=True, slots=True)
class Command:
    """A command line that does its work and ends."""

    name: str
    words: tuple[str, ...]
    exit_code: int = 0


def measure(folder: Path, starts: int) -> dict[str, list[float]]:
    """The CPU seconds of every start of every command, by its name."""
    _require_no_other_runtime()
    with _container(folder / "podman") as podman, _container(folder / "containerd") as containerd:
        return take_turns(_commands(podman, containerd), starts)


def _require_no_other_runtime() -> None:
    """`status` would ask it as well."""
    for driver in DRIVERS:
        socket = wiring.socket_of(Settings(), driver)
        if socket.exists():
            remedy = "stop it for the length of the benchmark"
            raise Unavailable(
                "schedctl without a container runtime", f"something listens at {socket}", remedy
            )


def _commands(podman: Path, containerd: Path) -> tuple[Command, ...]:
    """Nothing is wrong with what they find: to tell what is takes longer, and happens rarely."""
    python, nowhere = sys.executable, str(podman.with_name("none.sock"))
    return (
        Command(INTERPRETER, (python, "-c", "pass")),
        Command(CLICK, (python, "-c", "import click")),
        Command(HELP, (_SCHEDCTL, "--help")),
        Command(STATUS, (_SCHEDCTL, "--socket", nowhere, "status")),
        Command(PODMAN, (_SCHEDCTL, "--socket", str(podman), "status")),
        Command(
            CONTAINERD,
            (_SCHEDCTL, "--driver", "containerd", "--socket", str(containerd), "status"),
        ),
    )


@contextmanager
def _container(folder: Path) -> Iterator[Path]:
    """The socket of a runtime in which one container of ours is prepared."""
    folder.mkdir()
    service: Podman | Containerd
    service = Podman(folder) if folder.name == "podman" else Containerd(folder)
    with service:
        is_podman = isinstance(service, Podman)
        runtime: Runtime = (
            PodmanRuntime(service.socket)
            if is_podman
            else ContainerdRuntime(service.socket, logs=folder / "logs")
        )
        image = image_contents.content(images.pause(), "registry.rig.test/rig/pause")
        runtime.load(image)
        runtime.create(Spec(admission=UNSIGNED, name="pause", image=image.reference))
        try:
            yield service.socket
        finally:
            runtime.remove("pause")


def take_turns(commands: Sequence[Command], starts: int) -> dict[str, list[float]]:
    """Run all of them in turns, so that whatever else the machine does meets all of them alike.

    The first turn does not count: it writes bytecode, as it was written on a user's machine long ago.
    """
    turns = [[cpu_s(command, _environment()) for command in commands] for _ in range(starts + 1)]
    columns = zip(*turns[1:], strict=True)
    return {command.name: list(column) for command, column in zip(commands, columns, strict=True)}


def _environment() -> Mapping[str, str]:
    """None of the variables that change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SCHEDCTL_"))}


def cpu_s(command: Command, environment: Mapping[str, str]) -> float:
    """Seconds of CPU of one run, in its own code and in the kernel."""
    silence = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in (0, 1, 2)]
    pid = os.posix_spawn(command.words[0], command.words, environment, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != command.exit_code:
        raise RigError(f"`{' '.join(command.words)}` ended with {code} instead of {command.exit_code}")
    return usage.ru_utime + usage.ru_stime
