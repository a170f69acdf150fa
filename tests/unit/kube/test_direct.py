"""Single requests to an API server, over a connection each."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rig.operator import reportstore
from rig.operator.reportstore import TORN, Failure, ReportStore
from schedkit.kube.access.config import Connection
from schedkit.kube.direct import DirectClient
from schedkit.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    DecodeError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnavailableError,
)
from schedkit.sked.kinds import SCHEDEXT_NODES

REPORT = {"metadata": {"name": "node-1"}, "status": {"state": "enabled"}}


@pytest.fixture(params=["127.0.0.1", "::1"])
def store(request: pytest.FixtureRequest) -> Iterator[ReportStore]:
    with reportstore.serving(request.param) as store:
        yield store


@pytest.fixture
def client(store: ReportStore) -> DirectClient:
    return DirectClient(store.connection, "sked/1 agent", timeout_s=5)


def change(version: str, state: str) -> list[dict[str, object]]:
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": {"state": state}},
    ]


def test_an_object_is_made_read_and_changed(store: ReportStore, client: DirectClient) -> None:
    made = client.create(SCHEDEXT_NODES, REPORT, token="t")
    read = client.get(SCHEDEXT_NODES, "node-1", token="t")
    changed = client.change(
        SCHEDEXT_NODES, change(read.metadata.resource_version, "disabled"), "node-1", token="t"
    )

    assert made == read
    assert changed.status is not None
    assert (changed.status.state, changed.metadata.resource_version) == ("disabled", "2")
    assert store.asked == ["POST", "GET", "PATCH"]


def test_a_request_says_who_asks_and_what_it_sends(store: ReportStore, client: DirectClient) -> None:
    client.create(SCHEDEXT_NODES, REPORT, token="a-token")
    client.change(SCHEDEXT_NODES, change("1", "disabled"), "node-1", token=None)

    post, patch = store.headers
    assert (post["authorization"], post["user-agent"]) == ("Bearer a-token", "sked/1 agent")
    assert post["content-type"] == "application/json"
    assert patch["content-type"] == "application/json-patch+json"
    assert "authorization" not in patch


def test_an_object_that_is_there_is_not_made_again(client: DirectClient) -> None:
    client.create(SCHEDEXT_NODES, REPORT, token=None)

    with pytest.raises(AlreadyExistsError):
        client.create(SCHEDEXT_NODES, REPORT, token=None)


def test_a_change_of_another_version_is_a_conflict(store: ReportStore, client: DirectClient) -> None:
    store.put("node-1", REPORT)
    store.put("node-1", REPORT)

    with pytest.raises(ConflictError):
        client.change(SCHEDEXT_NODES, change("1", "disabled"), "node-1", token=None)


def test_an_object_that_is_not_there_is_not_found(client: DirectClient) -> None:
    with pytest.raises(NotFoundError):
        client.get(SCHEDEXT_NODES, "node-1", token=None)


@pytest.mark.parametrize(
    ("failure", "expected", "retry_after_s"),
    [
        (Failure(429, "TooManyRequests", retry_after="7"), UnavailableError, 7.0),
        (Failure(503, "ServiceUnavailable"), UnavailableError, None),
        (Failure(TORN), UnavailableError, None),
        (Failure(403, "Forbidden"), ForbiddenError, None),
        (Failure(401, "Unauthorized"), ForbiddenError, None),
    ],
)
def test_a_failure_is_what_the_caller_does_next(
    store: ReportStore,
    client: DirectClient,
    failure: Failure,
    expected: type[KubeError],
    retry_after_s: float | None,
) -> None:
    store.failures.append(failure)

    with pytest.raises(expected) as raised:
        client.get(SCHEDEXT_NODES, "node-1", token=None)

    assert getattr(raised.value, "retry_after_s", None) == retry_after_s


def test_an_object_of_another_shape_is_named_as_such(store: ReportStore, client: DirectClient) -> None:
    store.put("node-1", {"status": {"state": 7}})

    with pytest.raises(DecodeError, match="the answer is no SchedExtNode"):
        client.get(SCHEDEXT_NODES, "node-1", token=None)


def test_a_path_before_the_api_is_kept(store: ReportStore) -> None:
    """As with servers that keep several clusters apart by it."""
    behind = DirectClient(Connection(f"{store.url}/clusters/one/"), "sked/1 agent")

    with pytest.raises(NotFoundError):
        behind.get(SCHEDEXT_NODES, "node-1", token=None)

    assert store.asked == ["GET"]


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        nobody = DirectClient(Connection(f"http://user:pass@127.0.0.1:{port}"), "sked/1 agent", timeout_s=5)

        with pytest.raises(UnavailableError, match=f"^http://127.0.0.1:{port} did not answer: ") as raised:
            nobody.get(SCHEDEXT_NODES, "node-1", token=None)

    assert raised.value.acted


def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        client = DirectClient(Connection(f"http://127.0.0.1:{port}"), "sked/1 agent", timeout_s=0.1)

        with pytest.raises(UnavailableError, match="timed out"):
            client.get(SCHEDEXT_NODES, "node-1", token=None)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://[::1]", ("::1", 443)),
        ("http://[::1]", ("::1", 80)),
        ("https://[fd00::1]:6443", ("fd00::1", 6443)),
        ("https://api.example", ("api.example", 443)),
    ],
)
def test_the_end_of_an_address_is_not_taken_for_a_port(server: str, expected: tuple[str, int]) -> None:
    connected = DirectClient(Connection(server), "sked/1 agent")._connect()  # noqa: SLF001 - it would need the port

    assert (connected.host, connected.port) == expected
