"""The administrator's rules in a mounted folder, read again whenever somebody changes them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import structlog

from schedkit.model.images import brief
from schedkit.model.trust import InvalidPolicy
from schedkit.model.trustrules import Rules, TrustMode, built_in_rules, parse_rules
from schedkit.sked import confinement
from schedkit.sked.confinement import BrokenOffError, Limits
from schedkit.sked.verifierprotocol import Reading

RULES_FILE = "trust.yaml"
_LOOK_S = 3.0
_MOST_FILES = 256
_READER: Final = (sys.executable, "-m", "schedkit.sked.rulereader")
LIMITS: Final = Limits(time_s=65, memory=48 << 20, output=8 << 20)

Identity: TypeAlias = tuple[tuple[str, int, int, int], ...]
Reader: TypeAlias = Callable[[Path], Awaitable[Reading]]

_log = structlog.get_logger()


async def read_apart(file: Path) -> Reading:
    """What a process of its own reads; `BrokenOffError` if it does not get to its end."""
    data = await confinement.run((*_READER, str(file)), b"", LIMITS, confinement.environment(os.environ))
    try:
        return msgspec.json.decode(data, type=Reading)
    except msgspec.DecodeError as error:
        raise BrokenOffError(f"its answer is not one: {error}") from error


class RuleFolder:
    """The rules of now: those in the folder, those before they became unreadable, or the built-in ones."""

    def __init__(
        self,
        folder: Path | None,
        floor: TrustMode,
        read: Reader = read_apart,
        *,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._folder, self._floor, self._read_file = folder, floor, read
        # whoever holds it has the one process that there is memory for
        self._turn = turn or asyncio.Lock()
        # None: never readable so far, so that nobody knows them
        self.rules: Rules | None = None if folder else built_in_rules(floor)
        # empty: they can be read, or there are none
        self.complaint = "they have not been read yet" if folder else ""
        self._seen: Identity | None = None
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Have it called whenever the rules are others."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Look every few seconds; until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Take the files as they are now, if they are others than before."""
        seen = self._identity()
        if seen == self._seen:
            return
        self._seen = seen
        before = (self.rules, self.complaint)
        await self._read()
        if (self.rules, self.complaint) != before:
            for listener in self._listeners:
                listener()

    async def _read(self) -> None:
        before = self.rules
        try:
            self.rules = await self._found() or built_in_rules(self._floor)
        except InvalidPolicy as error:
            self.complaint = str(error)
            _log.error("trust_rules_unreadable", reason=self.complaint, earlier=self.rules is not None)
            return
        self.complaint = ""
        tell = _log.warning if before is not None and before.is_stricter_than(self.rules) else _log.info
        tell("trust_rules_read", mode=str(self.rules.mode), folder=str(self._folder))

    async def _found(self) -> Rules | None:
        """The rules in the folder; None: nobody wrote any."""
        if self._folder is None:
            return None
        if _is_there(self._folder / RULES_FILE):
            return await self._parsed(self._folder / RULES_FILE)
        _refuse_others(self._folder)
        return None

    async def _parsed(self, file: Path) -> Rules:
        try:
            async with self._turn:
                reading = await self._read_file(file)
        except BrokenOffError as error:
            self._seen = None  # the next look is another try
            raise InvalidPolicy(f"the process that reads {file} broke off: {error}") from error
        if reading.complaint:
            raise InvalidPolicy(reading.complaint)
        if reading.document is None:
            raise InvalidPolicy(f"{file} says nothing: write a mode, {{}} for none, or remove the file")
        return parse_rules(reading.document, reading.files.__getitem__, self._floor)

    def _identity(self) -> Identity:
        """Changes with every file: Kubernetes swaps the folder behind them all, people edit one."""
        try:
            files = sorted(self._folder.iterdir())[:_MOST_FILES] if self._folder else []
        except OSError:
            return ()
        return tuple(map(_identity_of, files))


def _refuse_others(folder: Path) -> None:
    """Files without the one that counts are a slip in its name, which must not turn enforcement off."""
    try:
        # what begins so is how a kubelet swaps them
        others = sorted(file.name for file in folder.iterdir() if not file.name.startswith(".."))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise InvalidPolicy(f"{folder} cannot be read: {error.strerror}") from error
    if others:
        raise InvalidPolicy(f"{folder} has no {RULES_FILE}, only {brief(', '.join(others))}")


def _is_there(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidPolicy(f"{file} cannot be read: {error.strerror}") from error
    return True


def _identity_of(file: Path) -> tuple[str, int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return file.name, 0, 0, 0
    return file.name, found.st_ino, found.st_mtime_ns, found.st_size
