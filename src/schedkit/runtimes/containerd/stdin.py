"""Input for a container of containerd, whose shim gives none where a program of its own keeps the output.

So the shim is told to use FIFOs for all three streams, and the keeper reads from two of them. Whoever is
attached writes to the third.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from schedkit.runtimes.containerd.calls import CallError, Calls
from schedkit.runtimes.errors import ContainerRuntimeError, RefusedError

_STREAMS = ("stdin", "stdout", "stderr")
_PIECE_BYTES = 1 << 16


@contextmanager
def kept(keeper: Path, logs: Path, name: str) -> Iterator[dict[str, Any]]:
    """The streams of a task that the block creates; without a task their keeper ends, whatever ended us."""
    with _refusing(logs / name):
        fifos = _fifos(logs / name)
        creation = _start_keeper(keeper, logs, name, fifos)
    try:
        yield fifos
        with _refusing(logs / name):
            os.write(creation, b"+")  # nobody reads it if the keeper has ended
    finally:
        os.close(creation)


def _start_keeper(keeper: Path, logs: Path, name: str, fifos: dict[str, Any]) -> int:
    """Return when it is ready, with the pipe by which it is told of the task."""
    with ExitStack() as handed_over, ExitStack() as ours:
        outputs = [
            _closed_by(handed_over, os.open(fifos[each], os.O_RDONLY | os.O_NONBLOCK))
            for each in _STREAMS[1:]
        ]
        is_ready, ready = os.pipe()
        created, creation = os.pipe()
        for each, stack in ((is_ready, ours), (creation, ours), (ready, handed_over), (created, handed_over)):
            _closed_by(stack, each)
        _spawn(keeper, logs, name, [*outputs, ready, created])
        handed_over.close()
        os.read(is_ready, 1)  # until the keeper has closed its end
        return os.dup(creation)  # `ours` closes the first one, however this ends


def _closed_by(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _fifos(folder: Path) -> dict[str, Any]:
    paths = {each: str(folder / each) for each in _STREAMS}
    folder.mkdir(mode=0o700, exist_ok=True)
    for path in paths.values():
        os.mkfifo(path, mode=0o600)
    return paths


@contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    """Say it in our words when this machine does not play along."""
    try:
        yield
    except OSError as error:
        hint = (
            f"check whether the folder {folder} can be made and written to, "
            "and whether this machine can still open files and start processes"
        )
        raise RefusedError(f"{folder.name} cannot be given any input: {error}", hint) from error


def _spawn(keeper: Path, logs: Path, name: str, descriptors: list[int]) -> None:
    """In a session of its own: it goes on until the container's end, also when we are killed."""
    for each in descriptors:
        os.set_inheritable(each, True)  # noqa: FBT003 - its only parameter
    argv = [sys.executable, str(keeper), str(logs), *map(str, descriptors)]
    nowhere = [(os.POSIX_SPAWN_OPEN, each, os.devnull, os.O_RDWR, 0) for each in range(3)]
    os.posix_spawn(sys.executable, argv, {"CONTAINER_ID": name}, setsid=True, file_actions=nowhere)


def feed(rpc: Calls, container: str, folder: Path, source: int) -> None:
    """Give the program what is read from that descriptor, and its end; goes on beside the caller."""
    # nobody waits for it: a terminal may never say another word
    threading.Thread(target=_pump, args=(rpc, container, folder / _STREAMS[0], source), daemon=True).start()


def _pump(rpc: Calls, container: str, fifo: Path, source: int) -> None:
    # the program has ended, and what it would have read is nobody's
    with suppress(OSError, CallError, ContainerRuntimeError):
        with fifo.open("wb", buffering=0) as out:
            while piece := os.read(source, _PIECE_BYTES):
                out.write(piece)
        rpc.call("Tasks.CloseIO", container_id=container, stdin=True)  # the shim keeps an end open, too
