"""What a run found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from benchmarks import outcomes
from benchmarks.host import startups
from benchmarks.host.courses import PODMAN, SCHEDCTL, Courses
from benchmarks.host.sizes import Sizes
from benchmarks.host.targets import Results, compare

_WITHOUT_SWITCH = "  not measured: this schedctl has no `switch`"


def render_json(sizes: Sizes, results: Results) -> str:
    """Everything that was measured, and the targets; the names in it stay."""
    whole = {"sizes": sizes, "targets": outcomes.as_plain(compare(results)), "results": results}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def render_text(sizes: Sizes, results: Results) -> str:
    """Tables of medians, and the targets, of which the missed ones are marked."""
    parts = [
        f"medians of {sizes.starts} starts, and of {sizes.rounds} rounds in a virtual machine",
        "\n".join(_startups(results.startups_s)) if results.startups_s else "",
        *("\n".join(part) for part in (_attachments(results.courses), _gaps(results.courses))),
        "\n".join(outcomes.render(compare(results))),
    ]
    return "\n\n".join(filter(None, parts))


def _startups(times_s: Mapping[str, Sequence[float]]) -> Iterator[str]:
    yield "a command, from nothing to its end"
    yield _row("", "CPU", "least", f"to {startups.INTERPRETER}")
    bare = median(times_s[startups.INTERPRETER])
    for name, times in times_s.items():
        usual = median(times)
        yield _row(name, f"{1000 * usual:.1f} ms", f"{1000 * min(times):.1f} ms", f"{usual / bare:.2f} x")


def _attachments(found: Courses) -> Iterator[str]:
    if not found.attachments:
        return
    yield f"a scheduler attached by the kernel {found.kernel}, which is emulated"
    yield _row("", "start, imports", "to attached", "whole command")
    for who in (PODMAN, SCHEDCTL):
        rounds = [each for each in found.attachments if each.who == who]
        figures = _medians((each.starting_s, each.attaching_s, each.whole_s) for each in rounds)
        yield _row(f"{who} run", *(f"{each:.2f} s" for each in figures))


def _gaps(found: Courses) -> Iterator[str]:
    if not found.attachments:
        return
    yield "from one scheduler to the next"
    if not found.gaps:
        yield _WITHOUT_SWITCH
        return
    yield _row("", "gap", "whole command")
    for who, what in ((PODMAN, "podman stop, start"), (SCHEDCTL, "schedctl switch")):
        figures = _medians((each.gap_s, each.whole_s) for each in found.gaps if each.who == who)
        yield _row(what, *(f"{each:.2f} s" for each in figures))


def _medians(rows: Iterable[tuple[float, ...]]) -> list[float]:
    """The median of each column."""
    return [median(column) for column in zip(*rows, strict=True)]


def _row(who: str, *cells: str) -> str:
    return f"  {who:<30}" + "".join(f"{cell:>18}" for cell in cells)
