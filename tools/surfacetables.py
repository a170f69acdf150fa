"""Tables of the documentation of `schedctl` that follow from its code: settings, exit codes, schemas."""

from __future__ import annotations

import schemas

from schedkit.schedctl.problems.problem import MEANINGS
from schedkit.schedctl.settings.table import SETTINGS, Setting, Value


def settings_table() -> str:
    """One row for each setting, with every way to decide it."""
    head = "\n| key | flag | variable | default | what it decides |\n|---|---|---|---|---|\n"
    return head + "".join(map(_setting, SETTINGS)) + "\n"


def _setting(setting: Setting) -> str:
    key = f"`{setting.key}`" if setting.key else ""
    flags = ", ".join(f"`{flag}`" for flag in setting.flags)
    choices = f" One of {', '.join(f'`{each}`' for each in setting.choices)}." if setting.choices else ""
    cells = (key, flags, f"`{setting.variable}`", _default(setting.default), setting.help + choices)
    return f"| {' | '.join(cells)} |\n"


def _default(value: Value) -> str:
    if isinstance(value, float) and not isinstance(value, bool):
        return f"{value:g}"
    return f"`{value}`" if value else ""


def exit_codes_table() -> str:
    """One row for each exit code."""
    rows = "".join(f"| {code.value} | {words} |\n" for code, words in MEANINGS.items())
    return f"\n| exit code | meaning |\n|---|---|\n{rows}\n"


def schemas_table() -> str:
    """One row for each answer that has a schema."""
    rows = "".join(
        f"| `{verb.replace('-', ' ')}` | [{verb}.json](schemas/{verb}.json) |\n" for verb in schemas.ANSWERED
    )
    return f"\n| verb | schema |\n|---|---|\n{rows}\n"
