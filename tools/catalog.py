"""Rewrites the shipped catalog and the recipes' Containerfiles from `recipes`, or names what is outdated."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import upkeep

from rig.build.measurements import Findings
from rig.build.recipe_facts import Recipe, containerfile, entry
from schedkit.model.catalog import Entry, render_catalog

RECIPES = Path("recipes")
CATALOG = Path("src/schedkit/catalog.json")


def read(folder: Path) -> Recipe:
    """The recipe in a folder."""
    version, measured = folder / "VERSION", folder / "measured.json"
    return Recipe(
        name=folder.name,
        facts=msgspec.json.decode((folder / "facts.json").read_bytes(), type=Entry),
        version=version.read_text().strip() if version.exists() else None,
        findings=msgspec.json.decode(measured.read_bytes(), type=Findings) if measured.exists() else None,
    )


def recipes(root: Path) -> list[Recipe]:
    """All of them, by name."""
    return [read(file.parent) for file in sorted((root / RECIPES).glob("*/facts.json"))]


def generated(root: Path) -> dict[Path, bytes]:
    """Each file that follows from the recipes, with its whole new content."""
    found = recipes(root)
    texts = {root / RECIPES / each.name / "Containerfile": containerfile(each) for each in found}
    files = {file: text.encode() for file, text in texts.items() if text is not None}
    return files | {root / CATALOG: render_catalog({each.name: entry(each) for each in found})}


if __name__ == "__main__":
    sys.exit(upkeep.run(__doc__, generated, "catalog"))
