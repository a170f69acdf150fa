"""The documentation's pages: what they must have, and the rule by which shown output is compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rig.consoles import Command, File, steps
from schedkit.model.api.conditions import WARNINGS, Reason
from schedkit.schedctl import wiring
from schedkit.schedctl.main import VERBS
from schedkit.schedctl.settings import config_files
from schedkit.schedctl.verbs.machine.switch import SchedulerSwitched
from schedkit.sked.reconcile import LOOK_AGAIN_S

ROOT = Path(__file__).parents[3]
SCRIPTING, COMMAND = ROOT / "docs/schedctl/scripting.md", "ansible.builtin.command"
USAGE, INSTALLATION = ROOT / "docs/sked/usage.md", ROOT / "docs/sked/installation.md"


def test_every_warning_has_advice_and_all_advice_is_about_a_reason() -> None:
    advised = set(re.findall(r"^### `(\w+)`$", USAGE.read_text(), re.MULTILINE))

    assert {reason.value for reason in WARNINGS} <= advised <= {reason.value for reason in Reason}


def test_every_reason_is_in_the_table() -> None:
    listed = re.findall(r"^\| [\w, ]+ \| \[?`([A-Z]\w+)`", USAGE.read_text(), re.MULTILINE)

    assert listed == [reason.value for reason in Reason]


def test_the_page_says_how_often_a_taken_name_is_looked_at_again() -> None:
    assert f"sked looks again every {LOOK_AGAIN_S:.0f} seconds" in USAGE.read_text()


def test_page_and_chart_ask_for_the_same_kubernetes() -> None:
    chart = (ROOT / "charts/sked/Chart.yaml").read_text()
    asked = re.findall(r"^\| Kubernetes ([\d.]+) or newer", INSTALLATION.read_text(), re.MULTILINE)

    assert re.findall(r'^kubeVersion: ">=([\d.]+)\.0-0"$', chart, re.MULTILINE) == asked


# What pages speak of exists


def found_in_pages(pattern: str) -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/sked").glob("*.md")]
    return {name for page in pages for name in re.findall(pattern, page.read_text(), re.MULTILINE)}


def test_nobody_is_advised_to_use_a_verb_that_does_not_exist() -> None:
    """In messages and documents, where a command stands between backquotes."""
    texts = [*(ROOT / "src/schedkit").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    advised = {verb for text in texts for verb in re.findall(r"`schedctl ([a-z]+)", text.read_text())}

    assert {"status", "stop", "run"} <= advised
    assert advised - VERBS.keys() == set()


def test_every_make_target_that_pages_name_exists() -> None:
    named = found_in_pages(r"(?:^|`)make ([a-z][a-z-]+)")

    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert len(named) > 8
    assert named - targets == set()


def test_every_file_that_pages_name_exists() -> None:
    named = found_in_pages(r"\b((?:config|charts|tests|tools|src)/[\w./-]*\w)")

    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_metrics_of_the_page_are_those_that_are_served() -> None:
    modules = [ROOT / "src/schedkit/sked" / each for each in ("http/metrics.py", "agent/node_metrics.py")]
    served = {name for module in modules for name in re.findall(r'"(sked_\w+)"', module.read_text())}

    named = found_in_pages(r"`(sked_\w+)(?:\{\w+\})?`")
    assert {re.sub("_(total|info)$", "", name) for name in named} == served


def test_the_words_of_logs_and_tools_that_pages_explain_are_really_said() -> None:
    """Somebody will search for them."""
    code = "".join(file.read_text() for folder in ("src", "tools") for file in (ROOT / folder).rglob("*.py"))
    page = INSTALLATION.read_text()
    explained = re.findall(r"`([a-z]+_[a-z_]+)`", page.partition("## Troubleshooting")[2])
    said = ("the operator's image is not known", "no cluster answers", "have not been listed yet")

    assert len(explained) >= 3
    assert [words for words in explained if f'"{words}"' not in code] == []
    assert [words for words in said if words not in page or words not in code] == []


# How output is compared


def test_commands_that_are_shown_with_a_dollar_are_in_blocks_that_are_run() -> None:
    """In any other kind of block nobody would notice that they are wrong."""
    page = USAGE.read_text()
    left_out = re.findall(r"^<!-- not run: [^>]+ -->\n```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    shown = len(re.findall(r"^\$ ", page, re.MULTILINE))
    run = sum(isinstance(step, Command) for step in steps(page))
    assert run > 20
    assert run + sum(block.count("$ ") for block in left_out) == shown


@pytest.mark.parametrize(
    ("words", "is_look"),
    [("kubectl get pods", True), ("kubectl -n x events --for y", True), ("kubectl delete --wait x", False)],
)
def test_only_a_look_is_repeated(words: str, is_look: bool) -> None:
    assert Command(1, words).only_looks is is_look


PAGE = """
```yaml title="a.yaml"
a: 1
```

<!-- not run: it needs a tape drive -->
```console
$ rewind
```

```yaml
a: fragment
```

```console
$ first
one
two
$ second
```
"""


def test_a_page_is_read_as_files_and_commands() -> None:
    assert list(steps(PAGE)) == [
        File("a.yaml", "a: 1\n"),
        Command(16, "first", ("one", "two")),
        Command(19, "second"),
    ]


def test_a_console_block_that_begins_with_output_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: a console block begins with a command"):
        list(steps("```console\noutput\n```\n"))


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        pytest.param(["NAME   AGE", "x      45s"], "NAME AGE\nx    2m10s\n", id="ages and columns vary"),
        pytest.param(["scx-4x2nb Running"], "scx-zzzzz   Running\n", id="suffixes of pods vary"),
        pytest.param(["image@sha256:…"], f"image@sha256:{'0a' * 32}\n", id="digests vary"),
        pytest.param(["...", "end"], "one\ntwo\nend\n", id="dots stand for any lines"),
        pytest.param(["...", "end"], "end\n", id="dots stand for no line"),
    ],
)
def test_what_varies_is_not_compared(shown: list[str], said: str) -> None:
    assert Command(1, "x", tuple(shown)).matches(said)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        pytest.param(["desired 3"], "desired 2\n", id="a number"),
        pytest.param(["one"], "one\ntwo\n", id="a line too many"),
        pytest.param(["one", "two"], "one\n", id="a line too few"),
        pytest.param(["waited 45s"], "waited long\n", id="a word instead of an age"),
        pytest.param(["...", "end"], "end\nmore\n", id="a line after the end"),
        pytest.param(["scx-4x2nb"], "scx-rusty\n", id="a name instead of a suffix"),
        pytest.param(["No resources found."], "", id="silence"),
    ],
)
def test_everything_else_is_compared(shown: list[str], said: str) -> None:
    assert not Command(1, "x", tuple(shown)).matches(said)


def test_the_playbook_replaces_what_runs_and_says_itself_whether_that_changed_anything() -> None:
    [playbook] = [step for step in steps(SCRIPTING.read_text()) if isinstance(step, File)]
    tasks = [task for play in yaml.safe_load(playbook.text) for task in play["tasks"]]
    asked = {task[COMMAND].split()[1]: task for task in tasks if COMMAND in task}
    changing = {verb: task for verb, task in asked.items() if task["changed_when"] is not False}

    # `run` would have to be left out where another scheduler runs, and that one would stay
    assert set(changing) == {"switch"}
    assert "when" not in changing["switch"]
    assert "(switched.stdout | from_json).changed" in changing["switch"]["changed_when"]
    assert "changed" in SchedulerSwitched.__struct_fields__


def test_the_page_about_removal_names_what_schedctl_and_its_unit_leave_behind() -> None:
    unit = (ROOT / "packaging/systemd/schedkit.service").read_text()
    removal = (ROOT / "docs/schedctl/install.md").read_text().partition("\n## Remove\n")[2]
    [cache] = re.findall("^CacheDirectory=(.+)$", unit, re.MULTILINE)

    for place in (wiring.LOCK, config_files.SYSTEM.parent, Path("/var/cache") / cache):
        assert f"`{place}`" in removal
