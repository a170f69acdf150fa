"""The targets that install: they say what is missing before they touch anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
NO_CLUSTER = """\
#!/bin/sh
echo "The connection to the server localhost:8080 was refused" >&2
exit 1
"""


def make(*words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
    environment = kept | {"PATH": path or os.environ["PATH"]}
    argv = ["make", "--old-file=.venv/.ready", "--old-file=manifests", *words]
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.fixture
def without_cluster(tmp_path: Path) -> str:
    """A PATH whose kubectl finds nobody."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(NO_CLUSTER)
    kubectl.chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize("target", ["deploy", "build-installer", "docker-build"])
def test_without_an_image_it_says_how_to_name_or_build_one(target: str) -> None:
    done = make(target)

    assert done.returncode != 0
    assert "add IMG=registry/repository:tag; `make docker-build IMG=…` builds one" in done.stderr


def test_an_image_that_is_none_is_refused() -> None:
    done = make("deploy", "IMG=Not An Image")

    assert "IMG=Not An Image is no image reference: write registry/repository:tag" in done.stderr


@pytest.mark.parametrize("target", ["install", "uninstall", "deploy", "undeploy", "run"])
def test_without_a_cluster_it_says_how_to_name_or_start_one(target: str, without_cluster: str) -> None:
    done = make(target, "IMG=registry.example/sked:1", path=without_cluster)

    assert done.returncode != 0
    assert "no cluster answers (The connection to the server localhost:8080 was refused)" in done.stderr
    assert "point KUBECONFIG at a cluster; `make cluster` starts one" in done.stderr


def test_a_tool_that_is_not_there_is_named() -> None:
    done = make("docker-build", "IMG=registry.example/sked:1", "CONTAINER_TOOL=no-such-tool")

    assert "no-such-tool is not on PATH: install it, or name another with CONTAINER_TOOL=…" in done.stderr
