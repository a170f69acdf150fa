"""What holds for every verb of `schedctl`: how wrong usage ends, its formats, and what completes it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import islice, repeat
from pathlib import Path

import click
import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from rig import consoles
from schedkit.cli import VerbGroup
from schedkit.kernel.uevents import Listener
from schedkit.model.host.snapshot import Snapshot
from schedkit.model.kernel.sched_ext import KernelState, State
from schedkit.schedctl.answers.answer import Answer
from schedkit.schedctl.change import snapshot
from schedkit.schedctl.change.signals import ended_in_order
from schedkit.schedctl.main import main
from schedkit.schedctl.problems import problem
from schedkit.schedctl.problems.problem import ExitCode
from schedkit.schedctl.settings.flags import SettingOption
from schedkit.schedctl.settings.table import FORMATS, SETTINGS
from schedkit.schedctl.verbs.machine import status, status_watch

ROOT = Path(__file__).parents[3]
PASSES_ON_TEXT = {("logs",), ("completion",)}  # of a scheduler, and for a shell


def verbs(
    group: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, VerbGroup):
        yield words, group
        return
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        verb = group.get_command(ctx, name)
        assert verb is not None
        yield from verbs(verb, (*words, name))


VERBS = dict(verbs())
each_verb = pytest.mark.parametrize("words", VERBS, ids=" ".join)


# How verbs end


@each_verb
@pytest.mark.parametrize("wrong", [["--no-such-flag"], ["--help=3"]], ids=" ".join)
def test_usage_that_is_wrong_ends_with_64_and_says_how_it_is_right(
    words: tuple[str, ...], wrong: list[str]
) -> None:
    done = CliRunner().invoke(main, [*words, *wrong])

    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    assert done.stderr.startswith(f"Usage: main {' '.join(words)} ")


@pytest.mark.parametrize(
    "words", [words for words, verb in VERBS.items() if any(p.required for p in verb.params)]
)
def test_a_word_that_is_missing_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, words).exit_code == ExitCode.USAGE


def test_every_exit_code_has_a_meaning_and_its_number_stays() -> None:
    assert {code.name: code.value for code in problem.MEANINGS} == {
        "DONE": 0,
        "FAILED": 1,
        "DISCREPANCY": 2,
        "USAGE": os.EX_USAGE,
        "OUTPUT_LOST": os.EX_IOERR,
        "LEFT_BEHIND": os.EX_TEMPFAIL,
        "HUNG_UP": 129,
        "TERMINATED": 143,
    }
    assert set(problem.MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGHUP, ExitCode.HUNG_UP), (signal.SIGTERM, ExitCode.TERMINATED)],
    ids=["SIGHUP", "SIGTERM"],
)
def test_a_change_that_a_signal_ends_has_an_exit_code_of_the_table(
    number: signal.Signals, code: ExitCode
) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # below nohup it is passed over
    try:
        with pytest.raises(SystemExit) as end, ended_in_order():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)

    assert end.value.code == code


def test_ctrl_c_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(snapshot, "look", interrupted)

    assert CliRunner().invoke(main, ["ps"]).exit_code == ExitCode.FAILED


# Formats and settings


@each_verb
def test_every_verb_answers_in_every_format_unless_it_passes_text_on(words: tuple[str, ...]) -> None:
    [*formats] = [
        option.type.choices
        for option in VERBS[words].params
        if "--output" in option.opts and isinstance(option.type, click.Choice)
    ]

    assert formats == ([] if words in PASSES_ON_TEXT else [FORMATS])


@each_verb
def test_a_flag_that_is_a_setting_is_made_from_the_table(words: tuple[str, ...]) -> None:
    """Else files and variables would count for some verbs only."""
    known = {flag for setting in SETTINGS for flag in setting.flags if flag.startswith("--")}

    by_hand = [
        option.opts
        for option in VERBS[words].params
        if known & set(option.opts) and not isinstance(option, SettingOption)
    ]
    assert by_hand == []


# Completion


def completed(*words: str) -> list[str]:
    """What a shell offers for the last word."""
    *before, incomplete = words
    shell = ShellComplete(main, {}, "schedctl", "_SCHEDCTL_COMPLETE")
    return [str(item.value) for item in shell.get_completions(list(before), incomplete)]


def test_verbs_flags_formats_and_schedulers_are_completed() -> None:
    assert completed("st") == ["status", "stop"]
    assert completed("--cat") == ["--catalog"]
    assert completed("status", "-o", "") == list(FORMATS)
    assert completed("run", "scx_rus") == ["scx_rustland", "scx_rusty"]
    assert completed("doctor", "--image", "scx_lav") == ["scx_lavd"]
    assert completed("catalog", "up") == ["update"]


def test_where_no_runtime_answers_no_container_is_offered_and_nothing_fails(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.sock")

    assert completed("--podman-socket", nowhere, "--containerd-socket", nowhere, "stop", "") == []


def test_completing_a_verb_imports_none() -> None:
    probe = (
        "import sys\nfrom click.shell_completion import ShellComplete\n"
        "from schedkit.schedctl.main import main\n"
        "print(len(ShellComplete(main, {}, 'x', 'X').get_completions([], '')), *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    count, *modules = done.stdout.split()
    assert int(count) > 10
    assert {"msgspec", "schedkit.schedctl.verbs.machine.run"} & set(modules) == set()


# The manual


def test_every_verb_has_a_page_in_the_manual_and_no_page_is_left_over() -> None:
    groups = {words[:-1] for words in VERBS}
    pages = {"-".join(("schedctl", *words)) for words in {*VERBS, *groups}}

    assert {file.stem for file in (ROOT / "man").glob("*.1")} == pages


# The pages


def test_symptoms_that_the_page_explains_are_really_said() -> None:
    """Somebody will search for them."""
    page = (ROOT / "docs/schedctl/troubleshooting.md").read_text()
    code = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))

    explained = re.findall("^### `(.+)`$", page, re.MULTILINE)

    assert len(explained) > 15
    assert [words for words in explained if not is_said(words, code)] == []


def is_said(words: str, code: str) -> bool:
    """As it stands, or where the code fills in what the page has as an example."""
    filled = {"CAP_BPF is not effective": "{capability} is not effective", "(step 3)": "(step {"}
    return filled.get(words, words) in code


def test_commands_that_are_shown_are_run_by_a_test_or_say_why_not() -> None:
    pages = [file.read_text() for file in (ROOT / "docs/schedctl").glob("*.md")]
    left_out = r"^<!-- not run: [^>]+ -->\n```console\n(.*?)^```$"

    for page in pages:
        skipped = "".join(re.findall(left_out, page, re.MULTILINE | re.DOTALL)).count("$ ")
        run = sum(isinstance(step, consoles.Command) for step in consoles.steps(page))
        assert run + skipped == len(re.findall(r"^\$ ", page, re.MULTILINE))


# Watching


def seen(ops: str | None, seq: int) -> Snapshot:
    state = State.ENABLED if ops else State.DISABLED
    return Snapshot(KernelState(state, ops, enable_seq=seq), containers=())


def test_only_what_changed_is_told_and_an_attachment_anew_is_a_change() -> None:
    looks = [seen(None, 1), seen(None, 1), seen("mini", 2), seen("mini", 3), seen("mini", 3), seen(None, 3)]

    told = list(status_watch.changes(status.answer(look, "podman") for look in looks))

    kernels = [answer.result["kernel"] for answer in told]  # type: ignore[index]  # of `status` it is a mapping
    assert [(each["ops"], each["enable_seq"]) for each in kernels] == [
        ("", 1),
        ("mini", 2),
        ("mini", 3),
        ("", 3),
    ]


def test_a_change_is_one_line_in_words_and_in_json_and_one_document_in_yaml() -> None:
    answer, now = status.answer(seen("mini", 1), "podman"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    text, as_json, as_yaml = (status_watch.line(answer, form, now) for form in ("text", "json", "yaml"))

    assert text.startswith("2026-01-02T03:04:05+00:00  orphaned-kernel-state: ")
    assert "; next: " in text
    assert (text.count("\n"), as_json.count("\n")) == (1, 1)
    assert json.loads(as_json)["observed_at"] == "2026-01-02T03:04:05+00:00"
    assert list(yaml.safe_load_all(as_yaml)) == [json.loads(as_json)]


def test_where_the_kernel_cannot_be_heard_it_is_looked_at_again_and_again() -> None:
    def refused() -> Listener:
        raise PermissionError

    with status_watch.heard(refused, poll_s=0.001) as when:
        assert len(list(islice(when, 3))) == 3


def test_watching_goes_on_until_ctrl_c_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([status.answer(seen(None, 1), "podman"), status.answer(seen("mini", 2), "podman")])

    def look() -> Answer:
        watched = next(looks, None)
        if watched is None:
            raise KeyboardInterrupt
        return watched

    with pytest.raises(SystemExit) as ended:
        status_watch.follow(look, "json", moments=lambda: nullcontext(repeat(None)))

    assert ended.value.code == ExitCode.DONE
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["kernel"]["state"] for each in told] == ["disabled", "enabled"]
