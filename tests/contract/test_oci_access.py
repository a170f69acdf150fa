"""Redirects, logins and proxies: a secret goes to whom it belongs, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, quote

import pytest

from rig.base.certificates import Authority, KeyPair
from rig.registries.hostile import (
    Behaviour,
    Server,
    always,
    answer,
    dripping,
    endless,
    in_turn,
    redirect,
)
from rig.registries.hostile_limits import (
    BRIEF,
    GOOD_MANIFEST,
    HASTY,
    LAYER,
    LAYER_ENTRY,
    MANIFEST,
    MIB,
    EverybodysLogin,
    TokenHolder,
    demand_login,
    limits,
    repository,
    serve_layer,
    serve_manifest,
    tagged,
    unless_authorized,
)
from schedkit.model.images.references import Reference, Repository
from schedkit.oci.errors import Refused, RegistryError, TooLarge, Unauthorized, Uncertified, Unreachable
from schedkit.oci.http.proxies import Proxies
from schedkit.oci.registry.client import Registry, Settings


@pytest.fixture(scope="module")
def client() -> Iterator[Registry]:
    with Registry(Settings(patience=BRIEF), EverybodysLogin()) as client:
        yield client


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return authority.issue("hostile", common_name="hostile", sans=("127.0.0.1", "localhost"))


def test_a_redirect_to_another_host_does_not_take_the_login_along(
    client: Registry, server: Server, other: Server
) -> None:
    serve_layer(server, demand_login(redirect(f"{other.url}/elsewhere")))
    other.behave("/elsewhere", always(answer(200, LAYER)))

    assert client.blob(repository(server), LAYER_ENTRY, limit=MIB) == LAYER

    assert "authorization" in server.requests[-1].headers
    assert [request.headers.get("authorization") for request in other.requests] == [None]


def test_who_is_redirected_to_does_not_get_the_login_by_asking(
    client: Registry, server: Server, other: Server
) -> None:
    serve_layer(server, demand_login(redirect(f"{other.url}/elsewhere")))
    other.behave("/elsewhere", always(answer(401, WWW_Authenticate='Basic realm="x"')))

    with pytest.raises(Unauthorized):
        client.blob(repository(server), LAYER_ENTRY, limit=MIB)

    assert [request.headers.get("authorization") for request in other.requests] == [None]


def test_a_redirect_on_the_same_host_keeps_the_login(client: Registry, server: Server) -> None:
    serve_layer(server, demand_login(redirect("/elsewhere")))
    server.behave("/elsewhere", always(answer(200, LAYER)))

    client.blob(repository(server), LAYER_ENTRY, limit=MIB)

    assert "authorization" in server.asked("/elsewhere")[0].headers


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "http://a:b@127.0.0.1/",
        "",
        "http://127.0.0.1:x/",
    ],
)
def test_a_redirect_to_what_is_no_web_address_is_not_followed(
    client: Registry, server: Server, location: str
) -> None:
    serve_layer(server, redirect(location))

    with pytest.raises(Refused, match="not a usable address"):
        client.blob(repository(server), LAYER_ENTRY, limit=MIB)


def test_a_redirect_to_an_impossible_host_is_refused(client: Registry, server: Server) -> None:
    serve_layer(server, redirect(f"http://{'x' * 70}.test/"))

    with pytest.raises(Refused, match="cannot be the name of a host"):
        client.blob(repository(server), LAYER_ENTRY, limit=MIB)


def test_redirects_in_a_circle_end(client: Registry, server: Server) -> None:
    serve_layer(server, redirect(f"/v2/a/blobs/{LAYER_ENTRY.digest}"))

    with pytest.raises(Refused, match="redirects more than 5 times"):
        client.blob(repository(server), LAYER_ENTRY, limit=MIB)

    assert len(server.asked("/v2/a/blobs")) == 6


@pytest.fixture
def secure_server(pair: KeyPair) -> Iterator[Server]:
    with Server(pair=pair) as server:
        yield server


@pytest.fixture
def secure_client(authority: Authority) -> Iterator[Registry]:
    settings = Settings(ca_file=authority.ca_file, patience=BRIEF)
    with Registry(settings, EverybodysLogin()) as client:
        yield client


def test_a_redirect_from_https_to_http_is_not_followed(
    secure_client: Registry, secure_server: Server, other: Server
) -> None:
    serve_layer(secure_server, redirect(f"{other.url}/elsewhere"))

    with pytest.raises(Refused, match="redirects from https to"):
        secure_client.blob(repository(secure_server), LAYER_ENTRY, limit=MIB)

    assert other.requests == []


def test_a_login_is_not_sent_to_a_token_server_without_tls(
    secure_client: Registry, secure_server: Server, other: Server
) -> None:
    demand = f'Bearer realm="{other.url}/token",service="x"'
    serve_manifest(secure_server, always(answer(401, WWW_Authenticate=demand)))

    with pytest.raises(Refused, match="not safe to send a login to the token server"):
        secure_client.resolve(tagged(secure_server))

    assert other.requests == []


def test_an_unknown_authority_is_refused_and_not_tried_without_tls(
    client: Registry, secure_server: Server
) -> None:
    with pytest.raises(Uncertified, match="certificate that cannot be trusted"):
        client.resolve(tagged(secure_server))

    assert secure_server.requests == []


@pytest.mark.parametrize(
    ("behaviour", "expected", "sentence"),
    [
        pytest.param(endless(b" " * 4096), TooLarge, "bytes", id="endless"),
        pytest.param(
            always(answer(200, b'{"token": "a\\r\\nX: y"}')), Refused, "no usable token", id="a header in it"
        ),
        pytest.param(always(answer(200, b"{}")), Refused, "no usable token", id="none"),
        pytest.param(always(answer(200, b"[]")), Refused, "not an object", id="no object"),
        pytest.param(redirect("/v2/"), Refused, "answered 307", id="a redirect"),
        pytest.param(always(answer(401)), Unauthorized, "401", id="a wrong password"),
    ],
)
def test_a_token_that_comes_as_it_should_not_is_refused(
    client: Registry, server: Server, behaviour: Behaviour, expected: type[RegistryError], sentence: str
) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    serve_manifest(server, always(answer(401, WWW_Authenticate=demand)))
    server.behave("/token", behaviour)

    with limits(seconds=20, mebibytes=16), pytest.raises(expected, match=sentence):
        client.resolve(tagged(server))


def test_a_token_server_that_drips_does_not_hold_us(server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    serve_manifest(server, always(answer(401, WWW_Authenticate=demand)))
    server.behave("/token", dripping(answer(200, b'{"token": "%s"}' % (b"x" * 400))))

    with (
        Registry(Settings(patience=HASTY)) as client,
        limits(seconds=8, mebibytes=16),
        pytest.raises(Unreachable, match="too slow"),
    ):
        client.resolve(tagged(server))


def test_a_token_that_is_never_enough_is_not_asked_for_without_end(client: Registry, server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    serve_manifest(server, always(answer(401, WWW_Authenticate=demand)))
    server.behave("/token", always(answer(200, b'{"token": "x"}')))

    with pytest.raises(Unauthorized):
        client.resolve(tagged(server))

    assert len(server.asked("/token")) == 1


def test_only_the_needed_scope_is_asked_for(client: Registry, server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x",scope="repository:everything:push"'
    serve_manifest(server, unless_authorized("Bearer x", demand))
    server.behave("/token", always(answer(200, b'{"token": "x"}')))

    client.resolve(tagged(server))

    (asked,) = server.asked("/token")
    assert asked.target == "/token?service=x&scope=repository%3Aa%3Apull"


def test_an_identity_token_is_exchanged_and_never_sent_to_the_registry(server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    serve_manifest(server, unless_authorized("Bearer short", demand))
    server.behave("/token", always(answer(200, b'{"access_token": "short"}')))

    with Registry(Settings(patience=BRIEF), TokenHolder()) as client:
        assert client.resolve(tagged(server)).data == MANIFEST

    (exchange,) = server.asked("/token")
    assert exchange.method == "POST"
    assert parse_qs(exchange.body.decode()) == {
        "service": ["x"],
        "scope": ["repository:a:pull"],
        "client_id": ["schedkit"],
        "grant_type": ["refresh_token"],
        "refresh_token": ["long-lived"],
    }


def test_a_token_that_has_expired_is_asked_for_again(client: Registry, server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    server.behave("/token", in_turn(*(always(answer(200, b'{"token": "%d"}' % n)) for n in (1, 2))))
    for number in (1, 2):
        serve_manifest(server, unless_authorized(f"Bearer {number}", demand))
        assert client.resolve(tagged(server)).data == MANIFEST

    assert len(server.asked("/token")) == 2


def test_a_repository_that_asks_for_nothing_gets_no_login(client: Registry, server: Server) -> None:
    """Though its neighbour in the same registry was asked for one."""
    serve_manifest(server, demand_login(GOOD_MANIFEST))
    server.behave("/v2/open/manifests/v1", GOOD_MANIFEST)

    client.resolve(tagged(server))
    client.resolve(Reference(Repository(server.host, "open"), tag="v1"))

    assert "authorization" not in server.asked("/v2/open/")[0].headers


def test_through_a_proxy_plain_registries_are_read_and_others_are_tunnelled(server: Server) -> None:
    proxies = Proxies(http=f"http://u:p@{server.host}", https=server.url)
    plain, secure = Repository("plain.rig.test", "a"), Repository("secure.rig.test", "a")
    server.behave("http://plain.rig.test/v2/a/manifests/v1", GOOD_MANIFEST)
    settings = Settings(patience=BRIEF, proxies=proxies, insecure=frozenset({plain.registry}))

    with Registry(settings, EverybodysLogin()) as client:
        assert client.resolve(Reference(plain, tag="v1")).data == MANIFEST
        with pytest.raises(Unreachable, match=r"secure\.rig\.test"):
            client.resolve(Reference(secure, tag="v1"))

    (last,) = server.asked("http://plain.rig.test/v2/a/manifests/v1")
    assert last.headers["proxy-authorization"] == "Basic dTpw"
    assert {request.method for request in server.asked("secure.rig.test:443")} == {"CONNECT"}
    assert not any("authorization" in request.headers for request in server.requests)


def test_an_upload_to_another_host_does_not_take_the_login_along(
    client: Registry, server: Server, other: Server
) -> None:
    begin = always(answer(202, Location=f"{other.url}/upload?state=x"))
    server.behave("/v2/a/blobs/uploads/", demand_login(begin))
    other.behave("/upload", always(answer(201)))

    assert client.push_blob(repository(server), LAYER_ENTRY, lambda: [LAYER])

    assert "authorization" in server.asked("/v2/a/blobs/uploads/")[-1].headers
    (upload,) = other.requests
    assert "authorization" not in upload.headers
    assert upload.target == f"/upload?state=x&digest={quote(LAYER_ENTRY.digest)}"
    assert upload.body == LAYER


def test_an_upload_that_is_to_leave_https_is_refused(
    secure_client: Registry, secure_server: Server, other: Server
) -> None:
    secure_server.behave("/v2/a/blobs/uploads/", always(answer(202, Location=f"{other.url}/upload")))

    with pytest.raises(Refused, match="over plain HTTP"):
        secure_client.push_blob(repository(secure_server), LAYER_ENTRY, lambda: [LAYER])

    assert other.requests == []


def test_what_is_not_what_it_should_be_is_not_uploaded_to_its_end(client: Registry, server: Server) -> None:
    server.behave("/v2/a/blobs/uploads/", always(answer(202, Location="/upload")))
    server.behave("/upload", always(answer(201)))

    with pytest.raises(Refused, match="other content"):
        client.push_blob(repository(server), LAYER_ENTRY, lambda: [LAYER[::-1]])
