"""What a run found, for people and for programs."""

from __future__ import annotations

import msgspec

from benchmarks import outcomes
from benchmarks.node.targets import Idle, Results, Sizes, compare


def render_json(sizes: Sizes, results: Results) -> str:
    """Everything that was measured, and the targets; the names in it stay."""
    whole = {"sizes": sizes, "targets": outcomes.as_plain(compare(results)), "results": results}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def render_text(sizes: Sizes, results: Results) -> str:
    """A table of what was measured, and the targets, of which the missed ones are marked."""
    head = (
        f"{sizes.idle_s} s each, of an agent whose kernel runs a scheduler that nobody can be proved to own; "
        f"the crowd is {sizes.processes} processes and {sizes.files} open files"
    )
    rows = [_row("", "resident", "PSS", "peak", "processor", "load"), *map(_figures, results.idle)]
    figures = [head, "", *rows, ""] if results.idle else []
    return "\n".join([*figures, *outcomes.render(compare(results))])


def _figures(idle: Idle) -> str:
    sizes = (f"{each:.1f} MiB" for each in (idle.rss_mib, idle.pss_mib, idle.peak_mib))
    return _row(idle.what, *sizes, f"{idle.cpu_percent:.3f} %", f"{idle.load:.1f}")


def _row(what: str, *cells: str) -> str:
    return f"  {what:<14}" + "".join(f"{cell:>12}" for cell in cells)
