"""What the manager's pod is, and what pods of an installation take of a node."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rig.operator.reportstore import JsonObject

CONFIG = Path(__file__).parents[3] / "config"


def pod(file: str) -> JsonObject:
    (found,) = yaml.safe_load_all((CONFIG / file).read_text())
    spec: JsonObject = found["spec"]["template"]["spec"]
    return spec


def test_the_manager_is_a_user_that_no_node_has() -> None:
    """Ids up to 10,000 may be those of users of the node; the image's own is the same."""
    security = pod("manager/manager.yaml")["securityContext"]
    (user,) = (
        line for line in (CONFIG.parent / "Containerfile").read_text().splitlines() if "USER 6" in line
    )

    assert security["runAsNonRoot"] is True
    assert user == f"USER {security['runAsUser']}:{security['runAsGroup']}"
    assert min(security["runAsUser"], security["runAsGroup"]) > 10_000


@pytest.mark.parametrize("file", ["manager/manager.yaml", "agent/daemonset.yaml"])
def test_a_log_without_end_fills_no_node_and_no_node_is_left_out_for_its_storage(file: str) -> None:
    (container,) = pod(file)["containers"]
    resources = container["resources"]

    assert resources["limits"]["ephemeral-storage"].endswith("Mi")
    # left out, it would be the limit
    assert resources["requests"]["ephemeral-storage"] == "0"
