"""What counts: flags before the environment, that before files, the user's file before the machine's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
from click.testing import CliRunner, Result

from schedkit.schedctl.main import main
from schedkit.schedctl.problems.problem import Problem
from schedkit.schedctl.settings import config_files
from schedkit.schedctl.settings.config_files import parse, places, read
from schedkit.schedctl.settings.table import SETTINGS, Settings
from schedkit.schedctl.verbs.config import ConfigShown

GOLDEN = Path(__file__).parents[3] / "golden/schedctl"
PATH = Path("/etc/schedkit/config.toml")
Machine: TypeAlias = Callable[..., Result]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root obeys so few")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """`schedctl` on a machine whose files are in `etc.toml` and in the user's `schedkit/config.toml`."""
    monkeypatch.setattr(config_files, "SYSTEM", tmp_path / "etc.toml")
    (tmp_path / "schedkit").mkdir()

    def run(*words: str, **environment: str) -> Result:
        return CliRunner().invoke(main, words, env={"XDG_CONFIG_HOME": str(tmp_path), **environment})

    return run


def own_file(tmp_path: Path) -> Path:
    return tmp_path / "schedkit/config.toml"


def shown(done: Result, name: str) -> tuple[Any, str, str | None]:
    """Value, origin and source of a setting, from the answer as JSON."""
    assert done.exit_code == 0, done.stderr
    [found] = [each for each in json.loads(done.stdout)["settings"] if each["name"] == name]
    return found["value"], found["origin"], found["source"]


# Which word counts


def test_without_files_everything_is_as_the_table_says(machine: Machine) -> None:
    done = machine("config", "-o", "json")

    settings = json.loads(done.stdout)["settings"]
    assert [each["key"] for each in settings] == [each.key for each in SETTINGS]
    assert {each["name"]: each["origin"] for each in settings} == {
        each["name"]: "flag" if each["name"] == "output" else "default" for each in settings
    }


def test_later_words_count_more(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "etc.toml").write_text('driver = "containerd"\ntimeout = 5\n')
    assert shown(machine("config", "-o", "json"), "driver") == (
        "containerd",
        "file",
        str(tmp_path / "etc.toml"),
    )

    own_file(tmp_path).write_text('driver = "podman"\n')
    assert shown(machine("config", "-o", "json"), "driver") == ("podman", "file", str(own_file(tmp_path)))
    assert shown(machine("config", "-o", "json"), "timeout") == (5.0, "file", str(tmp_path / "etc.toml"))

    said = machine("config", "-o", "json", SCHEDCTL_DRIVER="containerd")
    assert shown(said, "driver") == ("containerd", "environment", "SCHEDCTL_DRIVER")

    said = machine("-d", "podman", "config", "-o", "json", SCHEDCTL_DRIVER="containerd")
    assert shown(said, "driver") == ("podman", "flag", "--driver")


def test_flags_of_other_verbs_are_shown_as_they_would_count(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text("grace = 3\n")

    said = machine("config", "-o", "json", "--grace", "4", SCHEDCTL_TIMEOUT="7")

    assert shown(said, "grace") == (4.0, "flag", "--grace")
    assert shown(said, "timeout") == (7.0, "environment", "SCHEDCTL_TIMEOUT")


def test_what_a_file_turns_on_a_flag_turns_off_for_one_call(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text("least-privilege = true\n")

    on = machine("config", "-o", "json")
    off = machine("config", "-o", "json", "--no-least-privilege")

    assert shown(on, "least-privilege") == (True, "file", str(own_file(tmp_path)))
    assert shown(off, "least-privilege")[:2] == (False, "flag")


def test_a_file_decides_how_answers_are_printed(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text('output = "yaml"\n')

    assert machine("config").stdout.startswith("schema_version: '1'\n")


def test_every_kind_of_value_is_shown_to_people(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text('insecure-registries = ["a.example", "b.example"]\ntimeout = 5.5\n')

    lines = machine("config").stdout.splitlines()

    file = str(own_file(tmp_path))
    words = {line.split()[1]: line.split()[2:] for line in lines[:-3]}
    assert words["--insecure-registry"] == ["SCHEDCTL_INSECURE_REGISTRY", file, "a.example", "b.example"]
    assert words["--timeout"] == ["SCHEDCTL_TIMEOUT", file, "5.5"]
    assert words["--allow-unsigned"] == ["SCHEDCTL_ALLOW_UNSIGNED", "default", "no"]
    assert lines[-2:] == [f"{tmp_path / 'etc.toml'}: not found", f"{file}: read"]


@pytest.mark.parametrize(("form", "file"), [("text", "config.txt"), ("json", "config.json")])
def test_the_answer_is_the_golden_one(form: str, file: str, machine: Machine, tmp_path: Path) -> None:
    done = machine("--insecure-registry", "a.example", "config", "-o", form, SCHEDCTL_GRACE="3")

    assert done.stdout.replace(str(tmp_path), "/folder") == (GOLDEN / file).read_text()


def test_the_answer_has_the_form_of_its_schema(machine: Machine) -> None:
    msgspec.convert(json.loads(machine("config", "-o", "json").stdout), ConfigShown, strict=True)


def test_help_reads_no_file(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text("?")

    assert machine("--help").exit_code == 0


def test_the_defaults_of_the_table_are_those_of_the_settings() -> None:
    usual = Settings()._asdict()

    assert {each.name: each.default for each in SETTINGS if each.is_before_the_verb} == usual


# Where files lie


@pytest.mark.parametrize(
    ("environment", "own"),
    [
        ({"XDG_CONFIG_HOME": "/there"}, "/there/schedkit/config.toml"),
        ({"XDG_CONFIG_HOME": "relative"}, "/somewhere/.config/schedkit/config.toml"),
        ({}, "/somewhere/.config/schedkit/config.toml"),
    ],
)
def test_the_users_file_lies_where_programs_keep_such_files(
    environment: dict[str, str], own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/somewhere")

    assert places(environment) == (PATH, Path(own))


# What is wrong with a file


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\ndrvier = "podman"', "line 2: there is no setting 'drvier'; did you mean 'driver'?"),
        ("trust_policy = 1", "line 1: there is no setting 'trust_policy'; did you mean 'trust-policy'?"),
        ("xyzzy = 1", "line 1: there is no setting 'xyzzy'"),
        ("[sockets]\npodman = 1", "line 1: there is no setting 'sockets'"),
        ('driver = "docker"', 'line 1: driver must be "podman" or "containerd", not \'docker\''),
        ('timeout = "soon"', "line 1: timeout must be a number of seconds, from 0 to 86400, not 'soon'"),
        ("grace = -1", "line 1: grace must be a number of seconds, from 0 to 86400, not -1"),
        ("grace = 86401", "line 1: grace must be a number of seconds, from 0 to 86400, not 86401"),
        ("grace = inf", "line 1: grace must be a number of seconds, from 0 to 86400, not inf"),
        ("grace = nan", "line 1: grace must be a number of seconds, from 0 to 86400, not nan"),
        ("grace = true", "line 1: grace must be a number of seconds, from 0 to 86400, not True"),
        ('layout = "here"', "line 1: layout must be an absolute path in quotes, not 'here'"),
        ('catalog = "c.json"', "line 1: catalog must be a URL or an absolute path, in quotes"),
        ('insecure-registries = "a"', "line 1: insecure-registries must be a list of words"),
        ("least-privilege = 1", "line 1: least-privilege must be true or false, not 1"),
        (
            "allow-unsigned = true",
            "line 1: allow-unsigned cannot be set in a file: set it for each command, with --allow-unsigned",
        ),
        ("driver = x", "it is not TOML: Invalid value (at line 1, column 10)"),
        ("\xff", "it is not TOML: "),
        ("x = " + "[" * 30_000, "it is not TOML: "),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_the_nearest_name(text: str, words: str) -> None:
    with pytest.raises(Problem) as met:
        parse(text.encode("latin-1"), PATH)

    assert met.value.what == f"{PATH} cannot be used"
    assert met.value.why.startswith(words)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(Problem) as met:
        parse(b'drvier = 1\ntimeout = "x"', PATH)

    assert met.value.why.count("line ") == 2


def test_every_setting_of_a_file_is_read() -> None:
    values = {
        "path": '"/x"',
        "place": '"https://x.example/c"',
        "words": '["a=b"]',
        "seconds": "1",
        "switch": "true",
    }
    keyed = [each for each in SETTINGS if each.key]

    text = "".join(f"{each.key} = {values.get(each.kind) or repr(each.choices[-1])}\n" for each in keyed)

    assert parse(text.encode(), PATH).keys() == {each.name for each in keyed}


def test_a_broken_file_ends_every_verb_with_1_and_words(machine: Machine, tmp_path: Path) -> None:
    own_file(tmp_path).write_text("drivr = 1")

    done = machine("list")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {own_file(tmp_path)} cannot be used\n  why:  line 1: ")


# Whom root obeys


@as_root
@pytest.mark.parametrize("spoil", [lambda file: file.chmod(0o666), lambda file: os.chown(file, 1, 1)])
def test_root_obeys_no_file_that_others_may_write(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('driver = "containerd"')
    assert read([file]).deciding("driver") is not None

    spoil(file)

    with pytest.raises(Problem, match="is not used"):
        read([file])


@as_root
def test_root_follows_no_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/config.toml").write_text("timeout = 1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "config.toml").symlink_to(tmp_path / "real/config.toml")

    for file in (tmp_path / "link/config.toml", tmp_path / "config.toml"):
        with pytest.raises(Problem) as met:
            read([file])
        assert "root does not follow" in met.value.why
