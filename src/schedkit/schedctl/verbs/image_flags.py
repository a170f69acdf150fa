"""Flags that verbs about images have in common."""

from __future__ import annotations

from typing import Any

import click

from schedkit.schedctl.completions import complete_images
from schedkit.schedctl.settings.flags import option

trust_policy_option = option("trust_policy")  # of every verb that verifies


def image_options(command: Any) -> Any:  # noqa: ANN401 - click's own type of what it decorates
    """The argument and the flags of every verb that brings an image into a runtime."""
    options = (
        click.argument("image", metavar="NAME|IMAGE", shell_complete=complete_images),
        click.option("--version", "version", metavar="TAG", help="Use this version, not the catalog's."),
        trust_policy_option,
        option("allow_unsigned"),
    )
    for each in reversed(options):
        command = each(command)
    return command
