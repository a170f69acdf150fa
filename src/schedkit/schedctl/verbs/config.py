"""`schedctl config`: every setting with its value, and where that came from."""

from __future__ import annotations

from typing import Any, Literal

import click
import msgspec
from click.core import ParameterSource

from schedkit.schedctl.answers.answer import Answer, Block, Table, answering
from schedkit.schedctl.answers.result import Result
from schedkit.schedctl.settings.config_files import Configuration
from schedkit.schedctl.settings.flags import configuration, option
from schedkit.schedctl.settings.table import SETTINGS, Setting


class FileShown(msgspec.Struct, frozen=True, kw_only=True):
    """A place that is looked at."""

    path: str
    found: bool


class SettingShown(msgspec.Struct, frozen=True, kw_only=True):
    """One setting, and every way to change it."""

    name: str  # as in files, or as its flag where files cannot have it
    value: str | float | bool | tuple[str, ...] | None  # null: nobody decided it, and that is fine
    origin: Literal["flag", "environment", "file", "default"]
    source: str | None  # the flag, the variable or the file that decided; null: nobody did
    flag: str
    variable: str
    key: str | None  # null: it cannot be in a file


class ConfigShown(Result, frozen=True, kw_only=True):
    """What counts for a call with these flags in this environment."""

    files: tuple[FileShown, ...]  # those that count more after those that count less
    settings: tuple[SettingShown, ...]


@click.command()
@option("trust_policy")
@option("allow_unsigned")
@option("least_privilege")
@option("timeout_s")
@option("grace_s")
@click.pass_context
@answering
def command(ctx: click.Context, **flags: Any) -> Answer:  # noqa: ANN401, ARG001 - the context has them with their origin
    """Show every setting with its value, and where the value came from.

    Flags of other verbs may be given here, too: the answer shows the values that those verbs would use.
    """
    files = configuration(ctx)
    shown = ConfigShown(
        files=tuple(FileShown(path=str(each.path), found=each.is_there) for each in files.files),
        settings=tuple(_show(setting, ctx, files) for setting in SETTINGS),
    )
    return Answer(shown, text(shown))


def _show(setting: Setting, ctx: click.Context, files: Configuration) -> SettingShown:
    origin, source = _origin(setting, ctx, files)
    return SettingShown(
        name=setting.key or setting.flags[-1].removeprefix("--"),
        value=_holder(setting, ctx).params[setting.name],
        origin=origin,
        source=source,
        flag=setting.flags[-1],
        variable=setting.variable,
        key=setting.key,
    )


def _holder(setting: Setting, ctx: click.Context) -> click.Context:
    """The context that its flag belongs to."""
    return ctx.parent if setting.is_before_the_verb and ctx.parent else ctx


def _origin(
    setting: Setting, ctx: click.Context, files: Configuration
) -> tuple[Literal["flag", "environment", "file", "default"], str | None]:
    match _holder(setting, ctx).get_parameter_source(setting.name):
        case ParameterSource.COMMANDLINE:
            return "flag", setting.flags[-1]
        case ParameterSource.ENVIRONMENT:
            return "environment", setting.variable
    file = files.deciding(setting.name)
    return ("file", str(file.path)) if file else ("default", None)


def text(shown: ConfigShown) -> list[Block]:
    """As a person reads it."""
    rows = [
        (each.key or "-", each.flag, each.variable, each.source or each.origin, _words(each.value))
        for each in shown.settings
    ]
    files = [f"{each.path}: {'read' if each.found else 'not found'}" for each in shown.files]
    return [Table(("KEY", "FLAG", "VARIABLE", "DECIDED BY", "VALUE"), rows), "", *files]


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value or "-")
