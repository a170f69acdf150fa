"""Which API server and which user a configuration names, and what is said about a wrong one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from schedkit.kube.access import config
from schedkit.kube.access.config import Connection
from schedkit.kube.access.credentials import ExecPlugin, TokenFile
from schedkit.kube.errors import ConfigError

TWO_CONTEXTS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "home",
    "clusters": [
        {"name": "near", "cluster": {"server": "http://near.example:8080/"}},
        {"name": "far", "cluster": {"server": "http://far.example"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret"}}, {"name": "nobody", "user": None}],
    "contexts": [
        {"name": "home", "context": {"cluster": "near", "user": "me", "namespace": "mine"}},
        {"name": "away", "context": {"cluster": "far", "user": "nobody"}},
        {"name": "torn", "context": {"cluster": "gone", "user": "me"}},
    ],
}


def written(path: Path, content: object = None) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content or TWO_CONTEXTS))
    return path


def token(connection: Connection) -> str | None:
    return asyncio.run(_token(connection))


async def _token(connection: Connection) -> str | None:
    return await connection.credentials.token()


def with_user(**user: object) -> dict[str, Any]:
    return TWO_CONTEXTS | {"users": [{"name": "me", "user": user}]}


def with_cluster(**cluster: object) -> dict[str, Any]:
    near = {"server": "http://near.example", **cluster}
    return TWO_CONTEXTS | {"clusters": [{"name": "near", "cluster": near}]}


def test_the_current_context_names_server_user_and_namespace(tmp_path: Path) -> None:
    found = config.discover(written(tmp_path / "config"), env={})

    assert (found.server, found.namespace, token(found)) == ("http://near.example:8080", "mine", "secret")


def test_another_context_can_be_asked_for(tmp_path: Path) -> None:
    found = config.discover(written(tmp_path / "config"), context="away", env={})

    assert (found.server, found.namespace, token(found)) == ("http://far.example", "default", None)


def test_of_several_files_the_first_word_counts(tmp_path: Path) -> None:
    first = written(
        tmp_path / "first", {"current-context": "away", "users": [{"name": "nobody", "user": {"token": "t"}}]}
    )
    second = written(tmp_path / "second")
    found = config.discover(env={"KUBECONFIG": f"{first}:{second}"})

    assert (found.server, token(found)) == ("http://far.example", "t")


def test_a_named_file_goes_before_the_environment_and_that_before_the_pod(tmp_path: Path) -> None:
    named = written(tmp_path / "named")
    other = written(tmp_path / "other", TWO_CONTEXTS | {"current-context": "away"})
    env = {"KUBECONFIG": str(other), "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    assert config.discover(named, env=env).server == "http://near.example:8080"
    assert config.discover(env=env).server == "http://far.example"
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        config.discover(env={name: value for name, value in env.items() if name != "KUBECONFIG"})


def test_the_users_own_file_is_the_last_resort(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no API server is known"):
        config.discover(env={"HOME": str(tmp_path)})

    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube" / "config")
    assert config.discover(env={"HOME": str(tmp_path)}).namespace == "mine"


def test_a_token_file_goes_before_a_token_and_is_found_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "tok").write_text("from-file\n")
    found = config.discover(written(tmp_path / "config", with_user(token="inline", tokenFile="tok")), env={})

    assert isinstance(found.credentials, TokenFile)
    assert token(found) == "from-file"


def test_a_credential_program_is_found_beside_the_kubeconfig_or_on_the_path(tmp_path: Path) -> None:
    beside = {"command": "./bin/helper", "apiVersion": "client.authentication.k8s.io/v1", "args": ["get"]}
    found = config.discover(written(tmp_path / "config", with_user(exec=beside)), env={})
    assert isinstance(found.credentials, ExecPlugin)
    assert found.credentials.argv == (f"{tmp_path}/bin/helper", "get")

    on_path = config.discover(written(tmp_path / "config", with_user(exec={"command": "helper"})), env={})
    assert isinstance(on_path.credentials, ExecPlugin)
    assert on_path.credentials.argv == ("helper",)


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo oops >&2; exit 3", "ended with 3: oops; install it from somewhere"),
        ("echo '{}'", "neither a token nor a certificate"),
        ("echo no json", "no ExecCredential"),
    ],
)
def test_a_credential_program_that_fails_is_named_with_what_it_said(
    tmp_path: Path, script: str, complaint: str
) -> None:
    plugin = {"command": "sh", "args": ["-c", script], "installHint": "install it from somewhere"}
    found = config.discover(written(tmp_path / "config", with_user(exec=plugin)), env={})

    with pytest.raises(ConfigError, match=complaint) as error:
        token(found)
    assert "'sh'" in str(error.value)


def test_a_missing_credential_program_is_named(tmp_path: Path) -> None:
    found = config.discover(written(tmp_path / "config", with_user(exec={"command": "./gone"})), env={})

    with pytest.raises(ConfigError, match="cannot be started"):
        token(found)


def test_a_credential_program_that_is_not_waited_for_runs_on_for_the_next_who_asks(tmp_path: Path) -> None:
    count, gate = tmp_path / "count", tmp_path / "gate"
    said = '{"status": {"token": "t"}}'
    script = f"echo ran >> {count}; while [ ! -e {gate} ]; do sleep 0.05; done; echo '{said}'"
    plugin = {"command": "sh", "args": ["-c", script]}
    found = config.discover(written(tmp_path / "config", with_user(exec=plugin)), env={})

    async def impatiently_then_patiently() -> str | None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(found.credentials.token(), 0.3)
        gate.touch()
        return await asyncio.wait_for(found.credentials.token(), 20)

    assert asyncio.run(impatiently_then_patiently()) == "t"
    assert count.read_text() == "ran\n"


@pytest.mark.parametrize(
    ("status", "programs_run"),
    [
        pytest.param('{"token": "t"}', 1, id="a token without an end is kept"),
        pytest.param(
            '{"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"}', 2, id="an expired one is not"
        ),
        pytest.param('{"token": "t", "expirationTimestamp": "2999-01-01T00:00:00Z"}', 1, id="a young one is"),
    ],
)
def test_a_credential_program_runs_again_when_its_token_expired(
    tmp_path: Path, status: str, programs_run: int
) -> None:
    count = tmp_path / "count"
    script = f"echo ran >> {count}; echo '{{\"status\": {status}}}'"
    plugin = {"command": "sh", "args": ["-c", script]}
    found = config.discover(written(tmp_path / "config", with_user(exec=plugin)), env={})

    async def twice() -> list[str | None]:
        return [await found.credentials.token(), await found.credentials.token()]

    assert asyncio.run(twice()) == ["t", "t"]
    assert len(count.read_text().splitlines()) == programs_run


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("{", "is no kubeconfig", id="no YAML"),
        pytest.param(
            "root:x:0:0\n", "one is YAML with clusters, users and contexts .*; name another", id="text"
        ),
        pytest.param({"clusters": 5}, "is no kubeconfig", id="another shape"),
        pytest.param({"clusters": []}, "no current-context", id="no context chosen"),
        pytest.param(
            TWO_CONTEXTS | {"current-context": "x"}, "no context 'x': it has away, home, torn", id="context"
        ),
        pytest.param(
            TWO_CONTEXTS | {"current-context": "torn"}, "no cluster 'gone': it has far, near", id="cluster"
        ),
        pytest.param(with_cluster(server="near.example"), "no https:// address", id="server"),
        pytest.param(with_user(username="me", password="x"), "which Kubernetes dropped", id="password"),
        pytest.param(with_cluster(**{"proxy-url": "socks5://p"}), "only http:// and https://", id="proxy"),
        pytest.param(
            with_cluster(server="https://n", **{"certificate-authority": "gone.crt"}),
            "gone.crt",
            id="CA file",
        ),
        pytest.param(
            with_cluster(server="https://n", **{"certificate-authority-data": "!"}),
            "cannot be read",
            id="base64",
        ),
    ],
)
def test_a_wrong_kubeconfig_is_refused_with_what_is_wrong(
    tmp_path: Path, content: object, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        config.discover(written(tmp_path / "config", content), env={})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://near.example:6443/api", "https://near.example:6443/api"),
        ("https://me:hunter2@near.example:6443/api", "https://near.example:6443/api"),
        pytest.param("http://me:hunt/er@2@[fd00::1]:1", "http://[fd00::1]:1", id="not escaped"),
        pytest.param("me:hunter2@near.example:1", "near.example:1", id="without a scheme"),
        pytest.param("me:hunter2://@near.example", "near.example", id="with something like a scheme"),
    ],
)
def test_an_address_is_shown_without_user_and_password(url: str, shown: str) -> None:
    assert config.without_userinfo(url) == shown
    assert Connection(url).address == shown


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param({"server": "ftp://me:hunter2@near.example"}, id="server"),
        pytest.param({"proxy-url": "socks5://me:hunter2@near.example"}, id="proxy"),
        pytest.param({"proxy-url": "me:hunter2@near.example"}, id="proxy without a scheme"),
    ],
)
def test_a_wrong_address_is_named_without_user_and_password(
    tmp_path: Path, cluster: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match=r"near\.example") as error:
        config.discover(written(tmp_path / "config", with_cluster(**cluster)), env={})

    assert "me:" not in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        config.discover(tmp_path / "no-such-file", env={})


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="the environment's"),
        pytest.param(
            {"https_proxy": "http://q:1", "HTTPS_PROXY": "http://p:1"}, "http://q:1", id="small letters first"
        ),
        pytest.param({"HTTP_PROXY": "http://p:1"}, None, id="another scheme's"),
        pytest.param({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a,.example"}, None, id="excepted by domain"),
        pytest.param({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "other"}, "http://p:1", id="not excepted"),
    ],
)
def test_the_environments_proxy_is_used_unless_excepted(env: dict[str, str], expected: str | None) -> None:
    assert config.proxy_for("https://near.example:6443", None, env) == expected


def test_the_kubeconfigs_proxy_goes_before_the_environments() -> None:
    env = {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}

    assert config.proxy_for("https://near.example", "http://own:2", env) == "http://own:2"


def test_inside_a_pod_an_ipv6_address_is_written_in_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match=r"ca\.crt"):
        config.in_cluster(env, tmp_path)

    import ssl

    roots = Path(ssl.get_default_verify_paths().cafile or "/etc/ssl/certs/ca-certificates.crt")
    (tmp_path / "ca.crt").symlink_to(roots)
    assert config.in_cluster(env, tmp_path).server == "https://[fd00::1]:443"
