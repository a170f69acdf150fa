"""Results with fields and a schema. `status`, which starts quickly, has a plain mapping instead."""

from __future__ import annotations

from typing import Any

import msgspec

from schedkit.schedctl.problems.problem import SCHEMA_VERSION


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb found out or did. Fields may be added; those that exist keep their name and meaning."""

    schema_version: str = SCHEMA_VERSION


def to_plain(result: Result) -> dict[str, Any]:
    """The result as JSON and YAML have it."""
    plain: dict[str, Any] = msgspec.to_builtins(result, enc_hook=str)
    return plain
