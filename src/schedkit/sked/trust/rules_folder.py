"""The administrator's rules in a mounted folder, read again whenever somebody changes them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import structlog

from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.rules import (
    PLACES,
    Rules,
    TrustMode,
    built_in_rules,
    missing_mode_remark,
    unused_settings_remark,
)
from schedkit.model.trust.rules_in_force import (
    GONE_S,
    RulesInForce,
    Unreadable,
    after_a_look,
    file_that_counts,
    written_rules,
)
from schedkit.oci.policy.patterns import Re2Pattern
from schedkit.sked.trust import confined
from schedkit.sked.trust.confined import BrokenOffError, Limits
from schedkit.sked.trust.messages import Reading

_LOOK_S = 3.0
_MOST_FILES = 256
_READER: Final = (sys.executable, "-m", "schedkit.sked.trust.rules_process")
LIMITS: Final = Limits(time_s=65, memory=48 << 20, output=8 << 20)

Identity: TypeAlias = tuple[tuple[str, int, int, int], ...]
Reader: TypeAlias = Callable[[Path], Awaitable[Reading]]

_log = structlog.get_logger()


async def read_apart(file: Path) -> Reading:
    """What a process of its own reads; `BrokenOffError` if it does not get to its end."""
    data = await confined.run((*_READER, str(file)), b"", LIMITS, confined.environment(os.environ))
    try:
        return msgspec.json.decode(data, type=Reading)
    except msgspec.DecodeError as error:
        raise BrokenOffError(f"its answer cannot be understood: {error}") from error


class RuleFolder:
    """The rules of now: those in the folder, those before they became unreadable, or the built-in ones."""

    def __init__(
        self,
        folder: Path | None,
        floor: TrustMode,
        read: Reader = read_apart,
        *,
        default: TrustMode = TrustMode.OFF,
        turn: asyncio.Lock | None = None,
        gone_s: float = GONE_S,
    ) -> None:
        self._folder, self._floor, self._read_file = folder, floor, read
        self._built_in, self._gone_s = built_in_rules(floor, Re2Pattern, default), gone_s
        # whoever holds it has the one process that there is memory for
        self._turn = turn or asyncio.Lock()
        unread = RulesInForce(None, "the rules have not been read yet")
        self.in_force = unread if folder else RulesInForce(self._built_in)
        self._seen: Identity | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def rules(self) -> Rules | None:
        """Those that count; None: nobody knows them."""
        return self.in_force.rules

    @property
    def complaint(self) -> str:
        """Why those that should count cannot be read; empty: they can, or there are none."""
        return self.in_force.complaint

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
        found, before = await self._found(), self.in_force
        now = time.monotonic()
        self.in_force = after_a_look(before, found, self._built_in, now=now, gone_s=self._gone_s)
        if self.in_force.gone_since is not None:
            self._seen = None  # the next look is another try, though nothing changes
        self._tell(found, before)

    def _tell(self, found: Rules | Unreadable | None, before: RulesInForce) -> None:
        now = self.in_force
        if isinstance(found, Unreadable):
            self._complain("trust_rules_unreadable")
        elif now.gone_since is None:
            self._log_rules(now.rules or self._built_in, before.rules)
        elif before.gone_since is None:
            self._complain("trust_rules_gone")
        if (now.rules, now.complaint) != (before.rules, before.complaint):
            for listener in self._listeners:
                listener()

    def _complain(self, event: str) -> None:
        _log.error(event, reason=self.complaint, earlier=self.rules is not None)

    def _log_rules(self, rules: Rules, before: Rules | None) -> None:
        tell = _log.warning if before is not None and rules.is_looser_than(before) else _log.info
        tell(
            "trust_rules_read",
            mode=str(rules.mode),
            folder=str(self._folder),
            place=rules.place or "built in",
        )
        if remark := unused_settings_remark(rules):
            _log.warning("trust_rules_unused_setting", reason=remark)
        if remark := missing_mode_remark(rules, self._built_in):
            _log.warning("trust_rules_without_mode", reason=remark)

    async def _found(self) -> Rules | Unreadable | None:
        """What is in the folder; None: nobody wrote any rules."""
        if self._folder is None:
            return None
        try:
            name = file_that_counts(_names_in(self._folder), str(self._folder))
            return await self._parsed(self._folder / name) if name else None
        except InvalidPolicy as error:
            return Unreadable(str(error))

    async def _parsed(self, file: Path) -> Rules:
        try:
            async with self._turn:
                reading = await self._read_file(file)
        except BrokenOffError as error:
            self._seen = None  # the next look is another try
            raise InvalidPolicy(f"the process that reads {file} failed: {error}") from error
        place = PLACES[file.name]
        if reading.complaint:
            raise InvalidPolicy(f"{place}: {reading.complaint}")
        # whoever read it knows that its expressions are accepted, and another process will match them
        return written_rules(reading.document, reading.files.__getitem__, self._floor, Re2Pattern, place)

    def _identity(self) -> Identity:
        """Changes with every file: Kubernetes swaps the folder behind them all, people edit one."""
        try:
            files = sorted(self._folder.iterdir())[:_MOST_FILES] if self._folder else []
        except OSError:
            return ()
        return tuple(map(_identity_of, files))


def _names_in(folder: Path) -> Collection[str]:
    """Of the files that can count, or of all if none of these is there."""
    names = [name for name in PLACES if _is_there(folder / name)]
    if names:
        return names
    try:
        return [file.name for file in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise InvalidPolicy(f"{folder} cannot be read: {error.strerror}") from error


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
