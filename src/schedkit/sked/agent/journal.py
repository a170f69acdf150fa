"""The agent's log: a line of JSON for each thing that happened, and none while nothing happens."""

from __future__ import annotations

import datetime as dt
import sys

import msgspec


def say(level: str, event: str, **facts: object) -> None:
    """Write one line to stderr; what is said must not hold secrets."""
    moment = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    line = {**facts, "event": event, "level": level, "timestamp": moment}
    sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
    sys.stderr.flush()
