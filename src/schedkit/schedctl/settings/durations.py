"""Times that users give."""

from __future__ import annotations

import math
from typing import Any

import click

from schedkit.schedctl.settings.table import LONGEST_S


class Seconds(click.FloatRange):
    """A time that ends: from nothing to a day."""

    name = "seconds"

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - as in click
        """The number; `nan`, which no time ever reaches, is none."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds
