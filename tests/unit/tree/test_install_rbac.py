"""What the operator and its users may do is written down once, and is no more than needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from schedkit.sked.permissions import (
    EVERYWHERE,
    IN_OWN_NAMESPACE,
    OF_AGENTS,
    OF_AGENTS_WITH_METRICS,
    Permission,
)

ROOT = Path(__file__).parents[3]
RBAC, AGENT, AGENT_METRICS = (ROOT / "config" / each for each in ("rbac", "agent", "agent-metrics"))
CHART = ROOT / "charts/sked/files"
ALL = (*EVERYWHERE, *IN_OWN_NAMESPACE, *OF_AGENTS, *OF_AGENTS_WITH_METRICS)


def rules_of(file: Path) -> list[dict[str, Any]]:
    content = yaml.safe_load(file.read_text())
    rules: list[dict[str, Any]] = content["rules"] if isinstance(content, dict) else content
    return rules


def as_rule(permission: Permission) -> dict[str, Any]:
    names = {"resourceNames": list(permission.names)} if permission.names else {}
    return {
        "apiGroups": [permission.group],
        "resources": [permission.resource],
        "verbs": list(permission.verbs),
        **names,
    }


@pytest.mark.parametrize(
    "file",
    sorted([*RBAC.glob("*role.yaml"), *AGENT.glob("*role.yaml"), *AGENT_METRICS.glob("*role.yaml")]),
    ids=lambda f: f.stem,
)
def test_no_role_has_a_wildcard_or_reads_secrets(file: Path) -> None:
    words = {
        word
        for rule in rules_of(file)
        for values in rule.values()
        for value in values
        for word in value.split("/")
    }

    assert words.isdisjoint({"*", "secrets"})


@pytest.mark.parametrize("file", [RBAC / "role.yaml", CHART / "manager-rules.yaml"], ids=lambda f: f.stem)
def test_the_managers_role_is_the_table_for_all_namespaces(file: Path) -> None:
    assert rules_of(file) == [as_rule(each) for each in EVERYWHERE]


@pytest.mark.parametrize(
    "file", [RBAC / "leader_election_role.yaml", CHART / "leader-election-rules.yaml"], ids=lambda f: f.stem
)
def test_the_leader_election_role_is_the_table_for_its_own_namespace(file: Path) -> None:
    assert rules_of(file) == [as_rule(each) for each in IN_OWN_NAMESPACE]


@pytest.mark.parametrize("file", [AGENT / "role.yaml", CHART / "agent-rules.yaml"], ids=lambda f: f.stem)
def test_the_agents_role_is_their_table(file: Path) -> None:
    assert rules_of(file) == [as_rule(each) for each in OF_AGENTS]


@pytest.mark.parametrize(
    "file", [AGENT_METRICS / "role.yaml", CHART / "agent-metrics-rules.yaml"], ids=lambda f: f.stem
)
def test_agents_may_review_readers_only_where_they_serve_metrics(file: Path) -> None:
    assert rules_of(file) == [as_rule(each) for each in OF_AGENTS_WITH_METRICS]
    assert {each.resource for each in OF_AGENTS_WITH_METRICS}.isdisjoint(each.resource for each in OF_AGENTS)


def test_every_permission_has_a_reason() -> None:
    assert [each for each in ALL if not each.reason] == []


@pytest.mark.parametrize("table", [(*EVERYWHERE, *IN_OWN_NAMESPACE), (*OF_AGENTS, *OF_AGENTS_WITH_METRICS)])
def test_no_permission_is_listed_twice(table: tuple[Permission, ...]) -> None:
    calls = [(each.group, each.resource, verb) for each in table for verb in each.verbs]

    assert len(calls) == len(set(calls))


def test_who_may_edit_must_be_named_but_everybody_may_look() -> None:
    """Whoever may create a SchedExt may run a privileged image on nodes."""

    def aggregated(file: Path) -> set[str]:
        labels = yaml.safe_load(file.read_text())["metadata"]["labels"]
        return {label.rpartition("/")[2] for label in labels if "aggregate-to-" in label}

    assert aggregated(RBAC / "schedext_editor_role.yaml") == set()
    assert aggregated(RBAC / "schedext_viewer_role.yaml") == {"aggregate-to-view"}
    assert aggregated(AGENT / "viewer_role.yaml") == {"aggregate-to-view"}
