r"""Regular expressions in trust policies, matched by RE2.

A policy is written by one person and matched against what strangers put into certificates. Python's own `re`
backtracks: a careless expression and a long name would hang the verifier. RE2 takes time proportional to
both, and reads what people write for cosign, whose expressions are Go's.

An expression has to match the whole name: `^` and `$` at its ends change nothing.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

import msgspec

from schedkit.model.images.references import brief
from schedkit.model.trust.policy import MAX_TEXT, InvalidPattern

MAX_EXPRESSION: Final = 512
_MAX_MEMORY: Final = 1 << 20  # of a compiled expression
_LONGEST_COMPLAINT: Final = 200
# one byte of a character: of all that RE2 reads, the one thing that Go refuses
_HALF_A_CHARACTER: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
# each escape as a whole: quoted text, and an escaped backslash, are passed over
_ESCAPES: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(?P<beyond_ascii>[^\0-\x7f])|\\.", re.DOTALL)


class _Compiled(Protocol):
    """What is used of RE2, which comes without types."""

    def fullmatch(self, text: bytes) -> object | None: ...


class Re2Pattern(msgspec.Struct, frozen=True):
    """An expression that is known to be accepted; RE2 is loaded when it is first asked."""

    expression: str

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` fits; a text longer than any name never does."""
        data = text.encode(errors="surrogatepass")  # half a character is one, as for Python
        return len(text) <= MAX_TEXT and _compiled(self.expression).fullmatch(data) is not None


def parse_pattern(expression: str) -> Re2Pattern:
    """The pattern that an expression describes; `InvalidPattern` says what in it is not accepted."""
    if len(expression) > MAX_EXPRESSION:
        raise InvalidPattern(f"it has {len(expression)} characters; at most {MAX_EXPRESSION} are accepted")
    if _HALF_A_CHARACTER.search(expression):
        raise InvalidPattern(r"\C is not accepted")
    _compiled(expression)
    return Re2Pattern(expression)


def _compiled(expression: str) -> _Compiled:
    """Kept by RE2 itself, once it was compiled."""
    # late: who finds a kept verdict, or asks another process, does without
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415

    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.never_capture = True  # nobody asks which part matched
    options.log_errors = False  # they would go to standard error
    try:
        compiled: _Compiled = re2.compile(_without_idle_escapes(expression), options)
    except UnicodeEncodeError as error:
        raise InvalidPattern("it has an incomplete Unicode character; write the whole character") from error
    except re2.error as error:
        why = brief(error.args[0].decode(errors="replace"), most=_LONGEST_COMPLAINT)
        raise InvalidPattern(f"it does not follow the syntax of RE2: {why}") from error
    return compiled


def _without_idle_escapes(expression: str) -> str:
    """Without backslashes before characters beyond ASCII: they change nothing, and RE2 refuses them."""
    return _ESCAPES.sub(lambda escape: escape["beyond_ascii"] or escape[0], expression)
