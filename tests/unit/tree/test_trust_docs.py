"""What the pages about trust show is what is read, and what they list is all there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rig.signatures.forgeries import CASES
from schedkit.model.trust.policy import InvalidPolicy, TrustPolicy, default_policy, parse_policy
from schedkit.model.trust.steps import Step
from schedkit.oci.policy.patterns import parse_pattern

PAGES = Path(__file__).parents[3] / "docs/trust"
CHART = PAGES.parents[1] / "charts/sked"
POLICIES = (PAGES / "policies.md").read_text()


def policies_in(page: str) -> list[str]:
    return re.findall(r"^```yaml[^\n]*\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)


def parsed(text: str) -> TrustPolicy:
    return parse_policy(yaml.safe_load(text), lambda name: name.encode(), parse_pattern)


@pytest.mark.parametrize(
    "text", [*policies_in("policies.md"), *policies_in("offline.md")], ids=lambda text: text.splitlines()[-1]
)
def test_a_policy_that_a_page_shows_is_one(text: str) -> None:
    policy = parsed(text)

    assert not policy.rule.trusts_nobody or policy.repositories


def test_the_policy_that_is_shown_as_built_in_is_the_one_that_is() -> None:
    assert parsed(policies_in("policies.md")[0]) == default_policy(parse_pattern)


def test_the_table_has_every_key_and_no_other() -> None:
    """What a parser knows it tells when it is asked for something that it does not."""
    places: dict[str, object] = {
        "": {"?": 0},
        "keys[].": {"keys": [{"?": 0}]},
        "identities[].": {"identities": [{"?": 0}]},
        "repositories[].": {"repositories": [{"?": 0}]},
    }
    known = []
    for prefix, document in places.items():
        with pytest.raises(InvalidPolicy) as refused:
            parse_policy(document, lambda _: b"", parse_pattern)
        known += [f"{prefix}{name}" for name in str(refused.value).partition("keys are ")[2].split(", ")]

    assert sorted(re.findall(r"^\| `([^`]+)` \|", POLICIES, re.MULTILINE)) == sorted(known)


def test_what_the_page_for_clusters_tells_to_set_the_chart_can_set() -> None:
    page = (PAGES / "operator.md").read_text()
    flags = re.findall(r"^\| `(--[-a-z]+)=", page, re.MULTILINE)
    template = (CHART / "templates/manager.yaml").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    named = re.findall(r"`trust\.([a-zA-Z]+)`", page)

    assert len(flags) == 5
    assert [flag for flag in flags if f"{flag}=" not in template] == []
    assert set(named) - {"yaml"} <= values["trust"].keys()
    assert ".Values.env" in template, "the page says that proxies there count"


def test_the_threat_model_names_steps_that_exist_and_each_that_keeps_somebody_out() -> None:
    """Of the first, who is trusted at all, everything else is the consequence."""
    rows = re.findall(
        r"^\| [^|]+ \| [^|]+ \| ([^|]+) \|", (PAGES / "threat-model.md").read_text(), re.MULTILINE
    )
    named = {int(number) for row in rows for number in re.findall(r"\b(\d+)\b", row)}

    assert named <= {int(step) for step in Step}
    assert {case.step for case in CASES} - named <= {Step.RULE, Step.SIGNATURE}
