"""The list of breakages is about this tree, and none of them counts as caught but by a test that failed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from difflib import ndiff
from functools import cache
from pathlib import Path

import pytest

from breakages import listed, outcomes
from breakages.listed import ROOT, Breakage
from breakages.outcomes import Phase
from rig.base.errors import RigError

LISTED = listed.read()
FEWEST, FEWEST_PER_PACKAGE = 40, 2
TEST = "tests/unit/test_x.py::test_it"

each_breakage = pytest.mark.parametrize("breakage", LISTED, ids=lambda each: each.name)


@each_breakage
def test_a_breakage_changes_one_line_that_stands_in_its_file_once(breakage: Breakage) -> None:
    whole = (ROOT / breakage.file).read_text()
    broken = breakage.applied_to(whole)

    ast.parse(broken)  # what nobody can import every test would catch
    changes = Counter(line[0] for line in ndiff(breakage.old.splitlines(), breakage.new.splitlines()))
    assert (changes["-"], changes["+"] <= 1) == (1, True)


@each_breakage
def test_a_breakage_names_a_test_of_every_day(breakage: Breakage) -> None:
    file, _, rest = breakage.test.partition("::")
    module = parsed(ROOT / file)
    tests = {each.name: each for each in ast.walk(module) if isinstance(each, ast.FunctionDef)}
    found = tests[rest.partition("[")[0].rpartition("::")[2]]

    marks = [*found.decorator_list, *_marks_of_all(module)]
    assert "pytest.mark.full" not in {ast.unparse(each) for each in marks}


@cache  # many breakages are caught by tests of one module
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _marks_of_all(module: ast.Module) -> Iterator[ast.expr]:
    for each in module.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark":
            yield from each.value.elts if isinstance(each.value, ast.List) else [each.value]


def test_there_are_breakages_enough_and_two_for_each_package() -> None:
    source = ROOT / "src/schedkit"
    packages = {each.name for each in source.iterdir() if list(each.glob("*.py")) or each.name == "cli.py"}
    found = Counter(each.package for each in LISTED)

    assert len(LISTED) >= FEWEST
    assert {each: found[each] for each in packages if found[each] < FEWEST_PER_PACKAGE} == {}


def test_no_two_breakages_are_the_same() -> None:
    assert len({(each.file, each.old, each.new) for each in LISTED}) == len(LISTED)


@pytest.mark.parametrize("text", ["", "twice, twice"])
def test_what_does_not_stand_in_the_file_once_is_not_broken(text: str) -> None:
    with pytest.raises(RigError, match=r"times in .*, not once"):
        Breakage("b", "p", "src/schedkit/cli.py", "twice", "", TEST).applied_to(text)


def test_breakages_are_chosen_by_name_by_number_and_by_tier() -> None:
    first, second = LISTED[:2]

    assert listed.chosen(LISTED, ["1", second.name], None) == [first, second]
    assert {each.tier for each in listed.chosen(LISTED, [], "kernel")} == {"kernel"}
    with pytest.raises(RigError, match="no breakage is called nonsense"):
        listed.chosen(LISTED, ["nonsense"], None)


PASSED = Phase(TEST, "call", "passed")


@pytest.mark.parametrize("test", [TEST, f"{TEST}[with a parameter]"])
def test_a_test_that_failed_has_caught_the_breakage(test: str) -> None:
    phases = [Phase(test, "setup", "passed"), Phase(test, "call", "failed", "assert 1 == 2")]

    assert outcomes.why_not_caught(TEST, phases) is None
    assert "without any breakage" in (outcomes.why_not_passed(TEST, phases) or "")


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        ([], "did not run"),
        ([PASSED], "passed in spite"),
        ([PASSED, Phase("tests/unit/test_x.py::test_it_too", "call", "failed")], "passed in spite"),
        ([Phase(TEST, "setup", "failed", "no guest")], "broke in its setup"),
        ([PASSED, Phase(TEST, "teardown", "failed")], "broke in its teardown"),
        ([Phase(TEST, "setup", "skipped", "run this as root")], "run this as root"),
        ([Phase(TEST, "call", "failed", "Timeout (>120.0s) from pytest-timeout.")], "hung"),
    ],
)
def test_any_other_word_of_a_test_is_no_proof(phases: list[Phase], words: str) -> None:
    assert words in (outcomes.why_not_caught(TEST, phases) or "")


def test_what_pytest_makes_of_tests_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Path(pytester.path, "told")
    monkeypatch.setenv(outcomes.VARIABLE, str(told))
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def broken():
            assert False

        def test_passes(): pass
        def test_fails(): assert False
        def test_errs(broken): pass
        """
    )
    pytester.runpytest_inprocess("-p", outcomes.__name__)
    phases = outcomes.read(told)

    caught = [outcomes.why_not_caught(f"test_it.py::test_{it}", phases) for it in ("passes", "fails", "errs")]
    assert [why and why.partition(",")[0] for why in caught] == [
        "it passed in spite of the breakage",
        None,
        "it broke in its setup",
    ]


def test_a_module_that_cannot_be_imported_has_caught_nothing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Path(pytester.path, "told")
    monkeypatch.setenv(outcomes.VARIABLE, str(told))
    pytester.makepyfile(test_it="import nothing_of_that_name\n\ndef test_it(): assert False\n")
    pytester.runpytest_inprocess("-p", outcomes.__name__, "test_it.py::test_it")

    assert "did not run" in (outcomes.why_not_caught("test_it.py::test_it", outcomes.read(told)) or "")
