"""Which Kubernetes programs the rig runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig import kubernetes, processes


@pytest.mark.parametrize("name", kubernetes.PROGRAMS)
def test_each_program_reports_the_pinned_version(name: str) -> None:
    assert kubernetes.version(name).removeprefix("v") in kubernetes.reported_version(
        kubernetes.binaries() / name
    )


@pytest.mark.parametrize(
    ("answer", "offers"),
    [
        pytest.param(
            f"Kubernetes {kubernetes.version()}", ["kube-apiserver"], id="the pinned version is taken"
        ),
        pytest.param(
            "Kubernetes v1.36.99", ["kube-apiserver"], id="another patch of the pinned minor is taken"
        ),
        pytest.param("Kubernetes v1.35.3", [], id="an older minor is left"),
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
    kubebox = (kubernetes.binaries() / "kubelet").resolve()

    done = processes.run([kubebox, "kube-proxy"], check=False)

    assert done.returncode == 64
    assert all(name in done.stderr for name in kubernetes.PROGRAMS)
