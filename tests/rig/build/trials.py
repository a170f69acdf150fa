"""Attempts with a scheduler's image inside a guest: each leaves it less, and tells what became of it.

What the kernel runs, who holds it and how it ended is read by the product's own code, as `schedctl` reads it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import socket
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rig.base import processes
from rig.base.progress import say
from rig.build.measurements import Attempt, Circumstances, Confinement, NotMeasured, Trial, measure
from schedkit.kernel import kmsg, sysfs
from schedkit.kernel.observation import observe
from schedkit.model.host.processes import Process
from schedkit.model.kernel.log import last_words
from schedkit.model.kernel.sched_ext import KernelState, State

_ROOT = Path("/")
_STATS_BELOW_RUN = "run/scx/root/stats"
_QUESTION = b'{"req":"stats","args":{"target":"top"}}\n'
_ANSWER_WITHIN_S = 10
_END_WITHIN_S = 120  # a second or three on a quiet machine
_POLL_S = 0.05
_ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TELLING = re.compile(r"^Error: |\bEXIT: ")
_LINES_OF_AN_ERROR = 4

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How long an attempt may take."""

    attach_s: float = 300
    settle_s: float = (
        15  # for a scheduler that dies just after it was attached, as one that cannot write does
    )


@dataclass(frozen=True)
class Unpacked:
    """An image as a folder, and how its program starts."""

    root: Path
    program: tuple[str, ...]
    environment: tuple[str, ...]


def unpack(layout: Path, folder: Path) -> Unpacked:
    """The layout's only image."""
    (top,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    manifest = _blob(layout, top)
    for layer in manifest["layers"]:
        with tarfile.open(_file(layout, layer)) as archive:
            archive.extractall(folder, filter="tar")
    run = _blob(layout, manifest["config"])["config"]
    return Unpacked(folder, (*run["Entrypoint"], *run.get("Cmd", ())), tuple(run.get("Env", ())))


def _blob(layout: Path, descriptor: dict[str, Any]) -> Any:
    return json.loads(_file(layout, descriptor).read_bytes())


def _file(layout: Path, descriptor: dict[str, Any]) -> Path:
    return layout / "blobs" / str(descriptor["digest"]).replace(":", "/")


class Attempts:
    """Starts the image's program with what a confinement leaves it; the kernel runs nothing afterwards."""

    def __init__(self, image: Unpacked, logs: Path, limits: Limits | None = None) -> None:
        self._image = image
        self._logs = logs
        self._limits = limits or Limits()
        self._numbers = itertools.count()

    def __call__(self, confinement: Confinement) -> Trial:
        log = self._logs / f"attempt-{next(self._numbers)}.log"
        started = log.with_suffix(".started")
        seen, before = kmsg.read(_ROOT).last_seq, sysfs.read(_ROOT).enable_seq
        process = processes.Process(
            self._words(confinement, started), log=log, tree=not confinement.host_pids, env=_ENVIRONMENT
        )
        with processes.running(process):
            trial = self._follow(process, started)
        _await_free()
        told = kmsg.read(_ROOT, after_seq=seen)
        was_attached = sysfs.read(_ROOT).enable_seq != before
        ops = trial.ops or (told.exits[-1].ops if was_attached and told.exits else "")  # some die unseen
        reason = last_words(told, ops).removeprefix(f"{ops}: ")
        words = words_of(log.read_text(errors="replace"))
        done = replace(trial, ops=ops, words=words, reason=reason)
        say(f"with {confinement}: {_outcome(done)}")
        return done

    def _words(self, confinement: Confinement, started: Path) -> list[str]:
        kept = confinement.capabilities
        flags = [f"--started={started}", *(f"--env={pair}" for pair in self._image.environment)]
        flags += [] if kept is None else [f"--capabilities={','.join(kept)}"]
        flags += [] if confinement.boot_config else ["--no-boot"]
        flags += [] if confinement.writable_run else ["--read-only-run"]
        become = [
            sys.executable,
            "-m",
            "rig.build.confined",
            *flags,
            str(self._image.root),
            *self._image.program,
        ]
        return ["unshare", "--mount", "--propagation", "private", *become]

    def _follow(self, process: processes.Process, started: Path) -> Trial:
        """Until it is attached and has settled, or has given up; then tell it to end."""
        attached = _await(_attached, process, self._limits.attach_s)
        if attached is None:
            return _ended(process, Trial())
        took_s = time.monotonic() - float(started.read_text())  # one clock for all processes
        holder = observe(_ROOT).proof.process
        is_ours = holder is not None and holder.pid in processes.descendants(process.pid)
        answer = _await(lambda: _stats(holder), process, self._limits.settle_s)
        return _ended(
            process,
            Trial(
                ops=attached.ops or "",
                attach_s=took_s,
                is_held=is_ours and _attached() is not None,
                stats_socket=answer or "",
            ),
        )


class Remembered:
    """Attempts of which a file keeps the outcome: a measurement that was cut short goes on where it was."""

    def __init__(self, attempt: Attempt, file: Path) -> None:
        self._attempt = attempt
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self._known: dict[Confinement, Trial] = dict(
            msgspec.json.decode(line, type=tuple[Confinement, Trial]) for line in lines
        )

    def __call__(self, confinement: Confinement) -> Trial:
        if (known := self._known.get(confinement)) is not None:
            say(f"with {confinement}, of an earlier run: {_outcome(known)}")
            return known
        trial = self._attempt(confinement)
        # tried again: what came to no end, and what fails with everything, which says nothing about needs
        if trial.works or (trial.failed and confinement != Confinement()):
            with self._file.open("a") as out:
                out.write(msgspec.json.encode((confinement, trial)).decode() + "\n")
        return trial


def _attached() -> KernelState | None:
    """What the kernel says while it runs a scheduler."""
    kernel = sysfs.read(_ROOT)
    return kernel if kernel.state is State.ENABLED else None


def _await(look: Callable[[], T | None], process: processes.Process, timeout_s: float) -> T | None:
    """What is seen at last; None: the process ended before, or there was no more time."""
    deadline = time.monotonic() + timeout_s
    while process.exit_code() is None and time.monotonic() < deadline:
        if (seen := look()) is not None:
            return seen
        time.sleep(_POLL_S)
    return None


def _ended(process: processes.Process, trial: Trial) -> Trial:
    """The trial with its end: by itself, or when it was told to."""
    if (code := process.exit_code()) is not None:
        return replace(trial, ended_by_itself=True, exit_code=code)
    process.send(signal.SIGTERM)
    code = process.wait(_END_WITHIN_S)
    return replace(trial, exit_code=-signal.SIGKILL if code is None else code)


def _await_free() -> None:
    """No scheduler may start while an old one is on its way out."""
    deadline = time.monotonic() + _END_WITHIN_S
    while sysfs.read(_ROOT).state is not State.DISABLED:
        if time.monotonic() > deadline:
            raise NotMeasured("the kernel still runs a scheduler although its process has ended")
        time.sleep(_POLL_S)


def _stats(holder: Process | None) -> str | None:
    """Where the process answers as scx_stats does, in its own root; None: it does not, or not yet."""
    with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_ANSWER_WITHIN_S)
        client.connect(f"/proc/{holder.pid if holder else 0}/root/{_STATS_BELOW_RUN}")
        client.sendall(_QUESTION)
        return f"/var/{_STATS_BELOW_RUN}" if json.loads(client.makefile().readline())["errno"] == 0 else None
    return None


def words_of(log: str) -> str:
    """What a scheduler said last: its exit, its error with the cause, and without any the last line."""
    lines = [line for each in log.splitlines() if (line := _COLOUR.sub("", each).strip())]
    telling = [place for place, line in enumerate(lines) if _TELLING.search(line)]
    last = lines[telling[-1] :] if telling else lines[-1:]
    told = last[:_LINES_OF_AN_ERROR] if last and last[0].startswith("Error") else last[:1]
    return "".join(letter for letter in " ".join(told) if letter.isprintable())


def _outcome(trial: Trial) -> str:
    if trial.works:
        return f"works as {trial.ops}, attached after {trial.attach_s:.1f} s; {trial.words}"
    return f"{'ended with ' + str(trial.exit_code) if trial.failed else 'not in time'}; {trial.words}"


def main() -> int:
    """Measure the image of a layout; the findings go to stdout as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layout", type=Path)
    parser.add_argument("--attempts", type=Path, required=True, help="what was tried, now and before")
    for name in ("version", "machine", "kernel", "date"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    about = Circumstances(options.version, options.kernel, options.machine, options.date)
    with tempfile.TemporaryDirectory() as scratch:
        image = unpack(options.layout, Path(scratch) / "root")
        try:
            findings = measure(Remembered(Attempts(image, Path(scratch)), options.attempts), about)
        except NotMeasured as error:
            print(error, file=sys.stderr)
            return 1
    print(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
