"""The manual: one page for `schedctl` and one for each of its commands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from commandtree import Described, summary, tree

from schedkit import __version__
from schedkit.schedctl.problems.problem import MEANINGS
from schedkit.schedctl.settings.config_files import SYSTEM
from schedkit.schedctl.settings.table import SETTINGS

FOLDER = Path("man")


def generated(root: Path) -> dict[Path, str]:
    """Each page's file with its whole new text."""
    every = list(tree())
    names = [_name(each) for each in every]
    return {root / FOLDER / f"{_name(each)}.1": _page(each, names) for each in every}


def _name(described: Described) -> str:
    return "-".join(described.words)


def _page(described: Described, names: list[str]) -> str:
    name = _name(described)
    is_root = len(described.words) == 1
    sections = (
        f'.TH {_safe(name.upper())} 1 "" "schedkit {__version__}" "User Commands"\n',
        _section("Name", f"{_safe(name)} \\- {_safe(summary(described.command))}\n"),
        _section("Synopsis", f".B {_safe(described.title)}\n{_safe(described.usage)}\n"),
        _section("Description", "".join(map(_paragraph, described.paragraphs))),
        _section("Options", _definitions(described.options)),
        _section("Commands", _definitions(described.verbs)),
        *([_environment(), _files()] if is_root else []),
        _section("Exit status", _definitions((str(code.value), words) for code, words in MEANINGS.items())),
        _section("See also", _also(each for each in names if _is_near(each, name))),
    )
    return "".join(sections)


def _is_near(one: str, other: str) -> bool:
    """The page above, and those below."""
    return one != other and (one == other.rpartition("-")[0] or one.rpartition("-")[0] == other)


def _section(title: str, text: str) -> str:
    return f".SH {title.upper()}\n{text}" if text else ""


def _paragraph(text: str) -> str:
    is_kept = text.startswith("\b\n")
    lines = "".join(f"{_safe(line)}\n" for line in text.removeprefix("\b\n").split("\n"))
    return f".PP\n.nf\n{lines}.fi\n" if is_kept else f".PP\n{lines}"


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f".TP\n.B {_safe(term)}\n{_safe(words)}\n" for term, words in pairs)


def _environment() -> str:
    ways = ((each.variable, f"as {each.flags[-1]}" + _in_files(each.key)) for each in SETTINGS)
    return _section("Environment", _definitions(ways))


def _in_files(key: str | None) -> str:
    return f"; in files: {key}" if key else "; not in files"


def _files() -> str:
    places = (
        (str(SYSTEM), "settings of this machine, as TOML"),
        (
            "$XDG_CONFIG_HOME/schedkit/config.toml, ~/.config/schedkit/config.toml",
            "those of one user, which count more",
        ),
    )
    return _section("Files", _definitions(places))


def _also(names: Iterable[str]) -> str:
    return ",\n".join(f"{_safe(name)}(1)" for name in names) + "\n"


def _safe(text: str) -> str:
    """The text with nothing in it that a formatter would obey, and with dashes that can be copied."""
    words = " ".join(text.split("\n")).replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return f"\\&{words}" if words.startswith((".", "'")) else words
