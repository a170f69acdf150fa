"""Which node a token was made for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedkit.kube.errors import ConfigError
from schedkit.sked.agent.identity import Place, place_of_token

NODE = {"name": "node-1", "uid": "node-uid"}


def token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJSUzI1NiJ9.{payload}.c2lnbmF0dXJl"


def bound(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - claims
    return {"namespace": "sked-node", "pod": {"name": "agent", "uid": "pod-uid"}, "warnafter": 7, **more}


@pytest.mark.parametrize("padding", ["", "x", "xx", "xxx"])
def test_a_token_names_node_and_pod(padding: str) -> None:
    claims = {"iss": "https://api" + padding, "exp": 99, "kubernetes.io": bound(node=NODE)}

    assert place_of_token(token(claims)) == Place("node-1", "node-uid", "pod-uid")


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"kubernetes.io": bound()}, id="of a Kubernetes that is too old"),
        pytest.param({"kubernetes.io": bound(node={"name": "node-1"})}, id="without the UID"),
        pytest.param({"kubernetes.io": bound(node={"uid": "node-uid"})}, id="without the name"),
        pytest.param({"sub": "somebody"}, id="of somebody else"),
    ],
)
def test_a_token_without_a_node_is_refused_with_what_to_do(claims: object) -> None:
    with pytest.raises(
        ConfigError, match=r"does not name a node: run the agent in a pod, on Kubernetes 1\.30"
    ):
        place_of_token(token(claims))


@pytest.mark.parametrize(
    "given_token",
    [
        None,
        "",
        "opaque",
        "a.b.c",
        "a.é.c",
        token([]),
        token({"kubernetes.io": 7}),
        token(7),
        "..",
        "a.====.c",
    ],
)
def test_what_is_no_token_of_a_service_account_is_refused_with_what_to_do(given_token: str | None) -> None:
    with pytest.raises(ConfigError, match="is none of a service account: run the agent in its pod"):
        place_of_token(given_token)


@given(text=st.text())
def test_no_token_makes_it_raise_anything_else(text: str) -> None:
    with pytest.raises(ConfigError):
        place_of_token(text)
