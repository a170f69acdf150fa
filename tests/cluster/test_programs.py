"""Which Kubernetes programs the rig runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.base import processes
from rig.cluster import kubernetes

MAJOR, MINOR = kubernetes.minor(kubernetes.version())


@pytest.mark.parametrize("name", kubernetes.PROGRAMS)
def test_each_program_reports_the_pinned_minor(name: str) -> None:
    """Not the patch: the environment may offer another one."""
    reported = kubernetes.reported_version(kubernetes.binaries() / name)

    assert kubernetes.minor(reported) == kubernetes.minor(kubernetes.version(name))


def test_the_program_that_the_rig_builds_reports_the_pinned_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    apiserver = tmp_path / "kube-apiserver"
    apiserver.symlink_to(kubernetes.kubebox())

    assert kubernetes.reported_version(apiserver).strip() == f"Kubernetes {kubernetes.version()}"


@pytest.mark.parametrize(
    ("answer", "offers"),
    [
        pytest.param(
            f"Kubernetes {kubernetes.version()}", ["kube-apiserver"], id="the pinned version is taken"
        ),
        pytest.param(
            f"Kubernetes v{MAJOR}.{MINOR}.99",
            ["kube-apiserver"],
            id="another patch of the pinned minor is taken",
        ),
        pytest.param(f"Kubernetes v{MAJOR}.{int(MINOR) - 1}.3", [], id="an older minor is left"),
        pytest.param("cannot say", [], id="a program without a version is left"),
    ],
)
def test_programs_offered_by_the_environment(
    answer: str, offers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kube-apiserver"
    program.write_text(f"#!/bin/sh\necho {answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    assert list(kubernetes.offered()) == offers


def test_a_name_that_kubebox_does_not_know_is_refused_with_the_known_ones() -> None:
    box = kubernetes.kubebox()
    done = processes.run([box, "kube-proxy"], check=False)

    assert done.returncode == 64
    assert all(name in done.stderr for name in kubernetes.PROGRAMS if kubernetes.kubebox(name) == box)
