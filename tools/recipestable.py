"""The table of recipes, in Markdown: what was measured of each scheduler, and what was only read."""

from __future__ import annotations

import catalog
from children import ROOT

from rig.build.measurements import Findings
from rig.build.recipe_facts import Recipe

_HEAD = (
    "| scheduler | recipe builds | facts | measured on kernel | capabilities | attached after | exit code |\n"
)


def recipes_table() -> str:
    """One row for each recipe."""
    return "\n" + _HEAD + "|---" * 7 + "|\n" + "".join(map(_row, catalog.recipes(ROOT))) + "\n"


def _row(recipe: Recipe) -> str:
    seen = _measured(recipe.findings) if recipe.findings else ("read", "", "", "", "")
    return f"| {' | '.join((f'`{recipe.name}`', recipe.version or 'nothing', *seen))} |\n"


def _measured(found: Findings) -> tuple[str, ...]:
    seen = found.measured
    needed = found.needs.capabilities
    capabilities = "not known" if needed is None else ", ".join(needed) or "none"
    return ("measured", seen.kernel, capabilities, f"{seen.attach_seconds:g} s", str(seen.exit_code))
