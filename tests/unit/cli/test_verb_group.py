"""`VerbGroup`: lazy verbs, nearest names, and the exit code of wrong usage."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from schedkit.cli import Verb, VerbGroup

VERB_SOURCE = """
import click

@click.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text")
@click.option("--broken", is_flag=True)
def command(output, broken):
    if broken:
        open("/")
    click.echo(f"status as {output}")
"""


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VerbGroup:
    """A command with the verbs `status` and `stop`, of which only `status` exists on disk."""
    (tmp_path / "verb_on_disk.py").write_text(VERB_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "verb_on_disk", raising=False)
    verbs = {
        "status": Verb("verb_on_disk:command", "Say what runs."),
        "stop": Verb("verb_that_is_not_there:command", "Stop what runs."),
    }
    return VerbGroup("tool", verbs=verbs)


def call(group: VerbGroup, *arguments: str) -> Result:
    return CliRunner().invoke(group, arguments, prog_name="tool")


def test_a_verb_is_imported_when_it_is_called(group: VerbGroup) -> None:
    assert "verb_on_disk" not in sys.modules

    assert call(group, "status").output == "status as text\n"

    assert "verb_on_disk" in sys.modules


def test_help_lists_the_verbs_in_order_without_importing_them(group: VerbGroup) -> None:
    done = call(group, "--help")

    assert done.exit_code == 0
    assert done.output.endswith("Commands:\n  status  Say what runs.\n  stop    Stop what runs.\n")
    assert "verb_on_disk" not in sys.modules


def test_a_mistyped_verb_exits_64_and_names_the_nearest(group: VerbGroup) -> None:
    done = call(group, "statsu")

    assert (done.exit_code, done.stdout) == (64, "")
    assert "Error: No such command 'statsu'. Did you mean 'status'?" in done.stderr


def test_a_verb_unlike_any_other_gets_no_guess(group: VerbGroup) -> None:
    done = call(group, "xyz")

    assert done.exit_code == 64
    assert done.stderr.endswith("Error: No such command 'xyz'.\n")


def test_a_mistyped_flag_of_a_verb_exits_64_and_names_the_nearest(group: VerbGroup) -> None:
    done = call(group, "status", "--outptu", "json")

    assert (done.exit_code, done.stdout) == (64, "")
    assert "--output" in done.stderr


def test_a_wrong_value_of_a_flag_exits_64_and_says_what_is_possible(group: VerbGroup) -> None:
    done = call(group, "status", "--output", "yaml")

    assert done.exit_code == 64
    assert "'yaml' is not one of 'text', 'json'" in done.stderr


def test_a_value_for_a_flag_of_a_verb_that_takes_none_gets_the_usage_of_the_verb(group: VerbGroup) -> None:
    done = call(group, "status", "--broken=3")

    assert done.exit_code == 64
    assert done.stderr.startswith("Usage: tool status [OPTIONS]\nTry 'tool status --help' for help.\n")


def test_a_verb_explains_itself_also_to_the_short_flag(group: VerbGroup) -> None:
    assert call(group, "status", "-h").output == call(group, "status", "--help").output != ""


def test_a_failure_of_a_verb_is_not_taken_for_lost_output(group: VerbGroup) -> None:
    done = call(group, "status", "--broken")

    assert isinstance(done.exception, OSError)
    assert done.stderr == ""


def test_a_verb_that_is_no_command_is_a_mistake_of_ours_not_of_the_user(group: VerbGroup) -> None:
    broken = VerbGroup("tool", verbs={"status": Verb("verb_on_disk:click", "Not a command.")})

    with pytest.raises(TypeError, match="verb_on_disk:click is not a click command"):
        broken.get_command(click.Context(broken), "status")
