"""What a run says at its end, proved on small trees of tests that are run by a pytest of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.session import reporting, tiers

RIG_FOLDER = Path(__file__).parents[1]
OPTIONS = ("-p", "no:cacheprovider", "--import-mode=importlib")
TIMEOUT_S = 60
# not in the folder `tests`: pytest would take the module that our own session knows by that name
CONFTEST = "../conftest.py"
GOOD = "def test_good(): pass\n"
MISSING = """
import pytest
from rig.base.errors import Unavailable

@pytest.fixture
def podman():
    raise Unavailable("Podman", "no root", "run as root")

def test_in_a_fixture(podman): pass
def test_in_the_test(): raise Unavailable("a registry", "no Go", "install Go")
def test_good(): pass
"""
SKIPPED = "import pytest\n@pytest.mark.skip(reason='not today')\ndef test_lazy(): pass\n"


@dataclass
class Done:
    """How a session ended, and what it printed."""

    code: int
    text: str


class Sessions:
    """Runs pytest on planted tests, with a cache of its own and without CI unless told."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = pytester.path
        self.cache = pytester.path / "cache" / "schedkit"
        self._pytester = pytester
        self._monkeypatch = monkeypatch
        for name in ("CI", "PYTEST_ADDOPTS", "RIG_GUEST_REPORTS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache.parent))
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def plant(self, tests: Mapping[str, str]) -> None:
        """Write the files, named relative to the folder `tests`."""
        self._pytester.makeini("[pytest]\n")
        for name, source in tests.items():
            file = self.folder / "tests" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)

    def run(self, tests: Mapping[str, str], *arguments: str, **environment: str) -> Done:
        """Plant the tests and run them, all tiers unless the arguments say otherwise."""
        self.plant(tests)
        with self._monkeypatch.context() as context:
            for name, value in environment.items():
                context.setenv(name, value)
            words = [*OPTIONS, *(arguments or ("tests",))]
            result = self._pytester.runpytest_inprocess(*words, plugins=[tiers, reporting])
        return Done(int(result.ret), str(result.stdout))


@pytest.fixture
def sessions(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    ours = signal.getsignal(signal.SIGTERM)
    yield Sessions(pytester, monkeypatch)
    signal.signal(signal.SIGTERM, ours)


def every_tier() -> dict[str, str]:
    return {f"{tier}/test_{tier}.py": GOOD for tier in tiers.TIERS}


def test_what_the_machine_cannot_run_is_skipped_and_listed_with_a_remedy(sessions: Sessions) -> None:
    done = sessions.run({"contract/test_it.py": MISSING})

    assert done.code == 0
    assert "1 passed, 2 skipped" in done.text
    listing = done.text.partition("what could not run")[2]
    podman = "Podman: no root\n    to do: run as root\n    tests/contract/test_it.py::test_in_a_fixture\n"
    assert podman in listing
    registry = "a registry: no Go\n    to do: install Go\n    tests/contract/test_it.py::test_in_the_test\n"
    assert registry in listing


def test_many_tests_with_one_cause_are_counted(sessions: Sessions) -> None:
    head = MISSING.partition("def test_in_a_fixture")[0]
    tests = "".join(f"def test_{number}(podman): pass\n" for number in range(9))

    done = sessions.run({"contract/test_it.py": head + tests})

    assert done.text.count("to do: run as root") == 1
    assert "and 6 more" in done.text


def test_the_list_makes_ci_fail(sessions: Sessions) -> None:
    done = sessions.run({"contract/test_it.py": MISSING}, "tests/contract", CI="true")

    assert done.code == 1
    assert "2 tests could not run on this machine" in done.text
    assert "were skipped" not in done.text


def test_a_plugin_may_name_the_remedy_for_a_test_it_skips(sessions: Sessions) -> None:
    source = """
import pytest
from rig.session import reporting
from rig.base.errors import Unavailable

def test_it(request):
    reporting.record_missing(request.node.nodeid, Unavailable("a guest", "no QEMU", "install QEMU"))
    pytest.skip("no guest")
"""

    done = sessions.run({"kernel/test_it.py": source}, "tests/kernel", CI="true")

    assert "a guest: no QEMU\n    to do: install QEMU\n    tests/kernel/test_it.py::test_it\n" in done.text
    assert "were skipped" not in done.text


def test_a_plain_skip_is_listed_and_makes_only_ci_fail(sessions: Sessions) -> None:
    tests = {"unit/test_it.py": GOOD + SKIPPED}

    at_home, in_ci = sessions.run(tests), sessions.run(tests, "tests/unit", CI="true")

    assert (at_home.code, in_ci.code) == (0, 1)
    assert "tests/unit/test_it.py::test_lazy: not today" in at_home.text
    assert "1 tests were skipped" in in_ci.text


def test_an_empty_tier_makes_only_ci_fail(sessions: Sessions) -> None:
    tests = every_tier() | {"kernel/test_kernel.py": ""}

    at_home, in_ci = sessions.run(tests), sessions.run(tests, CI="true")

    assert (at_home.code, in_ci.code) == (0, 1)
    assert "no test of the tier kernel ran" in in_ci.text
    assert "no test of the tier e2e ran" not in in_ci.text


def test_a_tier_whose_folder_is_gone_makes_ci_fail(sessions: Sessions) -> None:
    tests = every_tier()
    del tests["e2e/test_e2e.py"]

    assert "no test of the tier e2e ran" in sessions.run(tests, CI="true").text


def test_a_tier_that_was_not_asked_for_may_be_empty(sessions: Sessions) -> None:
    assert sessions.run(every_tier() | {"kernel/test_kernel.py": ""}, "tests/unit", CI="true").code == 0


def test_a_complete_run_passes_ci(sessions: Sessions) -> None:
    done = sessions.run(every_tier(), CI="true")

    assert done.code == 0
    assert "not good enough" not in done.text
    assert "what could not run" not in done.text


def test_a_failure_stays_a_failure(sessions: Sessions) -> None:
    assert sessions.run(every_tier() | {"unit/test_unit.py": "def test_bad(): assert False\n"}).code == 1


def test_where_nothing_ran_no_table_is_shown(sessions: Sessions) -> None:
    done = sessions.run({"unit/test_it.py": GOOD}, "tests", "-k", "nosuch")

    assert "1 deselected" in done.text
    assert "what ran" not in done.text
    assert not re.search(r"^tier ", done.text, re.MULTILINE)


def test_a_cache_that_cannot_be_is_wrong_usage_and_no_crash(sessions: Sessions) -> None:
    sessions.plant({"unit/test_it.py": GOOD})
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *OPTIONS,
            "-p",
            "rig.session.tiers",
            "-p",
            "rig.session.reporting",
            "tests",
        ],
        cwd=sessions.folder,
        env=os.environ | {"PYTHONPATH": str(RIG_FOLDER), "XDG_CACHE_HOME": "/with a space"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.startswith("ERROR: set XDG_CACHE_HOME to an absolute path without a space or quote")


def test_each_tier_is_counted_and_timed_and_quick_ones_come_first(sessions: Sessions) -> None:
    tests = every_tier() | {"unit/test_unit.py": "import time\ndef test_slow(): time.sleep(0.3)\n"}

    done = sessions.run(tests, "-v")

    counted = {row[0]: row[1:] for row in tier_rows(done)}
    assert list(counted) == list(tiers.TIERS)
    assert counted["kernel"][:3] == ["1", "0", "0"]
    assert float(counted["unit"][3]) >= 0.3
    played = done.text.partition("the slowest")[0]
    order = [line.split("/")[1] for line in played.splitlines() if "::" in line]
    assert order == list(tiers.TIERS)


def test_time_that_a_plugin_spends_between_tests_counts_for_the_tier_it_is_spent_for(
    sessions: Sessions,
) -> None:
    """Guests boot and stop outside of what pytest measures of a test."""
    slow = """
import time, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if item.nodeid.startswith("tests/kernel"):
        time.sleep(1)
"""

    done = sessions.run(every_tier() | {CONFTEST: slow})

    seconds = {row[0]: float(row[4]) for row in tier_rows(done)}
    assert seconds["kernel"] >= 1
    rounding = 0.05 * (len(seconds) + 1)
    assert sum(seconds.values()) <= whole_session_s(done) + rounding
    assert seconds["kernel"] == max(seconds.values())


def tier_rows(done: Done) -> list[list[str]]:
    """The summary's table: tier, passed, failed, skipped, time."""
    rows = [line.split() for line in done.text.partition("what ran")[2].splitlines()]
    return [row for row in rows if row and row[0] in tiers.TIERS]


def whole_session_s(done: Done) -> float:
    told = re.search(r" in ([0-9.]+)s", done.text.splitlines()[-1])
    assert told is not None
    return float(told[1])


def test_what_nobody_offers_is_named_and_ci_is_content(sessions: Sessions) -> None:
    source = """
import pytest
from rig.session import reporting
from rig.base.errors import Unavailable

def test_good(): pass
@pytest.mark.parametrize("number", [1, 2])
def test_it(request, number):
    gone = Unavailable("kernel kind none", "no suite has one", "name a suite")
    reporting.excuse(request.node.nodeid, gone)
    pytest.skip(str(gone))
"""

    done = sessions.run({"kernel/test_it.py": source}, "tests/kernel", CI="true")

    line = "kernel kind none: no suite has one, so its tests did not run; name a suite"
    assert done.text.splitlines().count(line) == 1
    assert (done.code, "what could not run" in done.text) == (0, False)


def test_notes_of_rigs_are_shown_once(sessions: Sessions) -> None:
    source = "from rig.session import reporting\ndef test_it():\n    reporting.note('kernel 7.x is 7.2')\n"

    done = sessions.run({"unit/test_a.py": source, "unit/test_b.py": source})

    assert done.text.splitlines().count("kernel 7.x is 7.2") == 1


def test_the_size_of_the_cache_is_told_when_it_was_used(sessions: Sessions) -> None:
    heavy = sessions.cache / "heavy"
    heavy.parent.mkdir(parents=True)
    heavy.write_bytes(os.urandom(5 * 2**20))

    used, unused = sessions.run(every_tier()), sessions.run(every_tier(), "tests/unit")

    told = re.search(r"the cache holds (\d+) MiB in (.+)", used.text)
    assert told is not None
    assert told[2] == str(sessions.cache)
    assert 5 <= int(told[1]) <= 6  # folders count too
    assert "the cache holds" not in unused.text


def test_pytests_closing_line_is_the_last(sessions: Sessions) -> None:
    done = sessions.run({"contract/test_it.py": MISSING + "def test_bad(): assert False\n"}, CI="true")

    assert "1 failed, 1 passed, 2 skipped in " in done.text.splitlines()[-1]
    assert done.text.index("short test summary info") < done.text.index("what ran")


def test_a_report_from_a_guest_brings_its_remedy_along(sessions: Sessions) -> None:
    """Guests hand their reports over as JSON, and say nothing at the end themselves."""
    carry = """
import json, pytest
from rig.base.errors import Unavailable

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    report = yield
    return pytest.TestReport._from_json(json.loads(json.dumps(report._to_json(), default=str)))
"""
    tests = {CONFTEST: carry, "kernel/test_it.py": MISSING}

    on_the_host, in_a_guest = sessions.run(tests), sessions.run(tests, RIG_GUEST_REPORTS="somewhere")

    assert "    to do: run as root" in on_the_host.text
    assert "what ran" not in in_a_guest.text


def test_long_tests_run_only_when_asked_for(sessions: Sessions) -> None:
    tests = {"unit/test_it.py": GOOD + "import pytest\n@pytest.mark.full\ndef test_long(): pass\n"}

    assert "1 passed, 1 deselected" in sessions.run(tests).text
    assert "2 passed" in sessions.run(tests, "--full", "tests").text


def test_a_hang_ends_at_the_limit_of_its_tier_or_its_own(sessions: Sessions) -> None:
    probe = """
import pytest
def limit(request): return request.node.get_closest_marker("timeout").args[0]
def test_default(request): assert limit(request) == {}
@pytest.mark.timeout(7)
def test_own(request): assert limit(request) == 7
"""
    tests = {f"{tier}/test_it.py": probe.format(tiers.LIMITS_S[tier]) for tier in tiers.TIERS}

    done = sessions.run(tests)

    assert done.text.splitlines()[-1].strip("= ").startswith("10 passed in ")


def test_folders_of_a_killed_run_are_swept_at_the_start(sessions: Sessions) -> None:
    abandoned = sessions.cache / "run" / "vm-killed"
    abandoned.mkdir(parents=True)
    (abandoned / ".owner").touch()

    in_a_guest = sessions.run(every_tier(), RIG_GUEST_REPORTS="somewhere")
    assert (in_a_guest.code, abandoned.exists()) == (0, True)

    assert sessions.run(every_tier()).code == 0
    assert not abandoned.exists()


def test_sigterm_lets_fixtures_clean_up(sessions: Sessions) -> None:
    source = """
import pathlib, time, pytest

@pytest.fixture
def thing():
    yield
    pathlib.Path("cleaned").touch()

def test_it(thing):
    pathlib.Path("started").touch()
    time.sleep(60)
"""
    sessions.plant({"unit/test_it.py": source})
    plugins = ["-p", "rig.session.tiers", "-p", "rig.session.reporting"]
    words = [sys.executable, "-m", "pytest", *plugins, *OPTIONS, "tests"]
    env = os.environ | {"PYTHONPATH": str(RIG_FOLDER)}
    with subprocess.Popen(words, cwd=sessions.folder, env=env, stdout=subprocess.PIPE, text=True) as child:
        await_file(sessions.folder / "started")
        child.send_signal(signal.SIGTERM)
        text, _ = child.communicate(timeout=TIMEOUT_S)

    assert child.returncode == pytest.ExitCode.INTERRUPTED, text
    assert (sessions.folder / "cleaned").exists()


def test_a_run_in_the_background_of_a_script_teaches_nobody_to_ignore_ctrl_c(sessions: Sessions) -> None:
    source = """
import signal, subprocess

def test_it():
    with subprocess.Popen(["sleep", "60"]) as child:
        child.send_signal(signal.SIGINT)
        assert child.wait(10) == -signal.SIGINT
"""
    sessions.plant({"unit/test_it.py": source})
    plugins = ["-p", "rig.session.tiers", "-p", "rig.session.reporting"]
    words = [sys.executable, "-m", "pytest", *plugins, *OPTIONS, "tests"]
    in_background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *words]
    env = os.environ | {"PYTHONPATH": str(RIG_FOLDER)}

    done = subprocess.run(
        in_background, cwd=sessions.folder, env=env, capture_output=True, check=False, timeout=TIMEOUT_S
    )

    assert done.returncode == 0, done.stdout


def await_file(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)


def test_a_note_without_a_session_is_nobodys_business() -> None:
    """Rigs that a person starts by hand have no summary."""
    words = [sys.executable, "-c", "from rig.session import reporting\nreporting.note('kernel 7.x is 7.2')\n"]

    subprocess.run(words, env=os.environ | {"PYTHONPATH": str(RIG_FOLDER)}, check=True, timeout=TIMEOUT_S)
