"""How long the kernel ran its own scheduler between two others, as `schedctl switch` reports it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from schedkit.model.kernel.log import LogReading


class Gap(NamedTuple):
    """How long the kernel ran its own scheduler between two others."""

    seconds: float
    source: Literal["kernel-log", "observation"]  # observed, it begins when the old one was told to stop


def measure_gap(log: LogReading, ops: str, *, observed_s: float) -> Gap:
    """By the log since the change began, else as it was observed, which is an upper bound."""
    logged = gap_us(log, ops)
    return Gap(observed_s, "observation") if logged is None else Gap(logged / 1e6, "kernel-log")


def gap_us(log: LogReading, ops: str) -> int | None:
    """From the first end of a scheduler to the last beginning of the one of that name; None: not logged."""
    began = [each for each in log.attachments if each.ops == ops]
    ended = [each.time_us for each in log.exits if began and each.seq < began[-1].seq]
    return began[-1].time_us - ended[0] if ended else None
