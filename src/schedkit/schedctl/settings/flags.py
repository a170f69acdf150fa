"""Flags made from the table of settings: what no flag says is asked of the environment, then of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from schedkit.schedctl.settings.table import SETTINGS, Setting

if TYPE_CHECKING:
    from schedkit.schedctl.settings.config_files import Configuration

Command = TypeVar("Command", bound=Callable[..., Any])
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_CONFIGURATION = "schedkit.configuration"


class SettingOption(click.Option):
    """A flag whose default is what configuration files say; help and completion read none."""

    def get_default(self, ctx: click.Context, call: bool = True) -> Any:  # noqa: ANN401, FBT001, FBT002 - click's own signature
        """What the files say, else what the table says."""
        if call and not ctx.resilient_parsing:
            file = configuration(ctx).deciding(str(self.name))
            if file is not None:
                return file.values[str(self.name)]
        return super().get_default(ctx, call)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The flag with its variable: a wrong value may come from there."""
        hint = super().get_error_hint(ctx)
        return hint if self.show_envvar else f"{hint} (env var: '{self.envvar}')"


def configuration(ctx: click.Context) -> Configuration:
    """What the configuration files say, read once for each call; a file that cannot be used ends it."""
    if _CONFIGURATION not in ctx.meta:
        from schedkit.schedctl.problems.problem import telling_problems  # noqa: PLC0415 - as above
        from schedkit.schedctl.settings import config_files  # noqa: PLC0415 - not for help

        with telling_problems():
            ctx.meta[_CONFIGURATION] = config_files.read(config_files.places(os.environ))
    found: Configuration = ctx.meta[_CONFIGURATION]
    return found


def option(name: str) -> Callable[[Command], Command]:
    """The flag of that setting."""
    setting = _BY_NAME[name]
    return click.option(
        *_flags(setting),
        setting.name,
        cls=SettingOption,
        envvar=setting.variable,
        show_envvar=not setting.is_before_the_verb,  # so many would drown what they are for
        metavar=setting.metavar,
        help=setting.help,
        **_form(setting),
    )


def _flags(setting: Setting) -> tuple[str, ...]:
    """What turns a switch on; one that a file may turn on has a way to turn it off for one call, too."""
    if setting.kind != "switch" or not setting.key:
        return setting.flags
    return tuple(f"{each}/--no-{each.removeprefix('--')}" for each in setting.flags)


def options_before_the_verb(command: Command) -> Command:
    """The command with all flags that stand before the verb."""
    for setting in reversed(SETTINGS):
        if setting.is_before_the_verb:
            command = option(setting.name)(command)
    return command


def _form(setting: Setting) -> dict[str, Any]:
    """How click reads it."""
    match setting.kind:
        case "choice":
            return {"type": click.Choice(setting.choices), "default": setting.default, "show_default": True}
        case "seconds":
            from schedkit.schedctl.settings.durations import Seconds  # noqa: PLC0415 - `status` waits for nothing

            return {"type": Seconds(), "default": setting.default, "show_default": True}
        case "words":
            return {"multiple": True}
        case "switch":
            return {"is_flag": True}
        case "text" | "path" | "place":
            return {"default": setting.default, "show_default": setting.default is not None}
