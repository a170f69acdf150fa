"""Logins that other tools left behind are found as those tools would find them."""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from schedkit.model.images.references import Repository
from schedkit.oci.errors import Unauthorized
from schedkit.oci.registry import login_helpers
from schedkit.oci.registry.challenges import Login
from schedkit.oci.registry.logins import CredentialFiles, files_of


def _auth(user: str, password: str = "") -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def _found(folder: Path, content: dict[str, Any], registry: str, path: str = "a/b") -> Login | None:
    file = folder / "auth.json"
    file.write_text(json.dumps(content))
    return CredentialFiles((file,)).find(Repository(registry, path))


@pytest.mark.parametrize(
    ("keys", "registry", "path", "user"),
    [
        pytest.param(["quay.io"], "quay.io", "a/b", "quay.io", id="the registry's"),
        pytest.param(["quay.io"], "ghcr.io", "a/b", None, id="not another registry's"),
        pytest.param(["quay.io"], "quay.io:443", "a/b", None, id="not that of another port"),
        pytest.param(["quay.io", "quay.io/a"], "quay.io", "a/b", "quay.io/a", id="the longest prefix"),
        pytest.param(["quay.io", "quay.io/a/b"], "quay.io", "a/b", "quay.io/a/b", id="the repository's own"),
        pytest.param(["quay.io/a"], "quay.io", "ab/c", None, id="a prefix ends where a part does"),
        pytest.param(
            ["https://quay.io/v1/"], "quay.io", "a/b", "https://quay.io/v1/", id="a URL, as Docker had"
        ),
        pytest.param(
            ["https://index.docker.io/v1/"],
            "docker.io",
            "a",
            "https://index.docker.io/v1/",
            id="Docker's registry",
        ),
        pytest.param(
            ["docker.io"], "docker.io", "a", "docker.io", id="Docker's registry, as Podman names it"
        ),
        pytest.param(
            ["registry.hub.docker.com"],
            "docker.io",
            "a",
            "registry.hub.docker.com",
            id="Docker's registry, by another host",
        ),
        pytest.param(
            ["https://index.docker.io/v1/", "registry.hub.docker.com"],
            "docker.io",
            "a",
            "https://index.docker.io/v1/",
            id="Docker's registry by its own name, whatever stands after it",
        ),
    ],
)
def test_the_entry_that_fits_best_is_taken(
    tmp_path: Path, keys: list[str], registry: str, path: str, user: str | None
) -> None:
    login = _found(tmp_path, {"auths": {key: _auth(key.replace(":", "")) for key in keys}}, registry, path)

    assert (login and login.username) == (user and user.replace(":", ""))


@pytest.mark.parametrize(
    ("entry", "login"),
    [
        pytest.param(_auth("ada", "a:b"), Login("ada", "a:b"), id="a password with a colon"),
        pytest.param(
            {"username": "ada", "password": "x"}, Login("ada", "x"), id="in the open, as kubectl writes"
        ),
        pytest.param({**_auth("ada"), "identitytoken": "t"}, Login(identity_token="t"), id="a token"),
        pytest.param({}, None, id="empty, as Docker leaves beside a helper"),
    ],
)
def test_an_entry_has_several_forms(tmp_path: Path, entry: dict[str, str], login: Login | None) -> None:
    assert _found(tmp_path, {"auths": {"quay.io": entry}}, "quay.io") == login


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"{", "is not JSON.*log in again", id="half a file"),
        pytest.param(
            b'{"auths": {"quay.io": {"auth": "???"}}}', "not the base64 of name:password", id="no base64"
        ),
        pytest.param(
            '{"auths": {"quay.io": {"auth": "é"}}}'.encode(), "not the base64 of name:password", id="no ASCII"
        ),
        pytest.param(
            b'{"auths": {"quay.io": {"auth": "YWRh"}}}', "not the base64 of name:password", id="no colon"
        ),
        pytest.param(b'{"auths": {"quay.io": 1}}', "malformed", id="no entry"),
        pytest.param(b" " * (1024 * 1024 + 1), "not a file of logins", id="a huge file"),
        pytest.param(b'{"credHelpers": {"quay.io": "../x"}}', "be a credential", id="a helper elsewhere"),
        pytest.param(
            b'{"credHelpers": {"quay.io": "not-there"}}', "cannot be run", id="a helper that is not there"
        ),
    ],
)
def test_a_file_that_does_not_work_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "auth.json"
    file.write_bytes(content)

    with pytest.raises(Unauthorized, match=sentence):
        CredentialFiles((file,)).find(Repository("quay.io", "a"))


def test_the_first_file_that_knows_decides(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(json.dumps({"auths": {"ghcr.io": _auth("first")}}))
    second.write_text(json.dumps({"auths": {"ghcr.io": _auth("second"), "quay.io": _auth("second")}}))
    files = CredentialFiles((tmp_path / "missing", first, second))

    users = [files.find(Repository(registry, "a")) for registry in ("ghcr.io", "quay.io", "gcr.io")]

    assert [user and user.username for user in users] == ["first", "second", None]


@pytest.mark.parametrize(
    ("environment", "files"),
    [
        pytest.param(
            {"REGISTRY_AUTH_FILE": "/x", "HOME": "/h"}, ["/x"], id="the chosen file replaces all others"
        ),
        pytest.param(
            {"XDG_RUNTIME_DIR": "/r", "HOME": "/h"},
            ["/r/containers/auth.json", "/h/.config/containers/auth.json", "/h/.docker/config.json"],
            id="Podman's before Docker's",
        ),
        pytest.param(
            {"XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"},
            ["/run/containers/7/auth.json", "/c/containers/auth.json", "/d/config.json"],
            id="each where it was told to be",
        ),
        pytest.param({}, ["/run/containers/7/auth.json"], id="without a home"),
    ],
)
def test_files_are_looked_for_where_those_tools_keep_them(
    environment: dict[str, str], files: list[str]
) -> None:
    assert [str(file) for file in files_of(environment, uid=7).files] == files


def test_a_password_does_not_show() -> None:
    assert "secret" not in repr(Login("ada", "secret", "secret"))


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a helper named `rig`, found before all others; write a script into it."""
    program = tmp_path / "bin/docker-credential-rig"
    program.parent.mkdir()
    program.touch()
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def _answering(document: str, server: str = "quay.io") -> str:
    return f"#!/bin/sh\n[ $1 = get ] && read server\n[ $server = {server} ] && echo '{document}'\n"


@pytest.mark.parametrize(
    ("document", "login"),
    [
        ('{"ServerURL": "quay.io", "Username": "ada", "Secret": "s"}', Login("ada", "s")),
        ('{"Username": "<token>", "Secret": "t"}', Login(identity_token="t")),
        ("credentials not found in native keychain", None),
    ],
)
@pytest.mark.parametrize("setting", [{"credsStore": "rig"}, {"credHelpers": {"quay.io": "rig"}}])
def test_a_helper_is_asked(
    helper: Path, tmp_path: Path, setting: dict[str, Any], document: str, login: Login | None
) -> None:
    helper.write_text(_answering(document))

    assert _found(tmp_path, {"auths": {"quay.io": {}}, **setting}, "quay.io") == login


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_helpers_for_dockers_registry_the_one_under_its_own_name_is_asked(
    helper: Path, tmp_path: Path, order: int
) -> None:
    helper.write_text(_answering('{"Username": "ada", "Secret": "s"}', "https://index.docker.io/v1/"))
    named = [("docker.io", "rig"), ("registry.hub.docker.com", "not-there")][::order]

    assert _found(tmp_path, {"credHelpers": dict(named)}, "docker.io") == Login("ada", "s")


def test_a_login_in_the_file_goes_before_the_helper_for_all_others(helper: Path, tmp_path: Path) -> None:
    helper.write_text("#!/bin/false\n")

    login = _found(tmp_path, {"auths": {"quay.io": _auth("ada")}, "credsStore": "rig"}, "quay.io")

    assert login == Login("ada", "")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        pytest.param("exec sleep 60", "took too long or wrote too much", id="one that hangs"),
        pytest.param("exec cat /dev/zero", "took too long or wrote too much", id="one that never ends"),
        pytest.param("exit 1", "is not JSON", id="one that fails"),
        pytest.param("exec 0<&-; echo []", "not an object", id="one that does not listen"),
        pytest.param('echo \'{"Username": "ada"}\'', "Secret", id="one that knows half of it"),
    ],
)
def test_a_helper_that_does_not_do_its_work_does_not_hold_us(
    helper: Path, script: str, sentence: str
) -> None:
    helper.write_text(f"#!/bin/sh\n{script}\n")

    begun = time.monotonic()
    with pytest.raises(Unauthorized, match=sentence):
        login_helpers.ask(helper.name, "quay.io", longest_s=0.5)

    assert time.monotonic() - begun < 10
