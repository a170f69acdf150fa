"""The verbs of `schedctl` that need no container runtime, as a user runs them, on real registries."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rig import images, processes
from rig.certificates import Authority
from rig.processes import Completed
from rig.registry import Registry

SCHEDCTL = Path(sys.executable).with_name("schedctl")
Schedctl: TypeAlias = Callable[..., Completed]


@pytest.fixture
def schedctl(tmp_path: Path, authority: Authority) -> Schedctl:
    """The command as somebody with an empty home runs it, who trusts the rig's registries."""
    home = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "SCHEDCTL_REGISTRY_CA": str(authority.ca_file),
        "SCHEDCTL_CATALOG": str(tmp_path / "own.json"),
    }
    (tmp_path / "own.json").write_text("{}")

    def run(*words: str, check: bool = True, **environment: str) -> Completed:
        return processes.run(
            [SCHEDCTL, *words], env=home | environment, cwd=tmp_path, check=check, timeout_s=60
        )

    return run


def answer(done: Completed) -> Any:  # noqa: ANN401 - JSON
    return json.loads(done.stdout)


def push(registry: Registry, repository: str, *tags: str, name: str = "fifo") -> str:
    """A scheduler's image for two platforms under these tags; returns its digest."""
    layout = images.multi_platform_scheduler(name)
    return {registry.client.push(layout, repository, tag) for tag in tags}.pop()


# versions


def test_versions_are_sorted_as_versions_and_signatures_are_left_out(
    registry: Registry, schedctl: Schedctl
) -> None:
    evidence = f"sha256-{'a' * 64}.sig"
    push(registry, "rig/versions", "1.0.9", "1.0.10", "latest", "1.0.9-rc1", evidence)
    image = f"{registry.host}/rig/versions"

    assert schedctl("versions", image).stdout == "1.0.9-rc1\n1.0.9\n1.0.10\nlatest\n"
    assert answer(schedctl("versions", image, "--all", "-o", "json")) == {
        "schema_version": "1",
        "repository": image,
        "versions": ["1.0.9-rc1", "1.0.9", "1.0.10", "latest", evidence],
    }


def test_versions_of_a_repository_that_is_not_there_fail_with_a_next_step(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    done = schedctl("versions", f"{any_registry.host}/rig/nothing", check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"Error: cannot list the versions of {any_registry.host}/rig/nothing\n  why:"
    )
    assert "\n  next: " in done.stderr


# info


def test_info_shows_labels_platforms_digest_and_what_the_catalog_knows(
    registry: Registry, schedctl: Schedctl, tmp_path: Path
) -> None:
    digest = push(registry, "rig/info", "1.0.0")
    entry = {"imageURI": f"{registry.host}/rig/info:1.0.0", "opsName": "rig_fifo", "minKernel": "6.13"}
    (tmp_path / "own.json").write_text(json.dumps({"fifo": entry}))

    found = answer(schedctl("info", "fifo", "-o", "json"))

    assert (found["image"], found["digest"]) == (entry["imageURI"], digest)
    assert found["platforms"] == ["linux/amd64", "linux/arm64"]
    assert (found["platform"], found["version"], found["min_kernel"]) == ("linux/amd64", "1.0.0", "6.12")
    assert found["labels"] == images.scheduler_labels("fifo")
    assert found["catalog"]["ops_name"] == "rig_fifo"


def test_info_of_an_image_that_no_catalog_knows_shows_the_image_alone(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    digest = any_registry.client.push(images.scheduler("fifo"), "rig/alone", "1.0.0")

    shown = schedctl("info", f"{any_registry.host}/rig/alone@{digest}").stdout

    assert f"Digest:     {digest}\n" in shown
    assert "Kernel:     6.12 or newer\n" in shown
    assert "catalog" not in shown


def test_info_of_a_version_that_is_not_there_says_where_to_look(
    any_registry: Registry, schedctl: Schedctl
) -> None:
    push(any_registry, "rig/other", "1.0.0")

    done = schedctl("info", f"{any_registry.host}/rig/other", "--version", "2.0", "-o", "json", check=False)

    assert done.returncode == 1
    assert "schedctl versions" in json.loads(done.stderr)["error"]["next"]


def test_without_a_network_info_says_that_the_catalog_still_answers(schedctl: Schedctl) -> None:
    done = schedctl("info", f"127.0.0.1:{processes.free_port()}/x/y", check=False)

    assert done.returncode == 1
    assert "`schedctl catalog show NAME` works without a network" in done.stderr
