"""`schedctl` as a user types it, played in this process: an emulated guest takes seconds to start Python."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from click.testing import CliRunner

from rig.base.errors import RigError
from schedkit.schedctl import main


class Ended(NamedTuple):
    """How a call of the command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def answer(self) -> Any:
        """What `-o json` printed."""
        assert self.stdout, f"it ended with {self.code} and printed nothing: {self.stderr}"
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Schedctl:
    """The command with its flags before the verb; `environment` is laid over this process's own."""

    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str) -> Ended:
        """One call; a mistake of its own, which a user would see as a traceback, is raised."""
        done = CliRunner().invoke(main.main, [*self.flags, *words], env=self.environment)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ended(done.exit_code, done.stdout, done.stderr)

    def status(self) -> tuple[int, Any]:
        """The exit code of `status`, and all that it says."""
        ended = self("status", "-o", "json")
        return ended.code, ended.answer

    def as_user(self, uid: int, *words: str) -> Ended:
        """The same by a user who is not root, in a child of this process."""
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            _speak(writing, lambda: self._called_by(uid, *words))
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        told = json.loads(said)
        if isinstance(told, str):
            raise RigError(f"schedctl {' '.join(words)} broke: {told}")
        return Ended(*told)

    def _called_by(self, uid: int, *words: str) -> Ended:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        return self(*words)


def _speak(writing: int, call: Callable[[], Ended]) -> NoReturn:
    """Tell what came of a call, and end: a child of a test must not go on as a second one."""
    try:
        told: Ended | str = call()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent tells it
        told = traceback.format_exc()
    with os.fdopen(writing, "w") as pipe:
        json.dump(told, pipe)
    os._exit(0)
