"""Recipes: what the catalog takes from them, what their images say, and how a measurement finds needs."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import msgspec
import pytest

from rig.build import trials
from rig.build.measurements import (
    CAPABILITIES,
    Attempt,
    Circumstances,
    Confinement,
    Findings,
    NotMeasured,
    Trial,
    base_name,
    measure,
)
from rig.build.recipe_facts import InvalidRecipe, Recipe, containerfile, entry, labels
from schedkit.model.catalog import Entry, Measured, Needs, parse_catalog

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "recipes"
SHIPPED = parse_catalog((ROOT / "src/schedkit/catalog.json").read_bytes())
BUILT = sorted(file.parent.name for file in RECIPES.glob("*/VERSION"))
ABOUT = Circumstances("1.1.4", "6.18.15", "an emulator", "2026-01-31")
FACTS = Entry("ghcr.io/schedkit/scx_x", sources=("description: a page",))


# The folders


def test_every_scheduler_of_the_catalog_has_a_recipe_and_every_recipe_is_in_the_catalog() -> None:
    assert sorted(file.parent.name for file in RECIPES.glob("*/build")) == list(SHIPPED)


@pytest.mark.parametrize("name", BUILT)
def test_a_containerfile_calls_the_script_that_make_calls(name: str) -> None:
    recipe = (RECIPES / name / "Containerfile").read_text()

    assert f'\nRUN ["/recipes/{name}/build", "/built"]\n' in recipe
    assert (RECIPES / name / "build").resolve() == RECIPES / "crate"
    assert os.access(RECIPES / name / "build", os.X_OK)


@pytest.mark.parametrize("name", BUILT)
def test_the_catalog_and_the_image_name_the_version_that_the_recipe_builds(name: str) -> None:
    version = (RECIPES / name / "VERSION").read_text().strip()

    assert SHIPPED[name].version == version
    assert f'org.opencontainers.image.version="{version}"' in (RECIPES / name / "Containerfile").read_text()


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - set(BUILT)))
def test_a_recipe_that_builds_nothing_says_so_and_what_to_do_instead(name: str) -> None:
    done = subprocess.run([RECIPES / name / "build"], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{name} is not built here: ")
    assert not (RECIPES / name / "Containerfile").exists()


# What the catalog takes from a recipe


def findings(*, ops_name: str = "x", stats: bool = True, needs: Needs | None = None) -> Findings:
    seen = Measured(
        version="1.1.4",
        kernel="6.18.15",
        machine="an emulator",
        date="2026-01-31",
        ops="x_1.1.4_y",
        attach_seconds=1.5,
        exit_code=0,
    )
    return Findings(ops_name=ops_name, stats=stats, needs=needs or Needs(), measured=seen)


def test_what_was_not_measured_says_so() -> None:
    made = entry(Recipe("scx_x", FACTS, "1.1.4"))

    assert (made.measured, made.version, made.sources) == (False, "1.1.4", FACTS.sources)


def test_measured_needs_stand_above_those_that_were_read_and_leave_the_others() -> None:
    read = msgspec.structs.replace(FACTS, needs=Needs(boot_config=False, kernel_options=("FUNCTION_TRACER",)))
    seen = findings(needs=Needs(boot_config=True, capabilities=("BPF",)))

    made = entry(Recipe("scx_x", read, "1.1.4", seen))

    assert made.needs == Needs(boot_config=True, capabilities=("BPF",), kernel_options=("FUNCTION_TRACER",))
    assert (made.ops_name, made.stats, made.measured) == ("x", True, seen.measured)
    assert made.sources[-1].endswith("measured with version 1.1.4 on kernel 6.18.15")


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"ops_name": "y"}, "scx_x: facts.json says that ops_name is 'y', but 'x' was measured"),
        ({"stats": False}, "scx_x: facts.json says that stats is False, but True was measured"),
        (
            {"measured": True},
            "scx_x: facts.json has 'measured', but this field has its own file: remove it from facts.json",
        ),
        (
            {"version": "1"},
            "scx_x: facts.json has 'version', but this field has its own file: remove it from facts.json",
        ),
    ],
)
def test_a_recipe_that_contradicts_itself_is_refused(facts: dict[str, object], complaint: str) -> None:
    recipe = Recipe("scx_x", msgspec.structs.replace(FACTS, **facts), "1.1.4", findings())

    with pytest.raises(InvalidRecipe, match=f"^{complaint}"):
        entry(recipe)


def test_the_shipped_findings_are_about_the_versions_that_are_built() -> None:
    measured = {
        name: entry.measured.version
        for name, entry in SHIPPED.items()
        if isinstance(entry.measured, Measured)
    }

    assert measured == {name: SHIPPED[name].version for name in measured}


# What an image says about itself


def test_an_image_is_labelled_with_what_the_catalog_knows() -> None:
    assert labels("scx_rusty", "1.1.4", SHIPPED["scx_rusty"]) == {
        "org.opencontainers.image.title": "scx_rusty",
        "org.opencontainers.image.description": SHIPPED["scx_rusty"].description,
        "org.opencontainers.image.documentation": SHIPPED["scx_rusty"].documentation,
        "org.opencontainers.image.source": "https://github.com/sched-ext/scx",
        "org.opencontainers.image.version": "1.1.4",
        "org.schedkit.scheduler.kernel.min-version": "6.12",
    }


def test_no_label_of_a_containerfile_is_a_command_or_a_variable() -> None:
    facts = msgspec.structs.replace(FACTS, description='Says "hi" to $HOME.')

    text = containerfile(Recipe("scx_x", facts, "1")) or ""

    assert r'org.opencontainers.image.description="Says \"hi\" to \$HOME."' in text


# How a measurement finds needs


def scheduler(needs: Needs, *, is_slow: bool = False) -> tuple[list[Confinement], Attempt]:
    """A scheduler with these needs: what it was left in each attempt, and what becomes of it."""
    left: list[Confinement] = []

    def attempt(confinement: Confinement) -> Trial:
        left.append(confinement)
        kept = confinement.capabilities
        lacks = (
            (needs.host_pid and not confinement.host_pids)
            or (needs.boot_config and not confinement.boot_config)
            or (needs.writable_run and not confinement.writable_run)
            or (kept is not None and CAPABILITIES.index(kept) < CAPABILITIES.index(needs.capabilities or ()))
        )
        if lacks:
            return Trial(ended_by_itself=not is_slow, exit_code=1, words="no")
        return Trial(ops="x_1.1.4_y", attach_s=1.23, is_held=True, words="bye")

    return left, attempt


@pytest.mark.parametrize("capabilities", CAPABILITIES)
@pytest.mark.parametrize(("host_pid", "boot", "run"), [*product([False, True], repeat=3)])
def test_a_measurement_finds_exactly_what_is_needed(
    capabilities: tuple[str, ...], host_pid: bool, boot: bool, run: bool
) -> None:
    needs = Needs(host_pid, boot, run, capabilities)
    left, attempt = scheduler(needs)

    found = measure(attempt, ABOUT)

    assert found.needs == needs
    assert len(left) == len(set(left))
    assert (found.ops_name, found.measured.ops, found.measured.attach_seconds) == ("x", "x_1.1.4_y", 1.2)


def test_an_attempt_that_ran_out_of_time_leaves_a_need_unknown() -> None:
    _, attempt = scheduler(Needs(boot_config=True), is_slow=True)

    found = measure(attempt, ABOUT)

    assert found.needs == Needs(False, None, False, ())
    assert found.measured.without == {
        "with no kernel configuration in /boot": "it was not attached, and had not ended in time: no"
    }


@pytest.mark.parametrize(
    "free",
    [
        pytest.param(Trial(ended_by_itself=True, exit_code=1, words="no"), id="it gives up"),
        pytest.param(Trial(ops="x", is_held=False), id="somebody else's scheduler is attached"),
        pytest.param(Trial(ops="x", is_held=True, ended_by_itself=True), id="it dies once attached"),
        pytest.param(Trial(), id="it runs out of time"),
    ],
)
def test_nothing_is_measured_of_a_scheduler_that_does_not_work(free: Trial) -> None:
    with pytest.raises(NotMeasured, match="does not work even without any restriction"):
        measure(lambda _: free, ABOUT)


@pytest.mark.parametrize(
    ("ops", "base"),
    [
        ("bpfland_1.1.4_x86_64_unknown_linux_gnu", "bpfland"),
        ("scx_flow_1.1.4_g85f140fd_x86_64", "scx_flow"),
        ("goland", "goland"),
    ],
)
def test_an_ops_name_is_known_without_version_and_target(ops: str, base: str) -> None:
    assert base_name(ops, "1.1.4") == base


@pytest.mark.parametrize(
    ("log", "words"),
    [
        pytest.param(
            "\x1b[33m10:00 [INFO]\x1b[0m up\nEXIT: unregistered from user space\n[INFO] Unregister\n",
            "EXIT: unregistered from user space",
            id="its exit, not the line after it",
        ),
        pytest.param(
            "up\nError: Failed to load BPF program\n\nCaused by:\n    Operation not permitted (os error 1)\n",
            "Error: Failed to load BPF program Caused by: Operation not permitted (os error 1)",
            id="its error with the cause",
        ),
        pytest.param("one\ntwo\n", "two", id="the last line when there is neither"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_the_last_words_are_those_that_tell(log: str, words: str) -> None:
    assert trials.words_of(log) == words


def test_a_measurement_that_was_cut_short_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "attempts.jsonl"
    needs = Needs(host_pid=False, boot_config=True, writable_run=False, capabilities=("BPF",))
    left, attempt = scheduler(needs)
    first = measure(trials.Remembered(attempt, file), ABOUT)
    tried = list(left)

    again = measure(trials.Remembered(attempt, file), ABOUT)

    assert again == first
    assert left == tried
    assert len(file.read_text().splitlines()) == len(tried)


def test_an_attempt_that_came_to_no_end_is_made_again(tmp_path: Path) -> None:
    left, attempt = scheduler(Needs(boot_config=True), is_slow=True)
    for _ in range(2):
        measure(trials.Remembered(attempt, tmp_path / "attempts.jsonl"), ABOUT)

    assert [each for each in left if left.count(each) > 1] == [Confinement(boot_config=False)] * 2


def test_a_scheduler_that_failed_with_everything_is_tried_again(tmp_path: Path) -> None:
    tried: list[Confinement] = []

    def attempt(confinement: Confinement) -> Trial:
        tried.append(confinement)
        return Trial(ended_by_itself=True, exit_code=1)

    for _ in range(2):
        with pytest.raises(NotMeasured):
            measure(trials.Remembered(attempt, tmp_path / "attempts.jsonl"), ABOUT)

    assert tried == [Confinement()] * 2
