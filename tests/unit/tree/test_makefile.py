"""The Makefile: what it starts ends with it, and its help is complete."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rig.guest import kernels

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 30


def await_pid(file: Path) -> int:
    deadline = time.monotonic() + TIMEOUT_S
    while not (text := file.read_text() if file.exists() else "").endswith("\n"):
        assert time.monotonic() < deadline, "the recipe did not start"
        time.sleep(0.02)
    return int(text)


def is_running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it is gone, or is just going
        return False


def await_end(pid: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} outlives make"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize(
    "target",
    [
        "check",
        "demo",
        "demo-kernel",
        "cluster",
        "vm",
        "test-e2e",
        "test-kernels",
        "test-kubernetes",
        "catalog-build",
    ],
)
def test_what_make_starts_ends_when_make_is_killed(
    target: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Python is replaced by a program that would run on."""
    stand_in, linter = tmp_path / "python", tmp_path / "ruff"
    stand_in.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    linter.write_text("#!/bin/sh\nexec sleep 600\n")  # the first thing that `check` starts beside its tests
    for program in (stand_in, linter):
        program.chmod(0o755)
    words = ["make", "--old-file=.venv/.ready", target, f"PYTHON={stand_in}", f"BIN={tmp_path}"]
    with subprocess.Popen(words, cwd=ROOT, env=bare_environment(), stdout=subprocess.DEVNULL) as make:
        try:
            pid = await_pid(tmp_path / "pid")
            assert is_running(pid)
        finally:
            make.send_signal(number)

    try:
        await_end(pid)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)  # the test has failed, and still leaves nothing behind
        raise


@pytest.mark.parametrize("broken", ["mypy", "pytest", None])
def test_a_check_says_all_of_lint_and_of_tests_and_fails_when_either_does(
    broken: str | None, tmp_path: Path
) -> None:
    """By stand-ins: Python says twice what it was asked to run, with time for others to speak between."""
    linter = "#!/bin/sh\necho ${{0##*/}} speaks\nsleep 0.1\nexit {}\n"
    python = "#!/bin/sh\necho $2 begins\n[ $2 = --check ] || sleep 0.2\necho $2 ends\n[ $2 != {} ]\n"
    programs = {name: linter.format(int(name == broken)) for name in ("ruff", "mypy", "lint-imports")}
    for name, text in (programs | {"python": python.format(broken)}).items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    words = ["make", "--old-file=.venv/.ready", "check", f"BIN={tmp_path}", f"PYTHON={tmp_path}/python"]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert (done.returncode, "Error 1" in done.stderr) == ((2, True) if broken else (0, False))
    assert "mypy speaks\n" in done.stdout
    assert "pytest begins\npytest ends\n" in done.stdout


def test_every_line_that_starts_a_program_is_leashed() -> None:
    """A shell between make and the program would take the leash; `exec` removes it."""
    lines = re.findall(r"^\t(.*\$\((?:PYTHON|BIN|UV)\).*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert len(lines) >= 25
    for line in lines:
        plain = line.replace("$(LEASHED)", "")
        plain = re.sub(r"\$\([A-Z]+\)", "", plain)
        assert line.startswith("@exec $(LEASHED) ") or (
            line.removeprefix("@").startswith("$(LEASHED) ")
            and not re.search(r"[][#;\"*?&|<>(){}$`^~!\\']", plain)
        )


@pytest.mark.parametrize(
    ("target", "variable", "word"),
    [
        ("vm", "CMD", "{}"),
        ("vm", "KERNEL", "--kernel={}"),
        ("vm", "TIMEOUT", "--timeout={}"),
        ("cluster", "NODES", "--nodes={}"),
        ("catalog-build", "NAME", "--name={}"),
        ("catalog-measure", "NAME", "--name={}"),
    ],
)
def test_a_value_reaches_the_rig_as_it_was_typed(
    target: str, variable: str, word: str, tmp_path: Path
) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" > {tmp_path}/words\n")
    stand_in.chmod(0o755)
    typed = f"""-x "it's $(uname -r)" $(shell touch {tmp_path}/ran-on-the-host); exit 3"""

    words = ["make", "--old-file=.venv/.ready", target, f"PYTHON={stand_in}", f"{variable}={typed}"]
    done = subprocess.run(
        words, cwd=ROOT, env=bare_environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )

    assert word.format(typed) in (tmp_path / "words").read_text().split("\0")
    assert not (tmp_path / "ran-on-the-host").exists()
    assert done.stdout == ""  # what the rig prints is all there is to see


@pytest.mark.parametrize(
    ("variable", "exported"),
    [("IMG", "OPERATOR_IMAGE"), ("BASE", "OPERATOR_BASE"), ("PYTHON_VERSION", "OPERATOR_PYTHON")],
)
def test_a_value_reaches_the_installation_as_it_was_typed(
    variable: str, exported: str, tmp_path: Path
) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(f'#!/bin/sh\nprintf %s "${exported}" > {tmp_path}/value\n')
    stand_in.chmod(0o755)
    typed = f"""-x "it's $(uname -r)" $(shell touch {tmp_path}/ran-on-the-host); exit 3"""

    subprocess.run(
        ["make", "--old-file=.venv/.ready", "docker-build", f"PYTHON={stand_in}", f"{variable}={typed}"],
        cwd=ROOT,
        env=bare_environment(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    assert (tmp_path / "value").read_text() == typed
    assert not (tmp_path / "ran-on-the-host").exists()


def test_help_names_every_kernel_and_how_many_nodes_there_may_be() -> None:
    described = subprocess.run(
        ["make"],
        cwd=ROOT,
        env=bare_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    ).stdout

    assert f"KERNEL={'|'.join(kernels.KINDS)} " in described
    assert "NODES=0..2 " in described


def test_help_is_the_default_and_names_every_target_but_itself() -> None:
    described = subprocess.run(
        ["make"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
        env=bare_environment(),
    ).stdout

    phony = set(re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    listed = set(re.findall(r"^  ([a-z0-9-]+) ", described, re.MULTILINE))
    assert listed == phony - {"help"}


def test_all_that_is_fetched_lies_where_distclean_deletes(tmp_path: Path) -> None:
    environment = {**bare_environment(), "XDG_CACHE_HOME": str(tmp_path), "UV_CACHE_DIR": "/elsewhere"}
    show = "show: ; @echo $$UV_CACHE_DIR; echo $$PIP_NO_CACHE_DIR"
    words = ["make", f"--eval={show}", "--no-print-directory"]

    def output(*arguments: str) -> str:
        return subprocess.run(
            [*words, *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
        ).stdout  # fmt: skip

    assert output("show").splitlines() == [f"{tmp_path}/schedkit/uv", "1"]
    assert f'rm -rf "{tmp_path}/schedkit"' in output("--dry-run", "distclean").splitlines()


def test_the_full_run_leaves_no_kind_of_kernel_out() -> None:
    words = ["make", "--dry-run", "--old-file=.venv/.ready", "test-full"]
    recipe = subprocess.run(
        words, cwd=ROOT, env=bare_environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    ).stdout

    assert recipe.splitlines()[-1].endswith("-m pytest --full --kernels all tests")


def bare_environment() -> dict[str, str]:
    """Without what an outer make hands to an inner one."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
