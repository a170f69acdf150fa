"""The administrator's rules in a mounted folder, read again whenever somebody changes them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
import structlog

from schedkit.model.images.references import brief
from schedkit.model.trust.policy import InvalidPolicy
from schedkit.model.trust.rules import (
    OLD_RULES_FILE,
    PLACES,
    RULES_FILE,
    Rules,
    TrustMode,
    built_in_rules,
    missing_mode_remark,
    parse_rules,
    unused_settings_remark,
)
from schedkit.sked.trust import confined
from schedkit.sked.trust.confined import BrokenOffError, Limits
from schedkit.sked.trust.messages import Reading

_LOOK_S = 3.0
# what is renamed or replaced is gone for a moment, and a kubelet may take 90 s to bring the next
GONE_S: Final = 120.0
_MOST_FILES = 256
_READER: Final = (sys.executable, "-m", "schedkit.sked.trust.rules_process")
LIMITS: Final = Limits(time_s=65, memory=48 << 20, output=8 << 20)

_BOTH: Final = (
    f"{PLACES[RULES_FILE]} and {PLACES[OLD_RULES_FILE]} are both there, and only one can count: put all that "
    f"shall count into {RULES_FILE}, then delete {OLD_RULES_FILE}, with its ConfigMap"
)

Identity: TypeAlias = tuple[tuple[str, int, int, int], ...]
Reader: TypeAlias = Callable[[Path], Awaitable[Reading]]

_log = structlog.get_logger()


async def read_apart(file: Path) -> Reading:
    """What a process of its own reads; `BrokenOffError` if it does not get to its end."""
    data = await confined.run((*_READER, str(file)), b"", LIMITS, confined.environment(os.environ))
    try:
        return msgspec.json.decode(data, type=Reading)
    except msgspec.DecodeError as error:
        raise BrokenOffError(f"its answer is not one: {error}") from error


class RuleFolder:
    """The rules of now: those in the folder, those before they became unreadable, or the built-in ones.

    Rules that are gone count for `gone_s` more; then whoever took them away meant it, and the default counts.
    """

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
        self._built_in, self._gone_s = built_in_rules(floor, default), gone_s
        # whoever holds it has the one process that there is memory for
        self._turn = turn or asyncio.Lock()
        # None: never readable so far, so that nobody knows them
        self.rules: Rules | None = None if folder else self._built_in
        # empty: they can be read, or there are none
        self.complaint = "they have not been read yet" if folder else ""
        self._seen: Identity | None = None
        # on the monotonic clock; None: they are there, or never were
        self._gone_since: float | None = None
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
        try:
            found = await self._found()
        except InvalidPolicy as error:
            self._gone_since = None
            self._complain("trust_rules_unreadable", str(error))
            return
        if found is None and self.rules is not None and self.rules.place:
            self._miss(self.rules.place)
            if not self._is_given_up():
                self._seen = None  # the next look is another try, though nothing changes
                return
        self._take(found or self._built_in)

    def _complain(self, event: str, reason: str) -> None:
        self.complaint = reason
        _log.error(event, reason=reason, earlier=self.rules is not None)

    def _take(self, rules: Rules) -> None:
        before, self.rules = self.rules, rules
        self.complaint, self._gone_since = "", None
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

    def _miss(self, place: str) -> None:
        """Say once that rules which counted until now are gone."""
        if self._gone_since is None:
            self._gone_since = time.monotonic()
            words = f"{place} is gone, and counts for {self._gone_s:.0f} s from when it went"
            self._complain("trust_rules_gone", f"{words}: bring it back to keep what it says")

    def _is_given_up(self) -> bool:
        """Whether they have been gone for so long that whoever took them away must have meant it."""
        return self._gone_since is not None and time.monotonic() - self._gone_since >= self._gone_s

    async def _found(self) -> Rules | None:
        """The rules in the folder; None: nobody wrote any."""
        if self._folder is None:
            return None
        names = [name for name in PLACES if _is_there(self._folder / name)]
        if len(names) > 1:
            raise InvalidPolicy(_BOTH)
        if names:
            return await self._parsed(self._folder / names[0])
        _refuse_others(self._folder)
        return None

    async def _parsed(self, file: Path) -> Rules:
        try:
            async with self._turn:
                reading = await self._read_file(file)
        except BrokenOffError as error:
            self._seen = None  # the next look is another try
            raise InvalidPolicy(f"the process that reads {file} broke off: {error}") from error
        return self._rules_in(reading, PLACES[file.name])

    def _rules_in(self, reading: Reading, place: str) -> Rules:
        if reading.complaint:
            raise InvalidPolicy(f"{place}: {reading.complaint}")
        if reading.document is None:
            raise InvalidPolicy(f"{place} says nothing: write a mode, {{}} for none, or remove the file")
        rules = parse_rules(reading.document, reading.files.__getitem__, self._floor)
        return replace(rules, place=place)

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
