r"""Regular expressions that cannot take forever, for deciding who may sign.

A policy is written by one person and matched against what strangers put into certificates. Python's own `re`
backtracks: a careless expression and a long name would hang the verifier. The expressions here are those that
Go and Python read alike, and matching takes time proportional to expression and text together.

Accepted: literals, `.`, `[…]`, `\d \w \s` and their opposites (ASCII), `(…)`, `(?:…)`, `|`, `* + ? {m,n}`,
and `^` and `$` where they change nothing, because a pattern always has to match the whole text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

MAX_EXPRESSION: Final = 512
MAX_TEXT: Final = 2048
_MAX_INSTRUCTIONS: Final = 1024
_MAX_REPEATS: Final = 256
_MAX_DEPTH: Final = 32
_UNBOUNDED: Final = None

_DIGITS: Final = (("0", "9"),)
_WORD: Final = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE: Final = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_LAST: Final = chr(0x10FFFF)

Range = tuple[str, str]


class InvalidPattern(ValueError):  # noqa: N818 - as the policy's other errors, named after what is wrong
    """An expression that is not accepted, and why."""


class _Set(msgspec.Struct, frozen=True):
    ranges: tuple[Range, ...]

    def has(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges)


class _Sequence(msgspec.Struct, frozen=True):
    parts: tuple[_Node, ...]


class _Choice(msgspec.Struct, frozen=True):
    options: tuple[_Node, ...]


class _Repeat(msgspec.Struct, frozen=True):
    part: _Node
    low: int
    high: int | None  # None: any number


_Node = _Set | _Sequence | _Choice | _Repeat


class _Fork(msgspec.Struct, frozen=True):
    """Go on at every one of these instructions."""

    targets: tuple[int, ...]


_Instruction = _Set | _Fork


class Pattern(msgspec.Struct, frozen=True):
    """A regular expression, ready to be matched against whole texts."""

    expression: str
    program: tuple[_Instruction, ...]

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` fits; a text longer than any name never does."""
        if len(text) > MAX_TEXT:
            return False
        states = self._closure([0])
        for character in text:
            states = self._closure(state + 1 for state in states if self._takes(state, character))
            if not states:
                return False
        return len(self.program) in states

    def _takes(self, state: int, character: str) -> bool:
        instruction = self.program[state] if state < len(self.program) else None
        return isinstance(instruction, _Set) and instruction.has(character)

    def _closure(self, starts: Iterable[int]) -> set[int]:
        """Every instruction that is reached without taking a character."""
        reached: set[int] = set()
        waiting = list(starts)
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            instruction = self.program[state] if state < len(self.program) else None
            if isinstance(instruction, _Fork):
                waiting.extend(instruction.targets)
        return reached


def parse_pattern(expression: str) -> Pattern:
    """Compile an expression; `InvalidPattern` says what in it is not accepted."""
    if len(expression) > MAX_EXPRESSION:
        raise InvalidPattern(f"it has {len(expression)} characters; at most {MAX_EXPRESSION} are accepted")
    parser = _Parser(expression)
    program: list[_Instruction] = []
    _emit(parser.whole(), program)
    return Pattern(expression, tuple(program))


class _Parser:
    """Recursive descent over the expression."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._depth = 0

    def whole(self) -> _Node:
        node = self._choice()
        if self._at < len(self._text):
            raise self._error("there is a `)` without its `(`")
        return node

    def _choice(self) -> _Node:
        options = [self._sequence()]
        while self._accept("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else _Choice(tuple(options))

    def _sequence(self) -> _Node:
        if self._depth == 0:
            self._accept("^")
        parts: list[_Node] = []
        while self._at < len(self._text) and self._peek() not in "|)":
            if self._peek() == "$" and self._ends_at(self._at + 1):
                self._at += 1
                break
            parts.append(self._repeated())
        return _Sequence(tuple(parts))

    def _ends_at(self, position: int) -> bool:
        """Whether an option of the whole expression ends there, which is where `$` changes nothing."""
        return self._depth == 0 and (position == len(self._text) or self._text[position] == "|")

    def _repeated(self) -> _Node:
        part = self._atom()
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._at < len(self._text) and self._peek() in "*+?{":
            raise self._error("one repetition follows another; put the first into ( )")
        return _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, _UNBOUNDED)), ("+", (1, _UNBOUNDED)), ("?", (0, 1))):
            if self._accept(sign):
                return bounds
        return self._braces() if self._accept("{") else None

    def _braces(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at : end].partition(",") if end >= 0 else ("", "", "")
        if not _is_number(low) or not (high == "" or _is_number(high)):
            raise self._error("`{` begins a repetition such as {2} or {2,5}; write \\{ for the character")
        self._at = end + 1
        bounds = (int(low), int(high) if high else _UNBOUNDED) if comma else (int(low), int(low))
        if max(bounds[0], bounds[1] or 0) > _MAX_REPEATS or (bounds[1] is not None and bounds[1] < bounds[0]):
            raise self._error(f"a repetition goes from a smaller to a larger number, up to {_MAX_REPEATS}")
        return bounds

    def _atom(self) -> _Node:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._brackets()
        if character == ".":
            return _Set(_opposite((("\n", "\n"),)))
        if character == "\\":
            return _Set(self._escape())
        if character in "*+?{":
            raise self._error(f"`{character}` repeats nothing; write \\{character} for the character")
        if character in "^$":
            raise self._error(
                f"`{character}` may stand at the ends only; write \\{character} for the character"
            )
        return _Set(((character, character),))

    def _group(self) -> _Node:
        if self._accept("?") and not self._accept(":"):
            raise self._error("of the groups that begin with (? only (?:…) is accepted")
        if self._depth == _MAX_DEPTH:
            raise self._error(f"groups are nested more than {_MAX_DEPTH} deep")
        self._depth += 1
        node = self._choice()
        self._depth -= 1
        if not self._accept(")"):
            raise self._error("a `(` is never closed")
        return node

    def _brackets(self) -> _Node:
        negated = self._accept("^")
        ranges: list[Range] = []
        while not ranges or self._peek() != "]":
            ranges.extend(self._member())
        self._at += 1
        return _Set(_opposite(tuple(ranges)) if negated else tuple(ranges))

    def _member(self) -> tuple[Range, ...]:
        low = self._bracketed()
        is_range = self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", "")
        if not is_range:
            return low
        self._at += 1
        high = self._bracketed()
        if (
            len(low) != 1
            or len(high) != 1
            or low[0][0] != low[0][1]
            or not low[0][0] <= high[0][0] == high[0][1]
        ):
            raise self._error("a range in [ ] goes from a smaller to a larger character")
        return ((low[0][0], high[0][0]),)

    def _bracketed(self) -> tuple[Range, ...]:
        character = self._next()
        if character == "\\":
            return self._escape()
        if character == "[":
            raise self._error("write \\[ for the character `[` inside of [ ]")
        if character == "]":
            raise self._error("[ ] must hold something; write \\] for the character `]`")
        return ((character, character),)

    def _escape(self) -> tuple[Range, ...]:
        character = self._next()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.lower() in _CLASSES:
            return _opposite(_CLASSES[character.lower()])
        literal = _CONTROLS.get(character, character)
        if literal.isalnum():
            raise self._error(f"\\{character} is not accepted")
        return ((literal, literal),)

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends in the middle of something")
        return self._text[self._at]

    def _next(self) -> str:
        character = self._peek()
        self._at += 1
        return character

    def _accept(self, character: str) -> bool:
        found = self._text[self._at : self._at + 1] == character
        self._at += found
        return found

    def _error(self, why: str) -> InvalidPattern:
        return InvalidPattern(f"at character {self._at}: {why}")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 5


def _opposite(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Every character outside of the ranges."""
    outside: list[Range] = []
    following = 0
    for low, high in sorted(ranges):
        if ord(low) > following:
            outside.append((chr(following), chr(ord(low) - 1)))
        following = max(following, ord(high) + 1)
    if following <= ord(_LAST):
        outside.append((chr(following), _LAST))
    return tuple(outside)


def _emit(node: _Node, program: list[_Instruction]) -> None:
    """Append instructions that take what the node describes, and go on after them."""
    if len(program) > _MAX_INSTRUCTIONS:
        raise InvalidPattern("its repetitions make it too large; use * or + instead of large numbers")
    match node:
        case _Set():
            program.append(node)
        case _Sequence(parts):
            for part in parts:
                _emit(part, program)
        case _Choice(options):
            _emit_choice(options, program)
        case _Repeat(part, low, high):
            _emit_repeat(part, low, high, program)


def _emit_choice(options: Sequence[_Node], program: list[_Instruction]) -> None:
    fork = _reserve(program)
    starts, exits = [], []
    for option in options:
        starts.append(len(program))
        _emit(option, program)
        exits.append(_reserve(program))
    program[fork] = _Fork(tuple(starts))
    for position in exits:
        program[position] = _Fork((len(program),))


def _emit_repeat(part: _Node, low: int, high: int | None, program: list[_Instruction]) -> None:
    for _ in range(low):
        before = len(program)
        _emit(part, program)
        if len(program) == before:  # nothing, however often, is nothing
            break
    if high is None:
        fork = _reserve(program)
        _emit(part, program)
        program.append(_Fork((fork,)))
        program[fork] = _Fork((fork + 1, len(program)))
        return
    forks = []
    for _ in range(high - low):
        forks.append(_reserve(program))
        _emit(part, program)
    for fork in forks:
        program[fork] = _Fork((fork + 1, len(program)))


def _reserve(program: list[_Instruction]) -> int:
    """A place for an instruction whose targets are not known yet."""
    program.append(_Fork(()))
    return len(program) - 1
