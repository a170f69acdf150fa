"""The flag by which a person gives up a scheduler that schedctl did not start."""

from __future__ import annotations

import click

evict_option = click.option(
    "--evict",
    type=int,
    default=0,
    metavar="PID",
    help="Also end the scheduler of process PID, even though schedctl did not start it.",
)
