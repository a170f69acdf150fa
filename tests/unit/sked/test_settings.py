"""The flags of `sked manager`: Go's forms of booleans and addresses, environment variables, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from schedkit.kube.errors import ConfigError
from schedkit.sked import wiring
from schedkit.sked.main import main
from schedkit.sked.manager import command
from schedkit.sked.settings import Address, Settings, parse_address

WRONG_USAGE = 64


def given(*words: str, env: dict[str, str] | None = None, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the manager would be told."""
    for name, value in (env or {}).items():
        monkeypatch.setenv(name, value)
    return Settings(**command.make_context("manager", list(words)).params)


def refusal(*words: str, env: dict[str, str] | None = None) -> str:
    """What a person is told who writes that."""
    done = CliRunner().invoke(main, ["manager", *words], env=env)
    assert (done.exit_code, done.stdout) == (WRONG_USAGE, "")
    return done.stderr


def test_the_defaults_are_those_of_the_go_sked(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = given(monkeypatch=monkeypatch)

    assert not settings.leader_elect
    assert settings.metrics_bind_address is None
    assert settings.metrics_secure
    assert settings.health_probe_bind_address == Address(None, 8081)
    assert not settings.enable_http2
    assert (settings.trust_mode, settings.default_trust_mode) == ("off", "off")


@pytest.mark.parametrize("form", ["", "=true", "=True", "=TRUE", "=t", "=T", "=1"])
def test_every_form_of_yes_turns_a_switch_on(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given(f"--leader-elect{form}", monkeypatch=monkeypatch).leader_elect


@pytest.mark.parametrize("form", ["=false", "=False", "=FALSE", "=f", "=F", "=0"])
def test_every_form_of_no_turns_a_switch_off(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not given(f"--metrics-secure{form}", monkeypatch=monkeypatch).metrics_secure


def test_a_switch_before_another_flag_takes_no_value_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = given("--leader-elect", "--context", "prod", monkeypatch=monkeypatch)

    assert (settings.leader_elect, settings.context) == (True, "prod")


@pytest.mark.parametrize(
    ("flag", "value", "field", "read"),
    [
        ("leader-elect", "true", "leader_elect", True),
        ("trust-mode", "enforce", "trust_mode", "enforce"),
        ("default-trust-mode", "warn", "default_trust_mode", "warn"),
        ("trust-config", "/etc/sked/trust", "trust_config", Path("/etc/sked/trust")),
        ("trust-interval", "20", "trust_interval", 20.0),
        ("registry-auth", "/auth.json", "registry_auth", Path("/auth.json")),
        ("registry-ca", "/ca.pem", "registry_ca", Path("/ca.pem")),
        ("insecure-registry", "registry.example", "insecure_registry", ("registry.example",)),
        ("metrics-bind-address", ":8443", "metrics_bind_address", Address(None, 8443)),
        ("kubeconfig", "/some/file", "kubeconfig", Path("/some/file")),
        ("context", "prod", "context", "prod"),
        ("namespace", "elsewhere", "namespace", "elsewhere"),
        ("metrics-cert-path", "/certs", "metrics_cert_path", Path("/certs")),
        ("log-format", "json", "log_format", "json"),
    ],
)
def test_a_flag_and_its_variable_mean_the_same(
    flag: str, value: str, field: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_flag = given(f"--{flag}={value}", monkeypatch=monkeypatch)
    variable = f"SKED_{flag.replace('-', '_').upper()}"
    by_variable = given(env={variable: value}, monkeypatch=monkeypatch)

    assert getattr(by_flag, field) == getattr(by_variable, field) == read


def test_a_flag_counts_more_than_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = given("--leader-elect=false", env={"SKED_LEADER_ELECT": "true"}, monkeypatch=monkeypatch)

    assert not settings.leader_elect


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (":8081", Address(None, 8081)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:8443", Address("::1", 8443)),
        ("localhost:1", Address("localhost", 1)),
        ("0", None),
    ],
)
def test_addresses_are_read_as_go_reads_them(text: str, read: Address | None) -> None:
    assert parse_address(text) == read
    assert read is None or str(read) == text


@pytest.mark.parametrize("text", ["8081", "host", ":", ":http", ":65536", "", "-1"])
def test_what_is_no_address_is_refused_with_its_forms(text: str) -> None:
    assert "write host:port, :port for all addresses, 0 for off" in refusal(f"--metrics-bind-address={text}")


def test_a_mistyped_flag_is_refused_with_the_nearest() -> None:
    assert "Did you mean '--leader-elect'?" in refusal("--leader-elct")


def test_a_wrong_value_is_refused_with_the_variable_it_may_have_come_from() -> None:
    words = refusal(env={"SKED_LEADER_ELECT": "yes"})

    assert "SKED_LEADER_ELECT" in words
    assert "'yes' is neither true nor false" in words


def test_a_certificate_that_is_not_there_is_told_before_a_cluster_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--metrics-bind-address=:0", f"--metrics-cert-path={tmp_path}", "--kubeconfig=/nonexistent")

    with pytest.raises(ConfigError, match=r"--metrics-cert-path needs tls\.crt and tls\.key"):
        wiring.run(given(*words, monkeypatch=monkeypatch))
