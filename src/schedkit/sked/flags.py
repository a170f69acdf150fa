"""Flags of `sked`'s verbs: each is also an environment variable, `SKED_` and its name in capitals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

from schedkit.sked.settings import parse_address, parse_bool, variable_of

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]


class _Word(click.ParamType[object]):
    """A value that is read by a function which says what is wrong with it."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:  # noqa: ANN401  # click's
        """Read it; a value that was read already stays."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


BOOL, ADDRESS = _Word("boolean", parse_bool), _Word("address", parse_address)


def flag(name: str, text: str, *short: str, **settings: Any) -> Decorator:  # noqa: ANN401  # click's
    """A flag that is an environment variable, too."""
    variable = variable_of(name.removeprefix("--"))
    return click.option(name, *short, envvar=variable, show_envvar=True, help=text, **settings)


def switch(name: str, text: str, *, default: bool) -> Decorator:
    """As Go has them: `--name`, `--name=true`, `--name=f`; never `--name false`."""
    return flag(
        name,
        text,
        type=BOOL,
        is_flag=False,
        flag_value="true",
        default=str(default).lower(),
        show_default=True,
        metavar="[=true|false]",
    )


# Of the manager and of the agent

kubeconfig_flag = flag(
    "--kubeconfig", "File that says how to reach the API server.", type=click.Path(path_type=Path)
)
context_flag = flag("--context", "Context of the kubeconfig. The current context if left out.")
health_probe_flag = flag(
    "--health-probe-bind-address",
    "Where /healthz and /readyz are served; 0: nowhere.",
    type=ADDRESS,
    default=":8081",
    show_default=True,
)
