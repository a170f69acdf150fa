"""A SchedExt that somebody has stopped, by the annotation `sked.schedkit.io/stop`.

The annotation stands beside the spec, so that whatever writes specs (GitOps, image automation) leaves it
alone. Whatever it says, it is a stop: at night somebody may write it by hand.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from schedkit.model.api.conditions import legible
from schedkit.model.api.schedext import NEEDS_KEY, STOP_KEY, SchedExt
from schedkit.model.deploy.unknown_needs import STOP, with_need, without_need

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
    except (msgspec.MsgspecError, ValueError, RecursionError):
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


def annotations_with(stop: Stop, annotations: Mapping[str, str]) -> dict[str, str]:
    """All annotations of a SchedExt, with a stop; an older manager then leaves it alone."""
    needs = with_need(annotations.get(NEEDS_KEY, ""), STOP)
    return {**annotations, NEEDS_KEY: needs, STOP_KEY: msgspec.json.encode(stop).decode()}


def annotations_without(annotations: Mapping[str, str]) -> dict[str, str]:
    """All annotations of a SchedExt, without a stop; those of others stay."""
    needs = without_need(annotations.get(NEEDS_KEY, ""), STOP)
    kept = {key: value for key, value in annotations.items() if key not in {NEEDS_KEY, STOP_KEY}}
    return {**kept, NEEDS_KEY: needs} if needs else kept
