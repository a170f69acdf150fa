"""What an expression in a trust policy means, and which ones are not accepted."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.model.trust.policy import InvalidPattern
from schedkit.oci.policy.patterns import parse_pattern

WORKFLOW = "https://github.com/schedkit/plumbing/.github/workflows/build.yml@refs/heads/main"


@pytest.mark.parametrize(
    ("expression", "text", "fits"),
    [
        (r"^https://github\.com/schedkit/.*", WORKFLOW, True),
        (r"https://github\.com/schedkit/.*", f"x{WORKFLOW}", False),
        (r".*/build\.yml@refs/(heads|tags)/[^/]+$", WORKFLOW, True),
        (r"a|b", "ab", False),
        (r"^a$|^b$", "b", True),
        (r"[\w.-]+@rig\.test", "some.one@rig.test", True),
        (r"(a{2,3}b?)+", "aabaaa", True),
        (r".*", "two\nlines", False),
        (r"a", "a\n", False),
        (r"a$", "a\n", False),
        (r"(?m)a$", "a\nb", False),
        (r"", "", True),
        (r"é.", "éß", True),
        (r"half .", "half \ud800", True),
        (r".*", "a\0b", True),
    ],
)
def test_an_expression_has_to_fit_the_whole_name(expression: str, text: str, *, fits: bool) -> None:
    assert parse_pattern(expression).matches(text) is fits


@pytest.mark.parametrize(
    ("expression", "text", "fits"),
    [
        ("(?i)me", "ME", True),
        ("(?P<who>a)", "a", True),
        ("[[:alpha:]]+", "abc", True),
        (r"\bme\b", "me", True),
        (r"\_\x41", "_A", True),
        ("a{2", "a{2", True),
        ("a^b", "a^b", False),
        ("(" * 40 + "a" + ")" * 40, "a", True),
    ],
)
def test_what_go_reads_is_read_as_go_does(expression: str, text: str, *, fits: bool) -> None:
    assert parse_pattern(expression).matches(text) is fits


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("(a+)+b", "a" * 2000),
        ("(a|a)*b", "a" * 2000),
        (".*.*.*.*.*.*.*.*x", "a" * 2000),
        ("(.*)*x", "a" * 2000),
    ],
)
def test_an_expression_that_would_backtrack_for_ages_does_not(expression: str, text: str) -> None:
    """Python's own needs longer than the universe has; the test's time limit would end it."""
    assert not parse_pattern(expression).matches(text)


@pytest.mark.parametrize(
    "expression",
    [
        *("(?=a)", r"(a)\1", "a**", "a{3,2}", "a{9999}", "(", ")", "[a", "[]", "[z-a]"),
        *(
            "+a",
            "a" * 600,
            "((((a{200}){200}){200}){200})",
            "(.{30}){30}" * 30,
            r"\C",
            r"\\\C",
            r"\q",
            "\ud800",
        ),
    ],
)
def test_an_expression_that_is_not_accepted_is_explained(expression: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        parse_pattern(expression)

    assert 10 < len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"10 \€", "10 €"),
        (r"[\€\£]+", "£€"),
        (r"[\←-\→]", "↑"),
        (r"\é\😀", "é😀"),
        (r"\\é", r"\é"),
        (r"\\\é", r"\é"),
        (r"\Q\é\E\é", r"\éé"),
        (r"\Q\\E\é", r"\é"),
        (r"\Q\é", r"\é"),
    ],
)
def test_a_backslash_before_a_character_beyond_ascii_means_that_character(expression: str, text: str) -> None:
    """Earlier versions read it so, and a policy that one of them accepted is not refused."""
    assert parse_pattern(expression).matches(text)


_ESCAPABLE = st.text("\\.-€😀é", max_size=4)


@given(_ESCAPABLE, _ESCAPABLE)
def test_a_text_escaped_character_by_character_fits_itself_alone(text: str, other: str) -> None:
    pattern = parse_pattern("".join(f"\\{character}" for character in text))

    assert pattern.matches(text)
    assert pattern.matches(other) is (other == text)


def test_an_escaped_backslash_before_a_letter_is_one() -> None:
    assert parse_pattern(r"\\C").matches(r"\C")


def test_nothing_is_said_behind_our_back_about_an_expression() -> None:
    """The engine would write to standard error by itself, and to no logger."""
    program = (
        "from schedkit.oci.policy.patterns import parse_pattern\n"
        "parse_pattern('(a|b|ab){0,200}').matches('ab' * 900)\n"
        "try: parse_pattern('(')\n"
        "except ValueError: print('refused')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_a_name_longer_than_any_fits_nothing() -> None:
    assert not parse_pattern(".*").matches("a" * 2049)


def test_the_engine_is_loaded_by_whoever_matches() -> None:
    """A verdict that was kept needs none, nor does a manager: another process matches for it."""
    program = (
        "import sys, schedkit.schedctl.source.trust, schedkit.sked.trust.rules_folder\n"
        "from schedkit.model.trust.policy import default_policy\n"
        "from schedkit.oci.policy.patterns import Re2Pattern\n"
        "(identity,) = default_policy(Re2Pattern).rule.identities\n"
        "print('re2' in sys.modules, identity.subject.matches('x'), 're2' in sys.modules)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "False False True\n"


_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\.", "[a-c-]"])
_EXPRESSIONS = st.recursive(
    _ATOMS,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "{1,}"])).map(
            lambda two: f"({two[0]}){two[1]}"
        )
        | st.lists(inner, min_size=1, max_size=3).map("".join)
        | st.lists(inner, min_size=2, max_size=3).map(lambda some: f"({'|'.join(some)})")
    ),
    max_leaves=6,
)


@given(_EXPRESSIONS, st.text("abc.1\n", max_size=6))
def test_expressions_mean_what_they_mean_in_python(expression: str, text: str) -> None:
    expected = re.fullmatch(expression, text, re.ASCII) is not None

    assert parse_pattern(expression).matches(text) is expected
