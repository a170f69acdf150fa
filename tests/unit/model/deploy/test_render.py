"""The DaemonSet of a SchedExt: what the contract says, and the few additions that are allowed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rig.cluster.nodelabels import node_labels, term_matches, terms
from schedkit.model.api.pod_fields import CLAIM_KEY, NodeSelectorTerm
from schedkit.model.api.schedext import SchedExt, SchedExtMeta, SchedExtSpec
from schedkit.model.deploy.render import claim_value, legacy_template, open_terms, render, render_template
from schedkit.model.images import grammar

ROOT = Path(__file__).parents[4]
TEMPLATES = ROOT / "tests/golden/templates"
CASES = sorted(file.stem for file in TEMPLATES.glob("*.yaml"))
IMAGE = "ghcr.io/schedkit/scheds/scx_rusty:latest"


def schedext(**spec: Any) -> SchedExt:  # noqa: ANN401 - any field of the spec
    meta = SchedExtMeta(name="scx-rusty", namespace="default", uid="uid-1")
    return SchedExt(metadata=meta, spec=SchedExtSpec(**{"sched": IMAGE, **spec}))


def rendered(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is rendered for a golden file, and what the file says."""
    asked, expected = yaml.safe_load_all((TEMPLATES / f"{case}.yaml").read_text())
    return as_json(render(msgspec.convert(asked, SchedExt))), expected


def as_json(value: msgspec.Struct | None) -> Any:  # noqa: ANN401 - JSON
    return json.loads(msgspec.json.encode(value))


def template_hash(daemon_set: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(daemon_set["spec"]["template"], sort_keys=True).encode()).hexdigest()


# The contract


def test_a_bare_schedext_yields_the_daemon_set_of_the_contract_and_the_allowed_additions() -> None:
    daemon_set = as_json(render(schedext()))

    pod = daemon_set["spec"]["template"]["spec"]
    assert pod.pop("automountServiceAccountToken") is False
    assert pod["containers"][0].pop("terminationMessagePolicy") == "FallbackToLogsOnError"
    (kind,) = pod.pop("affinity").values()
    assert [
        [requirement["key"] for requirement in term["matchExpressions"]]
        for term in kind["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    ] == [[CLAIM_KEY], [CLAIM_KEY]]
    owner = {"apiVersion": "sked.schedkit.io/v1", "kind": "SchedExt", "name": "scx-rusty", "uid": "uid-1"}
    assert daemon_set == {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": "scx-rusty",
            "namespace": "default",
            "labels": {"managed-by": "sked-controller"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "selector": {"matchLabels": {"name": "scx-rusty"}},
            "template": {
                "metadata": {"labels": {"name": "scx-rusty", "managed-by": "sked-controller"}},
                "spec": {
                    "containers": [{"name": "scx", "image": IMAGE, "securityContext": {"privileged": True}}]
                },
            },
        },
    }


def test_the_legacy_template_is_the_contract_without_the_additions() -> None:
    bare = as_json(render_template(schedext()))
    del bare["spec"]["affinity"], bare["spec"]["automountServiceAccountToken"]
    del bare["spec"]["containers"][0]["terminationMessagePolicy"]

    assert as_json(legacy_template(schedext())) == bare


@pytest.mark.parametrize(
    "spec", [{"args": ("--fast",)}, {"host_pid": True}, {"node_selector": {"pool": "a"}}], ids=str
)
def test_no_legacy_template_does_what_only_this_sked_can(spec: dict[str, Any]) -> None:
    assert legacy_template(schedext(**spec)) is None


# Golden templates


@pytest.mark.parametrize("case", CASES)
def test_the_daemon_set_is_the_golden_one(case: str) -> None:
    actual, expected = rendered(case)

    assert actual == expected, f"rendered:\n{yaml.safe_dump(actual, sort_keys=False)}"


# What pods were made from, release by release


class Recorded(NamedTuple):
    """The hash of a case's template, from that version on, and the seal of all lines up to this one."""

    version: str
    case: str
    hash: str
    seal: str = ""


def recorded() -> list[Recorded]:
    lines = (TEMPLATES / "hashes.txt").read_text().splitlines()
    return [Recorded(*line.split()) for line in lines if not line.startswith("#")]


def sealed(records: Iterable[Recorded]) -> list[Recorded]:
    """The same with the seals that they ought to have: each depends on every line above it."""
    seal, found = "", []
    for each in records:
        line = f"{seal} {each.version} {each.case} {each.hash}"
        seal = hashlib.sha256(line.encode()).hexdigest()[:16]
        found.append(each._replace(seal=seal))
    return found


def changes_of(version: str, changelog: str) -> str:
    """That version's section; until it has one, what is not released yet."""
    sections = re.split(r"^## \[", changelog, flags=re.MULTILINE)
    named = (text for name in (version, "Unreleased") for text in sections if text.startswith(f"{name}]"))
    return next(named, "")


def unannounced(records: Iterable[Recorded], changelog: str) -> list[Recorded]:
    """Hashes that replaced another one in a version that does not say so."""
    latest: dict[str, str] = {}
    found = []
    for each in records:
        changed = latest.setdefault(each.case, each.hash) != each.hash
        if changed and "restarts schedulers" not in changes_of(each.version, changelog):
            found.append(each)
        latest[each.case] = each.hash
    return found


@pytest.mark.parametrize("case", CASES)
def test_pods_are_made_from_the_template_that_was_recorded_last(case: str) -> None:
    actual, _ = rendered(case)
    *_, last = [each.hash for each in recorded() if each.case == case]
    *_, added = sealed([*recorded(), Recorded(version("schedkit"), case, template_hash(actual))])

    assert template_hash(actual) == last, (
        f"the pods of {case} changed, so an upgrade would restart schedulers on whole fleets: undo it, or "
        "write `restarts schedulers` into CHANGELOG's Unreleased section, and into a new line below the "
        f"others of hashes.txt: {'  '.join(added)}"
    )


def test_no_line_above_the_last_was_changed_or_taken_away() -> None:
    """What pods were made from is history: an edited line would hide a restart, or invent one."""
    lines = recorded()

    assert [(each.case, each.seal) for each in lines] == [(each.case, each.seal) for each in sealed(lines)]


def test_pods_restart_only_in_a_release_that_says_so() -> None:
    assert unannounced(recorded(), (ROOT / "CHANGELOG.md").read_text()) == []


def test_every_recorded_template_still_has_its_case() -> None:
    assert {each.case for each in recorded()} == set(CASES)


FIRST, SECOND = Recorded("0.1.0", "bare", "aa"), Recorded("0.2.0", "bare", "bb")


@pytest.mark.parametrize(
    ("changelog", "expected"),
    [
        pytest.param("## [Unreleased]\n- It restarts schedulers.\n", [], id="said before the release"),
        pytest.param("## [Unreleased]\n## [0.2.0]\n- restarts schedulers\n", [], id="said of that release"),
        pytest.param("## [Unreleased]\n- restarts schedulers\n## [0.2.0]\n", [SECOND], id="of a later one"),
        pytest.param("## [0.2.0]\n## [0.1.0]\n- restarts schedulers\n", [SECOND], id="of an earlier one"),
        pytest.param("", [SECOND], id="said nowhere"),
    ],
)
def test_a_changed_template_must_be_announced_by_its_own_release(
    changelog: str, expected: list[Recorded]
) -> None:
    assert unannounced([FIRST, SECOND], changelog) == expected
    assert unannounced([FIRST, FIRST._replace(case="other")], changelog) == []


OLD, OTHER, NEW = sealed([FIRST, FIRST._replace(case="other"), SECOND])


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([OLD._replace(hash="ab"), OTHER, NEW], id="an edited old hash"),
        pytest.param([OLD._replace(version="0.1.1"), OTHER, NEW], id="an edited old version"),
        pytest.param([OTHER, NEW], id="an old line is gone"),
        pytest.param([OTHER, OLD, NEW], id="another order"),
        pytest.param([*sealed([OLD._replace(hash="ab")]), OTHER, NEW], id="an edited line, sealed anew"),
    ],
)
def test_a_seal_breaks_with_any_line_above_it(lines: list[Recorded]) -> None:
    assert sealed([OLD, OTHER, NEW]) == [OLD, OTHER, NEW]
    assert sealed(lines) != lines


# Claims

names = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?\Z")


@given(names, names)
def test_a_claim_is_a_label_value_that_begins_with_the_name(namespace: str, name: str) -> None:
    value = claim_value(namespace, name)

    assert re.match(grammar.LABEL_VALUE, value)
    assert len(value) <= 63
    assert value.startswith(name[:40].rstrip("-."))


@given(st.lists(st.tuples(names, names), min_size=2, max_size=8, unique=True))
def test_no_two_schedexts_have_the_same_claim(pairs: list[tuple[str, str]]) -> None:
    assert len({claim_value(*pair) for pair in pairs}) == len(pairs)


def test_the_slash_between_namespace_and_name_counts() -> None:
    assert claim_value("a", "b-c") != claim_value("a-b", "c")


@given(st.lists(terms, min_size=1, max_size=3).map(tuple), node_labels)
@pytest.mark.parametrize(
    ("claim", "admits"), [(None, True), ("mine", True), ("none", False), ("another", False)]
)
def test_an_open_template_admits_what_the_user_wants_unless_somebody_else_claims_it(
    claim: str | None,
    admits: bool,
    wanted: tuple[NodeSelectorTerm, ...],
    labels: dict[str, str],
) -> None:
    node = labels if claim is None else {**labels, CLAIM_KEY: claim}

    admitted = any(term_matches(term, node) for term in open_terms("mine", wanted))

    assert admitted == (admits and any(term_matches(term, labels) for term in wanted))


@pytest.mark.parametrize(
    ("labels", "admits"), [({}, True), ({CLAIM_KEY: "mine"}, True), ({CLAIM_KEY: "none"}, False)]
)
def test_without_a_wish_every_unclaimed_node_is_admitted(labels: dict[str, str], admits: bool) -> None:
    assert any(term_matches(term, labels) for term in open_terms("mine")) == admits
