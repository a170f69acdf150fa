"""A SchedExt that somebody has stopped, by the annotation `sked.schedkit.io/stop`.

The annotation stands beside the spec, so that whatever writes specs (GitOps, image automation) leaves it
alone. Whatever it says, it is a stop: at night somebody may write it by hand.
"""

from __future__ import annotations

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedext import SchedExt

NEED = "stop"  # in `sked.schedkit.io/needs`: a manager that knows of no stops would start it again
_MAX_WORDS = 256


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who stopped it, when and why, as far as the annotation says so."""

    reason: str = ""
    by: str = ""
    time: str = ""


def stop_of(schedext: SchedExt) -> Stop | None:
    """The stop; None: nobody has stopped it."""
    written = schedext.metadata.annotations.stop
    return None if written is None else read_stop(written)


def read_stop(written: str) -> Stop:
    """What the annotation says; what is no JSON of ours is a reason."""
    try:
        return msgspec.json.decode(written, type=Stop)
    except (msgspec.MsgspecError, ValueError):
        return Stop(reason=written)


def rests(schedext: SchedExt) -> bool:
    """Whether nothing of it should run: by its spec, or because somebody stopped it."""
    return schedext.spec.suspend or schedext.metadata.annotations.stop is not None


def words_of_stop(stop: Stop) -> str:
    """Who, when and why, on one line."""
    who = f" by {_bounded(stop.by)}" if stop.by else ""
    when = f" at {_bounded(stop.time)}" if stop.time else ""
    why = f": {_bounded(stop.reason)}" if stop.reason else ""
    return f"stopped{who}{when}{why}"


def _bounded(words: str) -> str:
    return legible(words)[:_MAX_WORDS]
