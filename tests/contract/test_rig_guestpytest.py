"""What becomes of tests whose guest never runs, and with which words a guest is told to run tests."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rig.build import debian
from rig.guest import kernels, vm
from rig.session import guestpytest, guestruns, reporting, tiers

PLUGINS = (tiers, reporting, guestpytest)
OPTIONS = ("-p", "no:cacheprovider", "--import-mode=importlib")
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
    return pytester.runpytest_inprocess(*OPTIONS, "tests/kernel", plugins=PLUGINS)


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


def test_preparations_that_hang_fail_their_tests_and_nothing_else(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit strikes outside of any test's phases, where it would end the session: so it is translated."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    hanging = """
import time
def prepare_on_host(): time.sleep(60)
pytestmark = [pytestmark, pytest.mark.timeout(1)]
"""
    pytester.makeini("[pytest]\n")
    folder = pytester.mkdir("tests") / "kernel"
    folder.mkdir()
    (folder / "test_in_a_guest.py").write_text(IN_A_GUEST.format(kind="7") + hanging)
    (folder / "test_on_the_host.py").write_text("def test_it(): pass\n")

    done = pytester.runpytest_inprocess(
        "-p", "pytest_timeout", "-o", "timeout_method=signal", *OPTIONS, "tests/kernel", plugins=PLUGINS
    )

    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(["*the guest was not done in time: Timeout*1.0s*"])


def test_a_guest_of_their_own_is_booted_by_tests_after_all_that_share_one(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\n")
    own = "import pytest\npytestmark = pytest.mark.own_guest\ndef test_own(): pass\n"
    files = {"a": IN_A_GUEST.format(kind="7"), "b": own, "c": IN_A_GUEST.format(kind="6")}
    folder = pytester.mkdir("tests") / "kernel"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)

    found = pytester.runpytest_inprocess(*OPTIONS, "--collect-only", "-q", "tests/kernel", plugins=PLUGINS)

    modules = [line.partition("::")[0][-4:-3] for line in found.outlines if "::" in line]
    assert modules == ["c", "c", "a", "a", "b"]


BESIDE = """
import os, pytest
from rig.session import reporting
from rig.base.errors import Unavailable
pytestmark = pytest.mark.own_guest
def test_where():
    reporting.note(f"it ran in {os.getpid()}, a child of {os.getppid()}")
def test_failing(): assert "beside" == "in front"
def test_unable(): raise Unavailable("a guest", "no room", "make room")
"""


def run_beside(pytester: pytest.Pytester, **files: str) -> pytest.RunResult:
    """Run modules of the kernel tier in a process that has the rig's plugins, as its children have."""
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(f"pytest_plugins = {[plugin.__name__ for plugin in PLUGINS]}")
    folder = pytester.mkdir("tests") / "kernel"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return pytester.runpytest_subprocess(*OPTIONS, "tests/kernel", timeout=60)


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.mark.usefixtures("own_process")
def test_what_boots_guests_itself_runs_beside_and_the_session_tells_what_came_of_it(
    pytester: pytest.Pytester,
) -> None:
    note = "def test_it(): reporting.note(f'in front: {os.getpid()}')\n"
    pid = f"import os\nfrom rig.session import reporting\n{note}"

    done = run_beside(pytester, beside=BESIDE, front=pid)

    done.assert_outcomes(passed=2, failed=1, skipped=1)
    text = str(done.stdout)
    (front,) = re.findall(r"in front: (\d+)", text)
    assert re.findall(r"it ran in (\d+), a child of (\d+)", text)[0][1] == front
    done.stdout.fnmatch_lines(["*assert 'beside' == 'in front'", "kernel *", "*beside the others*"])
    done.stdout.fnmatch_lines(["*what could not run*", "a guest: no room", "*to do: make room"])


@pytest.mark.usefixtures("own_process")
def test_what_boots_guests_itself_runs_in_front_when_there_is_nothing_else_to_do(
    pytester: pytest.Pytester,
) -> None:
    done = run_beside(pytester, beside=BESIDE)

    done.assert_outcomes(passed=1, failed=1, skipped=1)
    done.stdout.no_fnmatch_line("*beside the others*")


@pytest.mark.usefixtures("own_process")
def test_a_process_beside_that_dies_fails_the_rest_of_its_module_alone(pytester: pytest.Pytester) -> None:
    dying = "import os, pytest\npytestmark = pytest.mark.own_guest\ndef test_dying(): os._exit(3)\n"
    after = "import pytest\npytestmark = pytest.mark.own_guest\ndef test_after(): pass\n"

    done = run_beside(pytester, dying=dying, later=after, front="def test_it(): pass\n")

    done.assert_outcomes(passed=2, errors=1)
    done.stdout.fnmatch_lines(["*pytest beside this one ended without a result*"])


@pytest.mark.usefixtures("own_process")
def test_what_must_be_alone_comes_when_nothing_runs_beside(pytester: pytest.Pytester) -> None:
    alone = """
import os, pytest
from rig.base import processes
pytestmark = [pytest.mark.own_guest, pytest.mark.alone]
def test_alone(): assert processes.descendants(os.getpid()) == {os.getpid()}
"""

    done = run_beside(pytester, alone=alone, beside=BESIDE, front="def test_it(): pass\n")

    done.assert_outcomes(passed=3, failed=1, skipped=1)
    assert str(done.stdout).index("test_beside.py") < str(done.stdout).index("test_alone.py")


@pytest.mark.parametrize(("kernels_of", "kinds"), [('"6"', ["6", "7"]), ('"6", only=True', ["6"])])
def test_on_all_kernels_a_module_that_wants_one_alone_keeps_to_it(
    pytester: pytest.Pytester, kernels_of: str, kinds: list[str]
) -> None:
    pytester.makepyfile(test_in_a_guest=IN_A_GUEST.replace('"{kind}"', kernels_of))

    words = (*OPTIONS, "--collect-only", "-q", "--kernels", "all")
    done = pytester.runpytest_inprocess(*words, plugins=PLUGINS)

    assert re.findall(r"::test_one\[(\w+)\]", str(done.stdout)) == kinds


def test_a_guest_is_asked_for_long_tests_exactly_when_the_host_is(pytester: pytest.Pytester) -> None:
    every_day = pytester.parseconfig("-p", "rig.session.tiers", "-p", "rig.session.guestpytest")
    full = pytester.parseconfig(
        "-p", "rig.session.tiers", "-p", "rig.session.guestpytest", "--full", "--kernels", "all"
    )

    assert "--full" not in guestpytest.words_for(every_day, ["test_it"])
    words = guestpytest.words_for(full, ["test_it"])
    assert words[words.index("--kernels") :] == ["--kernels", "all", "--full", "test_it"]


def test_in_a_guest_a_hang_ends_before_the_host_gives_up_on_the_module(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv(reporting.IN_GUEST, str(pytester.path / "reports"))
    probe = """
import pytest
def limit(request): return request.node.get_closest_marker("timeout").args[0]
def test_default(request): assert limit(request) < {host}
@pytest.mark.timeout(7)
def test_own(request): assert limit(request) == 7
"""
    pytester.makeini("[pytest]\n")
    folder = pytester.mkdir("tests") / "kernel"
    folder.mkdir()
    (folder / "test_it.py").write_text(probe.format(host=guestruns.RESULT_TIMEOUT_S))

    pytester.runpytest_inprocess(*OPTIONS, "tests/kernel", plugins=PLUGINS).assert_outcomes(passed=2)
    assert tiers.LIMITS_S["kernel"] > guestruns.RESULT_TIMEOUT_S + 2 * vm.BOOT_TIMEOUT_S
