"""Recipes of schedulers: what the catalog says about one, and what its image says about itself.

A recipe has facts that were read somewhere (`facts.json`, an entry of the catalog), perhaps the version that
it builds (`VERSION`), and perhaps what was measured (`measured.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from rig.build.measurements import Findings
from schedkit.model.catalog import Entry, Needs
from schedkit.model.images.configs import MIN_KERNEL, NEEDS_TRACING, OCI

_OWN_FIELDS: Final = ("version", "measured")
_CONTAINERFILE: Final = """\
# Made by `make catalog`. To build it: podman build --file recipes/{name}/Containerfile recipes
ARG RUST=docker.io/library/rust:1.95-slim-bookworm
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${{RUST}} AS built
COPY packages /recipes/
RUN apt-get update && xargs apt-get install --yes --no-install-recommends make pkg-config < /recipes/packages
COPY crate /recipes/
COPY {name} /recipes/{name}
RUN ["/recipes/{name}/build", "/built"]

FROM ${{BASE}}
RUN apt-get update && apt-get install --yes --no-install-recommends libelf1 zlib1g \\
    && rm -rf /var/lib/apt/lists
COPY --from=built /built/bin/{name} /usr/bin/{name}
{labels}
ENTRYPOINT ["/usr/bin/{name}"]
"""


class InvalidRecipe(ValueError):
    """A recipe that contradicts itself; the message says how, and what to mend."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One scheduler's folder."""

    name: str
    facts: Entry
    version: str | None = None  # None: schedkit does not build it
    findings: Findings | None = None  # None: it was not measured here


def entry(recipe: Recipe) -> Entry:
    """What the catalog says: facts that were read, and above them those that were measured."""
    _require_consistency(recipe)
    facts, found = recipe.facts, recipe.findings
    if found is None:
        return msgspec.structs.replace(facts, version=recipe.version, measured=False)
    seen = found.measured
    source = f"ops name, statistics and needs: measured with version {seen.version} on kernel {seen.kernel}"
    return msgspec.structs.replace(
        facts,
        ops_name=found.ops_name,
        stats=found.stats,
        needs=_merged(facts.needs or Needs(), found.needs),
        measured=seen,
        sources=(*facts.sources, source),
        version=recipe.version,
    )


def _merged(read: Needs, seen: Needs) -> Needs:
    known = {field: value for field, value in msgspec.structs.asdict(seen).items() if value is not None}
    return msgspec.structs.replace(read, **known)


def _require_consistency(recipe: Recipe) -> None:
    facts, found = recipe.facts, recipe.findings
    for field in _OWN_FIELDS:
        if getattr(facts, field) is not None:
            raise InvalidRecipe(
                f"{recipe.name}: facts.json has {field!r}, but this field has its own file: "
                "remove it from facts.json"
            )
    if found is None:
        return
    for field in ("ops_name", "stats"):
        read, seen = getattr(facts, field), getattr(found, field)
        if read not in {None, seen}:
            raise InvalidRecipe(
                f"{recipe.name}: facts.json says that {field} is {read!r}, but {seen!r} was measured: "
                "correct facts.json"
            )


def labels(name: str, version: str, known: Entry) -> dict[str, str]:
    """The labels of the scheduler's image, in a fixed order."""
    source, is_folder, _ = (known.documentation or "").partition("/tree/")
    found = {
        f"{OCI}.title": name,
        f"{OCI}.description": known.description,
        f"{OCI}.documentation": known.documentation,
        f"{OCI}.source": source if is_folder else None,
        f"{OCI}.version": version,
        MIN_KERNEL: known.min_kernel,
        NEEDS_TRACING: "true" if known.needs and known.needs.tracing else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def containerfile(recipe: Recipe) -> str | None:
    """How a container engine builds the same program; None where there is nothing to build."""
    if recipe.version is None:
        return None
    described = labels(recipe.name, recipe.version, recipe.facts)
    return _CONTAINERFILE.format(name=recipe.name, labels=_label_lines(described))


def _label_lines(described: Mapping[str, str]) -> str:
    pairs = (f"{key}={_quoted(value)}" for key, value in described.items())
    return "LABEL " + " \\\n      ".join(pairs)


def _quoted(text: str) -> str:
    """As container engines read it, which put the values of variables in place of their names."""
    return json.dumps(text, ensure_ascii=False).replace("$", "\\$")
