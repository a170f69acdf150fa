"""Another Kubernetes minor: which version it is, and the Go module that its control plane is built from."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.base.errors import RigError
from rig.cluster import kubernetes, minors

ROOT = Path(__file__).parents[2]
RELEASED = ["v1.3.0", "v1.29.9", "v1.30.0-rc.1", "v1.30.2", "v1.30.14", "v1.31.0-alpha.1"]


@pytest.mark.parametrize(
    ("wanted", "version"), [("1.30", "v1.30.14"), ("1.30.2", "v1.30.2"), ("1.3", "v1.3.0")]
)
def test_a_minor_is_its_newest_release_and_a_version_is_itself(wanted: str, version: str) -> None:
    assert minors.newest(RELEASED, wanted) == version


@pytest.mark.parametrize("wanted", ["1.31", "1.30.3"])
def test_what_was_not_released_is_refused(wanted: str) -> None:
    with pytest.raises(RigError, match=f"VERSION={wanted} was never released"):
        minors.newest(RELEASED, wanted)


def test_parts_that_upstream_keeps_in_its_own_tree_are_of_the_same_version() -> None:
    replaced = ("k8s.io/api => ./staging/src/k8s.io/api", "other.io/x => other.io/y v1.2.3")
    upstream = f"go 1.22.0\n\nreplace (\n\t{chr(10).join(replaced)}\n)\n"

    text = minors.requiring("v1.30.14", upstream, go="go 1.26.0")

    assert "require k8s.io/kubernetes v1.30.14\n" in text
    assert text.endswith("replace (\n\tk8s.io/api => k8s.io/api v0.30.14\n)\n")
    assert "\ngo 1.26.0\n" in text


def test_the_program_of_another_minor_has_the_control_plane_alone() -> None:
    main = minors.control_plane_alone((minors.PINNED / "main.go").read_text())

    assert [name for name in kubernetes.PROGRAMS if f'"{name}": ' in main] == list(minors.PROGRAMS)
    assert not any(word in main for word in ("kubelet", "etcd", "context"))


@pytest.mark.parametrize(
    ("version", "says"),
    [("", "no version of Kubernetes is named"), ("v1.30", "VERSION='v1.30' is no version of Kubernetes")],
)
def test_a_wrong_version_is_told_before_anything_is_built(version: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rig", "kubernetes"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), minors.VARIABLE: version},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr
    assert "VERSION=1.30" in done.stderr
