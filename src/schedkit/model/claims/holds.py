"""Records that keep one SchedExt, or everybody, off a node: the annotation `sked.schedkit.io/hold`.

The annotation is the record, the label follows from it. Whatever it says that is not ours is a human's stop:
at night somebody may write it by hand.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedext import GROUP

HOLD_KEY = f"{GROUP}/hold"
_MAX_WORDS = 512
_MAX_RECORDS = 64  # more SchedExts than a node is thrown out of in a day


class HoldKind(StrEnum):
    """Who keeps whom off the node."""

    STOP = "Stop"  # a human: nobody runs there until a resume
    FOREIGN = "Foreign"  # a scheduler that is not ours: nobody of ours runs there meanwhile
    QUARANTINE = "Quarantine"  # a SchedExt that the kernel threw out again and again: it alone


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of the annotation."""

    kind: HoldKind
    reason: str = ""
    # by the clock of whoever wrote it; None: it does not say
    time: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    by: str = ""
    schedext: str = ""  # namespace and name: whom a quarantine bars, or who ran there before
    revision: str = ""
    level: int = 0  # of a quarantine: 1 ends by itself, 2 does not


def read_holds(written: str | None) -> tuple[Hold, ...]:
    """What the annotation says; None: there is none."""
    if written is None:
        return ()
    try:
        records = msgspec.json.decode(written, type=tuple[Hold, ...])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return (Hold(HoldKind.STOP, bounded(written)),)
    return tuple(_legible(each) for each in records[:_MAX_RECORDS])


def _legible(hold: Hold) -> Hold:
    """As it may be shown: whoever may write to Nodes may have written it."""
    words = {name: bounded(getattr(hold, name)) for name in ("reason", "by", "schedext", "revision")}
    return msgspec.structs.replace(hold, **words)


def bounded(words: str) -> str:
    """What a human or a kernel said, so that it can be shown."""
    return legible(words)[:_MAX_WORDS]


def written_holds(holds: tuple[Hold, ...]) -> str | None:
    """The annotation; None: it is to be removed."""
    return msgspec.json.encode(holds).decode() if holds else None


def hold_of(holds: tuple[Hold, ...], kind: HoldKind) -> Hold | None:
    """The first of that kind; None: there is none."""
    return next((each for each in holds if each.kind is kind), None)
