"""The unit for systemd, its example of a choice and the page about both speak of the same things."""

from __future__ import annotations

import re
from pathlib import Path

from schedkit.schedctl.main import main
from schedkit.schedctl.run import command as run

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "packaging/systemd/schedkit.service").read_text()
EXAMPLE = (ROOT / "packaging/systemd/boot.env").read_text()
PAGE = (ROOT / "docs/schedctl/boot.md").read_text()
OWN = {"SCHEDULER", "OPTIONS", "ARGUMENTS"}


def test_the_unit_takes_its_choice_from_the_names_of_the_example_and_of_the_page() -> None:
    [line] = re.findall("^ExecStartPre=(.*)$", UNIT, re.MULTILINE)

    assert set(re.findall(r"\$\{?([A-Z]+)", line)) == OWN
    assert set(re.findall("^#?([A-Z]+)=", EXAMPLE, re.MULTILINE)) == OWN
    assert set(re.findall("^\\| `([A-Z]+)` \\|", PAGE, re.MULTILINE)) == OWN


def test_every_variable_and_option_of_the_example_is_one_that_schedctl_reads() -> None:
    options = [*main.params, *run.params]
    variables = {str(option.envvar) for option in options}
    flags = {flag for option in run.params for flag in option.opts}

    assert set(re.findall("^#?(SCHEDCTL_[A-Z_]+)=", EXAMPLE, re.MULTILINE)) <= variables
    assert set(re.findall("^#?OPTIONS=(.*)$", EXAMPLE, re.MULTILINE)) <= flags
