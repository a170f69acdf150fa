"""Flags of `sked manager` that change what it serves: each has the effect that its help promises."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest

from rig.cluster.controlplane import ControlPlane
from rig.operator import manager
from schedkit.sked.http import selfsigned


@pytest.fixture(autouse=True)
def crd(cluster: ControlPlane) -> None:
    manager.install_crd(cluster)


def test_metrics_that_need_not_be_secure_are_for_everybody_and_http2_is_warned_about(
    cluster: ControlPlane,
) -> None:
    with manager.running(cluster, "open", "--metrics-secure=false", "--enable-http2") as sked:
        code, page = sked.scrape_plainly()

        assert (code, "sked_build_info{" in page) == (200, True)
        (served,) = sked.says("metrics_served")
        assert served["secure"] is False
        (warned,) = sked.says("http2_not_spoken")
        assert (warned["level"], "remove --enable-http2" in warned["reason"]) == ("warning", True)


def test_a_mounted_certificate_is_the_one_that_readers_are_shown(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    certificate = write_pair(tmp_path)
    only_this = ssl.create_default_context(cadata=certificate)
    only_this.check_hostname = False  # it is not for the address that tests use

    with manager.running(cluster, "mounted", f"--metrics-cert-path={tmp_path}") as sked:
        code, _ = sked.scrape(tls=only_this)

        assert code == 401, "known by its certificate, it asks for a token"
    with manager.running(cluster, "unmounted") as sked:
        code, words = sked.scrape(tls=only_this)

        assert (code, "CERTIFICATE_VERIFY_FAILED" in words) == (0, True)


def write_pair(folder: Path) -> str:
    """As a mounted Secret has it; the certificate."""
    key, begin, rest = selfsigned.make(dt.datetime.now(dt.UTC)).decode().partition("-----BEGIN CERTIFICATE")
    (folder / "tls.key").write_text(key)
    (folder / "tls.crt").write_text(begin + rest)
    return begin + rest
