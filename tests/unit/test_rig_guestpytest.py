"""What becomes of tests whose kernel nobody offers: no guest, no failure, and a line that says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rig import debian, guestpytest, kernels, reporting, tiers

PLUGINS = (tiers, reporting, guestpytest)
IN_A_GUEST = """
import pytest
pytestmark = pytest.mark.kernel("{kind}")

@pytest.fixture(scope="module", autouse=True)
def kernel_kind(request): return request.param

def test_one(): pass
def test_two(): pass
"""


@pytest.fixture
def empty_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds that are in no suite, a cache without earlier choices, and CI."""
    debian.machine_suite()
    for name, kind in kernels.KINDS.items():
        monkeypatch.setitem(kernels.KINDS, name, replace(kind, suites=()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("CI", "true")


def run(pytester: pytest.Pytester, kind: str) -> pytest.RunResult:
    """Run two tests for the kind, and one that needs no guest."""
    pytester.makeini("[pytest]\n")
    folder = pytester.mkdir("tests") / "kernel"
    folder.mkdir()
    (folder / "test_in_a_guest.py").write_text(IN_A_GUEST.format(kind=kind))
    (folder / "test_on_the_host.py").write_text("def test_it(): pass\n")
    options = ("-p", "no:cacheprovider", "--import-mode=importlib")
    return pytester.runpytest_inprocess(*options, "tests/kernel", plugins=PLUGINS)


def test_no_kernel_without_sched_ext_is_named_once_and_fails_nothing(
    pytester: pytest.Pytester, empty_archives: None
) -> None:
    done = run(pytester, "none")

    done.assert_outcomes(passed=1, skipped=2)
    assert done.ret == pytest.ExitCode.OK
    assert str(done.stdout).count("kernel kind none: no kernel without sched_ext") == 1
    done.stdout.no_fnmatch_line("*what could not run*")


def test_no_kernel_with_sched_ext_fails_the_run(pytester: pytest.Pytester, empty_archives: None) -> None:
    done = run(pytester, "7")

    done.assert_outcomes(passed=1, skipped=2)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["*what could not run*", "kernel kind 7: no kernel with sched_ext*"])
