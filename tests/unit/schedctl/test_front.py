"""What all verbs of `schedctl` share: formats, problems, exit codes, and what is imported."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from rich.console import Console

from schedkit.model.catalog import InvalidCatalog
from schedkit.schedctl import main
from schedkit.schedctl.answers import result, terminal
from schedkit.schedctl.answers.answer import Answer, Block, Fields, Table, answering, render
from schedkit.schedctl.problems.problem import ExitCode, Problem, explain, printable

GOLDEN = Path(__file__).parents[2] / "golden/schedctl"
HEAVY = {"ssl", "rich", "cryptography", "yaml", "msgspec", "tuf", "grpc"}


class Weather(result.Result, frozen=True, kw_only=True):
    """An answer of a verb that there is not."""

    sky: str = "blue"


def verb(body: str) -> click.Command:
    """A verb that answers, or meets what `body` names."""

    @click.command()
    @answering
    def command() -> Answer:
        if body == "problem":
            raise Problem("it rains", why="a cloud came", remedy="wait\x1b[2J")
        if body == "mistake":
            raise ZeroDivisionError
        return Answer(Weather(), ["blue"], ExitCode.DISCREPANCY, ["no \x07 bell"])

    return command


def call(command: click.Command, *words: str, **environment: str) -> Result:
    return CliRunner().invoke(command, words, env=environment)


def schedctl(*words: str, home: Path) -> Result:
    return call(main.main, *words, XDG_DATA_HOME=str(home))


@pytest.mark.parametrize(
    "words",
    [
        ("run", "x", "--timeout=nan"),
        ("switch", "x", "--timeout=inf"),
        ("stop", "--grace=-1"),
        ("reset", "--grace=x"),
    ],
)
def test_a_time_that_never_ends_or_is_none_is_wrong_usage(words: tuple[str, ...], tmp_path: Path) -> None:
    assert schedctl(*words, home=tmp_path).exit_code == ExitCode.USAGE


# How an answer is printed


def test_an_answer_is_text_unless_asked_for_otherwise_and_its_exit_code_counts() -> None:
    done = call(verb(""))

    assert (done.exit_code, done.stdout, done.stderr) == (2, "blue\n", "Warning: no \\x07 bell\n")


def test_json_and_yaml_carry_the_same_result_and_its_version() -> None:
    as_json, as_yaml = call(verb(""), "-o", "json"), call(verb(""), "--output=yaml")

    assert json.loads(as_json.stdout) == {"schema_version": "1", "sky": "blue"}
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_columns_are_aligned_and_no_line_ends_in_spaces() -> None:
    blocks: list[Block] = [
        Table(("A", "LONG", "C"), [("xx", "y", ""), ("", "", "z")]),
        Fields([("Name", "one\ntwo")]),
    ]

    assert (
        render(Answer(Weather(), blocks), "text")
        == "A   LONG  C\nxx  y\n          z\nName:  one\n       two\n"
    )


def test_a_table_without_rows_has_its_headings() -> None:
    assert render(Answer(Weather(), [Table(("A", "B"), [])]), "text") == "A  B\n"


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "a\rb", "\u202eevil", "\x9b2J"])
def test_nothing_that_a_terminal_obeys_is_printed(text: str) -> None:
    shown = render(Answer(Weather(), [text, Table(("A",), [(text,)])]), "text")
    watched = io.StringIO()
    terminal.show([text, Fields([("A", text)])], Console(file=watched, width=80))

    assert printable(text).isprintable()
    assert all(line.isprintable() for line in (shown + watched.getvalue()).splitlines())


def test_a_person_reads_the_same_words_with_emphasis() -> None:
    watched = io.StringIO()
    blocks: list[Block] = [
        Table(("NAME", "[b]WHAT"), [("a", "[red]not markup[/red]")]),
        Fields([("Key", "value")]),
        "end",
    ]

    terminal.show(blocks, Console(file=watched, width=80, force_terminal=True, highlight=False))

    assert "[red]not markup[/red]" in watched.getvalue()
    assert "\x1b[1mNAME" in watched.getvalue()
    assert "\x1b[1mKey:\x1b[0m" in watched.getvalue()


# How a problem is printed


def test_a_problem_says_what_why_and_what_next_and_exits_1() -> None:
    done = call(verb("problem"))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "Error: it rains\n  why:  a cloud came\n  next: wait\\x1b[2J\n"


def test_with_json_a_problem_is_json_on_stderr() -> None:
    done = call(verb("problem"), "-o", "json")

    assert (done.exit_code, done.stdout) == (1, "")
    assert json.loads(done.stderr) == {
        "schema_version": "1",
        "error": {"what": "it rains", "why": "a cloud came", "next": "wait\x1b[2J"},
    }


def test_a_mistake_of_ours_is_not_dressed_up_as_a_problem() -> None:
    assert isinstance(call(verb("mistake")).exception, ZeroDivisionError)


def test_what_is_not_known_is_left_out() -> None:
    assert Problem("it rains").as_text() == "Error: it rains"


@pytest.mark.parametrize(
    ("error", "what", "why"),
    [
        (InvalidCatalog("x: it is no JSON"), "the catalog cannot be used", "x: it is no JSON"),
        (
            FileNotFoundError(2, "No such file or directory", "/x"),
            "cannot use /x",
            "No such file or directory",
        ),
    ],
)
def test_errors_of_the_parts_are_explained(error: Exception, what: str, why: str) -> None:
    problem = explain(error)

    assert problem is not None
    assert (problem.what, problem.why) == (what, why)


# What start-up costs


def test_list_imports_neither_a_network_nor_colours_nor_yaml() -> None:
    probe = (
        "import sys\nfrom schedkit.schedctl.main import main\n"
        "try: main(['list'])\nexcept SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(done.stderr.split()) & HEAVY == {"msgspec"}


# Verbs that need no network, byte by byte


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("list", "list.txt"),
        ("list --wide", "list-wide.txt"),
        ("list -o json", "list.json"),
        ("catalog show", "catalog-show.txt"),
        ("catalog show scx_lavd", "catalog-show-lavd.txt"),
        ("catalog show scx_lavd -o yaml", "catalog-show-lavd.yaml"),
    ],
)
def test_the_answer_is_the_golden_one(words: str, file: str, tmp_path: Path) -> None:
    done = schedctl(*words.split(), home=tmp_path)

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == (GOLDEN / file).read_text()


def test_what_is_not_needed_is_told_from_what_is_not_known(tmp_path: Path) -> None:
    rusty, lavd, p2dq = (
        schedctl("catalog", "show", name, home=tmp_path).stdout
        for name in ("scx_rusty", "scx_lavd", "scx_p2dq")
    )

    assert "not needed: the kernel's configuration in /boot" in rusty
    assert "the kernel's configuration in /boot" in lavd
    assert "not needed: the kernel's configuration in /boot" not in lavd
    assert "a kernel with CONFIG_KALLSYMS_ALL" in p2dq
    assert "/run/scx" not in p2dq


def test_a_mistyped_name_is_told_the_nearest_and_exits_1(tmp_path: Path) -> None:
    done = schedctl("catalog", "show", "lavdd", home=tmp_path)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: no scheduler is called 'lavdd'\n  next: Did you mean 'scx_lavd'?")


def test_a_catalog_named_on_the_command_line_stands_above_the_others(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text(
        '{"mine": {"imageURI": "localhost:5000/mine"}, "scx_rusty": {"imageURI": "localhost:5000/r"}}'
    )

    done = schedctl("--catalog", str(own), "list", "-o", "json", home=tmp_path)

    found = {each["name"]: (each["image"], each["origin"]) for each in json.loads(done.stdout)["schedulers"]}
    assert found["mine"] == ("localhost:5000/mine", str(own))
    assert found["scx_rusty"] == ("localhost:5000/r", str(own))
    assert found["scx_lavd"] == ("ghcr.io/schedkit/scx_lavd", "schedkit")


def test_a_broken_catalog_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"mine": {"imageURL": "x"}}')

    done = schedctl("--catalog", str(own), "list", home=tmp_path)

    assert done.exit_code == 1
    assert (
        f"why:  {own}: mine: object contains unknown field `imageURL`; did you mean 'imageURI'?"
        in done.stderr
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root obeys so few")
def test_root_obeys_no_catalog_that_others_may_write(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text('{"mine": {"imageURI": "localhost:5000/mine"}}')
    own.chmod(0o666)

    done = schedctl("--catalog", str(own), "list", home=tmp_path)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {own} is not used\n  why:  {own} can be written to by other users")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at every folder on the way")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "tpyo/own.json",
            Problem(
                "cannot use {home}/tpyo",
                why="No such file or directory",
                remedy="check the path",
            ),
        ),
        ("folder", Problem("cannot use {home}/folder", why="it is not a regular file")),
        ("pipe", Problem("cannot use {home}/pipe", why="it is not a regular file")),
        (
            "link",
            Problem(
                "{home}/link is not used",
                why="{home}/link is a link, and root does not follow links",
                remedy="give the path of the file itself, without links",
            ),
        ),
        (
            "file/own.json",
            Problem(
                "{home}/file/own.json is not used",
                why="{home}/file is not a folder",
                remedy="give the path of the file itself, without links",
            ),
        ),
    ],
)
def test_a_catalog_that_root_cannot_take_is_told_with_its_whole_name(
    tmp_path: Path, name: str, told: Problem
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")

    done = schedctl("--catalog", str(tmp_path / name), "list", home=tmp_path)

    assert (done.exit_code, done.stderr) == (1, told.as_text().format(home=tmp_path) + "\n")


def test_a_catalog_that_is_not_there_is_a_problem_not_a_traceback(tmp_path: Path) -> None:
    done = schedctl("--catalog", str(tmp_path / "none.json"), "list", home=tmp_path)

    assert (done.exit_code, done.stdout) == (1, "")
    assert "No such file or directory" in done.stderr


@pytest.mark.parametrize("place", ["http://example.com/catalog.json", "file:///etc/passwd"])
def test_a_catalog_is_not_fetched_where_others_could_change_it(place: str, tmp_path: Path) -> None:
    done = schedctl("--catalog", place, "list", home=tmp_path)

    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: cannot fetch {place}\n")
    assert "neither https nor on this machine" in done.stderr


def test_an_unknown_name_is_told_without_a_network_or_cryptography() -> None:
    probe = (
        "import sys\nfrom schedkit.schedctl.main import main\n"
        "try: main(['catalog', 'show', 'rusti'])\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(done.stdout.split()) & HEAVY == {"msgspec"}
