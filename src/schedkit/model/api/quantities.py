"""Amounts of CPU and memory, compared as numbers: the API server stores `1000m` as `1`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from types import MappingProxyType

_SUFFIXES: Mapping[str, Decimal] = MappingProxyType(
    {
        "": Decimal(1),
        **{letter: Decimal(10) ** power for letter, power in zip("num", (-9, -6, -3), strict=True)},
        **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
        **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
    }
)
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]{1,3})"
)
# as the API server cuts off
_LARGEST = Decimal(2**63 - 1)
# as the API server rounds resources of a container
_PRECISION = Decimal("0.001")


def amount(text: int | str) -> Decimal | str:
    """The number that it means, rounded as the API server does; what is no amount stays as it is."""
    match = _FORM.fullmatch(str(text))
    if match is None:
        return str(text)
    number, suffix = Decimal(match["number"]), match["suffix"]
    value = number * _SUFFIXES[suffix] if suffix in _SUFFIXES else Decimal(f"{match['number']}{suffix}")
    return max(-_LARGEST, min(_LARGEST, value)).quantize(_PRECISION, rounding=ROUND_CEILING)


def amounts(named: Mapping[str, int | str]) -> dict[str, Decimal | str]:
    """Each of them by name."""
    return {name: amount(text) for name, text in named.items()}
