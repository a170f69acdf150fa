"""Registries that lie, drip, flood and lead astray: refused in bounded time and memory."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.certificates import Authority, KeyPair
from rig.distribution import IMAGE_INDEX, IMAGE_MANIFEST
from rig.hostile import (
    Behaviour,
    Request,
    Server,
    always,
    answer,
    dripping,
    endless,
    head,
    in_turn,
    redirect,
    silent,
)
from schedkit.model.images import Descriptor, Digest, Reference, Repository
from schedkit.oci.authentication import Login
from schedkit.oci.connections import Patience
from schedkit.oci.contents import digest_of
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unauthorized, Unreachable
from schedkit.oci.mirrors import Mirrors
from schedkit.oci.proxies import Proxies
from schedkit.oci.registry import Registry, Settings

MIB = 1024 * 1024
BRIEF = Patience(total_s=1.2, attempts=3, first_delay_s=0.02, longest_delay_s=0.1)
LAYER = bytes(range(256)) * 4096
LAYER_ENTRY = Descriptor("application/octet-stream", digest_of(LAYER), len(LAYER))
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "config": {"mediaType": "application/x", "digest": LAYER_ENTRY.digest, "size": 3},
        "layers": [],
    }
).encode()
GOOD_MANIFEST = always(answer(200, MANIFEST, Content_Type=IMAGE_MANIFEST))


class _EverybodysLogin:
    """A careless user: one login for everybody who asks."""

    def find(self, repository: Repository) -> Login | None:  # noqa: ARG002  # the port's signature
        return Login("careless", "secret-of-careless")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    with Server() as other:
        yield other


@pytest.fixture(scope="module")
def client() -> Iterator[Registry]:
    with Registry(Settings(patience=BRIEF), _EverybodysLogin()) as client:
        yield client


@pytest.fixture(scope="module")
def patient_client() -> Iterator[Registry]:
    """With time for a long list."""
    with Registry(Settings(patience=Patience(total_s=20))) as client:
        yield client


@pytest.fixture
def pair(authority: Authority) -> KeyPair:
    return authority.issue("hostile", common_name="hostile", sans=("127.0.0.1", "localhost"))


def _repository(server: Server) -> Repository:
    return Repository(server.host, "a")


def _tag(server: Server, tag: str = "v1") -> Reference:
    return Reference(_repository(server), tag=tag)


def _serve_manifest(server: Server, behaviour: Behaviour) -> None:
    server.behave("/v2/a/manifests/v1", behaviour)


def _serve_layer(server: Server, behaviour: Behaviour) -> None:
    server.behave(f"/v2/a/blobs/{LAYER_ENTRY.digest}", behaviour)


def _document(body: bytes, media_type: str = IMAGE_MANIFEST) -> Behaviour:
    return always(answer(200, body, Content_Type=media_type))


def _fields(**fields: object) -> bytes:
    return json.dumps({**json.loads(MANIFEST), **fields}).encode()


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(64 * MIB))


def _only_preliminaries(_: Request) -> Iterator[bytes]:
    return itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def test_the_honest_answer_that_all_others_differ_from_is_accepted(client: Registry, server: Server) -> None:
    _serve_manifest(server, GOOD_MANIFEST)
    _serve_layer(server, always(answer(200, LAYER)))

    assert client.resolve(_tag(server)).data == MANIFEST
    assert client.blob(_repository(server), LAYER_ENTRY, limit=MIB) == LAYER


@pytest.mark.parametrize(
    ("behaviour", "expected", "sentence"),
    [
        pytest.param(endless(Content_Type=IMAGE_MANIFEST), TooLarge, "more than 4194304 bytes", id="endless"),
        pytest.param(
            always(head(200, {"Content-Length": "9" * 18})), TooLarge, "is the most", id="announced as huge"
        ),
        pytest.param(
            dripping(answer(200, MANIFEST)), Unreachable, "too slow", id="dripping from its first byte"
        ),
        pytest.param(always(b"garbage\r\n\r\n"), Unreachable, "broke off", id="no HTTP at all"),
        pytest.param(silent, Unreachable, "too slow", id="silent"),
        pytest.param(_only_preliminaries, Unreachable, "too slow", id="never more than preliminaries"),
        pytest.param(
            always(head(200, {"Content-Length": "999", "Content-Type": IMAGE_MANIFEST}), MANIFEST),
            Unreachable,
            "broke off",
            id="half a body",
        ),
        pytest.param(always(head(200, {"X": "x" * 200_000})), Unreachable, "broke off", id="one huge header"),
        pytest.param(
            always(head(200, {f"X-{n}": "x" for n in range(200)})), Refused, "headers", id="many headers"
        ),
        pytest.param(
            always(answer(200, _gzip_bomb(), Content_Encoding="gzip", Content_Type=IMAGE_MANIFEST)),
            Refused,
            "encoded as 'gzip'",
            id="a gzip bomb",
        ),
        pytest.param(
            always(answer(200, b"x", Content_Encoding="br")), Refused, "encoded as 'br'", id="brotli"
        ),
        pytest.param(_document(b"\xff\xfe{}"), Refused, "not JSON", id="invalid UTF-8"),
        pytest.param(_document(MANIFEST.decode().encode("utf-16")), Refused, "not JSON", id="UTF-16"),
        pytest.param(_document(MANIFEST[:-1]), Refused, "not JSON", id="half a document"),
        pytest.param(_document(b"[" * 100_000), Refused, "nested", id="deep"),
        pytest.param(
            _document(b"[" + b"{}," * MIB + b"{}]"), Refused, "more than 100000 values", id="tiny values"
        ),
        pytest.param(
            _document(MANIFEST.replace(b'"layers"', b'"config": {}, "layers"')), Refused, "twice", id="twice"
        ),
        pytest.param(_document(_fields(schemaVersion=1)), Refused, "schemaVersion", id="an old schema"),
        pytest.param(
            _document(_fields(manifests=[])), Refused, "has 'manifests'", id="manifest and index at once"
        ),
        pytest.param(
            _document(MANIFEST, IMAGE_INDEX), Refused, "calls itself", id="served as something else"
        ),
        pytest.param(_document(b"<html>", "text/html"), Refused, "not JSON", id="a login page"),
        pytest.param(always(answer(500)), Unreachable, "answered 500", id="broken"),
        pytest.param(
            always(answer(403, b'{"errors":[{"message":"no"}]}')), Unauthorized, "403: 'no'", id="forbidden"
        ),
        pytest.param(always(answer(418)), Refused, "answered 418", id="an odd status"),
        pytest.param(always(answer(401)), Unauthorized, "not supported", id="a challenge without a scheme"),
        pytest.param(
            always(answer(401, WWW_Authenticate="Negotiate x")),
            Unauthorized,
            "Negotiate",
            id="an unknown scheme",
        ),
    ],
)
def test_a_manifest_that_comes_as_it_should_not_is_refused(
    client: Registry, server: Server, behaviour: Behaviour, expected: type[RegistryError], sentence: str
) -> None:
    _serve_manifest(server, behaviour)

    with _limits(seconds=6, mebibytes=24), pytest.raises(expected, match=sentence) as refusal:
        client.resolve(_tag(server))

    assert type(refusal.value) is expected


@pytest.mark.parametrize(
    ("behaviour", "expected", "sentence"),
    [
        pytest.param(endless(), Refused, "more than", id="endless"),
        pytest.param(always(answer(200, LAYER + b"x")), Refused, "bytes", id="longer than announced"),
        pytest.param(always(answer(200, LAYER[:-1])), Refused, "bytes", id="shorter than announced"),
        pytest.param(always(answer(200, LAYER[::-1])), Refused, "other content", id="another content"),
        pytest.param(always(head(200), LAYER[:-1]), Refused, "bytes", id="ended early, without a length"),
        pytest.param(
            always(answer(200, _gzip_bomb(), Content_Encoding="gzip")), Refused, "encoded", id="a gzip bomb"
        ),
        pytest.param(dripping(head(200) + LAYER), Unreachable, "too slow", id="dripping"),
        pytest.param(
            always(head(200, {"Content-Length": str(len(LAYER))}), LAYER[:99]),
            Unreachable,
            "broke off",
            id="half",
        ),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in pieces"])
def test_a_blob_that_is_not_what_was_announced_is_refused(
    server: Server, behaviour: Behaviour, expected: type[RegistryError], sentence: str, whole: bool
) -> None:
    _serve_layer(server, behaviour)
    quick = Patience(total_s=1, attempts=2, first_delay_s=0.02, slowest_bytes_per_s=10 * MIB)

    with (
        Registry(Settings(patience=quick)) as client,
        _limits(seconds=6, mebibytes=24),
        pytest.raises(expected, match=sentence),
    ):
        _read_layer(client, _repository(server), whole=whole)


def _read_layer(client: Registry, repository: Repository, *, whole: bool) -> None:
    if whole:
        client.blob(repository, LAYER_ENTRY, limit=MIB)
    else:
        collections.deque(client.stream(repository, LAYER_ENTRY), maxlen=0)


def test_a_manifest_asked_for_by_digest_is_that_one_or_none(client: Registry, server: Server) -> None:
    digest = digest_of(b"another")
    server.behave(f"/v2/a/manifests/{digest}", GOOD_MANIFEST)

    with pytest.raises(Refused, match=f"but {digest} was asked for"):
        client.manifest(_repository(server), digest)


def test_a_transfer_that_breaks_off_is_continued_where_it_did(client: Registry, server: Server) -> None:
    def second_half(request: Request) -> list[bytes]:
        begin = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {begin}-{len(LAYER) - 1}/{len(LAYER)}"
        return [answer(206, LAYER[begin:], Content_Range=span)]

    half = always(head(200, {"Content-Length": str(len(LAYER))}), LAYER[: len(LAYER) // 2])
    _serve_layer(server, in_turn(half, second_half))

    assert b"".join(client.stream(_repository(server), LAYER_ENTRY)) == LAYER
    assert len(server.asked("/v2/a/blobs/")) == 2


@pytest.mark.parametrize(
    "header", [{}, {"Retry_After": "0"}, {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}]
)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_who_is_busy_is_asked_again(
    client: Registry, server: Server, status: int, header: dict[str, str]
) -> None:
    _serve_manifest(server, in_turn(always(answer(status, b"", **header)), GOOD_MANIFEST))

    assert client.resolve(_tag(server)).data == MANIFEST
    assert len(server.asked("/v2/a/manifests")) == 2


def test_retry_after_is_waited_for(client: Registry, server: Server) -> None:
    _serve_manifest(server, in_turn(always(answer(429, Retry_After="1")), GOOD_MANIFEST))

    begun = time.monotonic()
    client.resolve(_tag(server))

    assert time.monotonic() - begun >= 1


def test_nobody_waits_longer_than_an_operation_may_take(client: Registry, server: Server) -> None:
    _serve_manifest(server, always(answer(429, Retry_After="86400")))

    with _limits(seconds=6, mebibytes=8), pytest.raises(Unreachable, match="429") as refusal:
        client.resolve(_tag(server))

    assert refusal.value.retry_after_s == 86400
    assert len(server.asked("/v2/a/manifests")) == 1


def test_an_outage_is_tried_only_so_often(client: Registry, server: Server) -> None:
    _serve_manifest(server, always(answer(503)))

    with pytest.raises(Unreachable):
        client.resolve(_tag(server))

    assert len(server.asked("/v2/a/manifests")) == BRIEF.attempts


def _demand_login(then: Behaviour) -> Behaviour:
    def behave(request: Request) -> list[bytes]:
        if "authorization" not in request.headers:
            return [answer(401, WWW_Authenticate='Basic realm="x"')]
        return list(then(request))

    return behave


def test_a_redirect_to_another_host_does_not_take_the_login_along(
    client: Registry, server: Server, other: Server
) -> None:
    _serve_layer(server, _demand_login(redirect(f"{other.url}/elsewhere")))
    other.behave("/elsewhere", always(answer(200, LAYER)))

    assert client.blob(_repository(server), LAYER_ENTRY, limit=MIB) == LAYER

    assert "authorization" in server.requests[-1].headers
    assert [request.headers.get("authorization") for request in other.requests] == [None]


def test_who_is_redirected_to_does_not_get_the_login_by_asking(
    client: Registry, server: Server, other: Server
) -> None:
    _serve_layer(server, _demand_login(redirect(f"{other.url}/elsewhere")))
    other.behave("/elsewhere", always(answer(401, WWW_Authenticate='Basic realm="x"')))

    with pytest.raises(Unauthorized):
        client.blob(_repository(server), LAYER_ENTRY, limit=MIB)

    assert [request.headers.get("authorization") for request in other.requests] == [None]


def test_a_redirect_on_the_same_host_keeps_the_login(client: Registry, server: Server) -> None:
    _serve_layer(server, _demand_login(redirect("/elsewhere")))
    server.behave("/elsewhere", always(answer(200, LAYER)))

    client.blob(_repository(server), LAYER_ENTRY, limit=MIB)

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
    _serve_layer(server, redirect(location))

    with pytest.raises(Refused, match="no usable address"):
        client.blob(_repository(server), LAYER_ENTRY, limit=MIB)


def test_a_redirect_to_an_impossible_host_is_refused(client: Registry, server: Server) -> None:
    _serve_layer(server, redirect(f"http://{'x' * 70}.test/"))

    with pytest.raises(Refused, match="cannot be the name of a host"):
        client.blob(_repository(server), LAYER_ENTRY, limit=MIB)


def test_redirects_in_a_circle_end(client: Registry, server: Server) -> None:
    _serve_layer(server, redirect(f"/v2/a/blobs/{LAYER_ENTRY.digest}"))

    with pytest.raises(Refused, match="redirects more than 5 times"):
        client.blob(_repository(server), LAYER_ENTRY, limit=MIB)

    assert len(server.asked("/v2/a/blobs")) == 6


@pytest.fixture
def secure_server(pair: KeyPair) -> Iterator[Server]:
    with Server(pair=pair) as server:
        yield server


@pytest.fixture
def secure_client(authority: Authority) -> Iterator[Registry]:
    settings = Settings(ca_file=authority.ca_file, patience=BRIEF)
    with Registry(settings, _EverybodysLogin()) as client:
        yield client


def test_a_redirect_from_https_to_http_is_not_followed(
    secure_client: Registry, secure_server: Server, other: Server
) -> None:
    _serve_layer(secure_server, redirect(f"{other.url}/elsewhere"))

    with pytest.raises(Refused, match="redirects from https to"):
        secure_client.blob(_repository(secure_server), LAYER_ENTRY, limit=MIB)

    assert other.requests == []


def test_a_login_is_not_sent_to_a_token_server_without_tls(
    secure_client: Registry, secure_server: Server, other: Server
) -> None:
    demand = f'Bearer realm="{other.url}/token",service="x"'
    _serve_manifest(secure_server, always(answer(401, WWW_Authenticate=demand)))

    with pytest.raises(Refused, match="token server that is not safe"):
        secure_client.resolve(_tag(secure_server))

    assert other.requests == []


def test_an_unknown_authority_is_refused_and_not_tried_without_tls(
    client: Registry, secure_server: Server
) -> None:
    with pytest.raises(Refused, match="certificate that cannot be trusted"):
        client.resolve(_tag(secure_server))

    assert secure_server.requests == []


@pytest.mark.parametrize(
    ("behaviour", "expected", "sentence"),
    [
        pytest.param(endless(b" "), TooLarge, "bytes", id="endless"),
        pytest.param(
            always(answer(200, b'{"token": "a\\r\\nX: y"}')), Refused, "no usable token", id="a header in it"
        ),
        pytest.param(always(answer(200, b"{}")), Refused, "no usable token", id="none"),
        pytest.param(always(answer(200, b"[]")), Refused, "not an object", id="no object"),
        pytest.param(redirect("/v2/"), Refused, "answered 307", id="a redirect"),
        pytest.param(always(answer(401)), Unauthorized, "401", id="a wrong password"),
        pytest.param(dripping(answer(200, b'{"token": "x"}')), Unreachable, "too slow", id="dripping"),
    ],
)
def test_a_token_that_comes_as_it_should_not_is_refused(
    client: Registry, server: Server, behaviour: Behaviour, expected: type[RegistryError], sentence: str
) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    _serve_manifest(server, always(answer(401, WWW_Authenticate=demand)))
    server.behave("/token", behaviour)

    with _limits(seconds=6, mebibytes=16), pytest.raises(expected, match=sentence):
        client.resolve(_tag(server))


def test_a_token_that_is_never_enough_is_not_asked_for_without_end(client: Registry, server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x"'
    _serve_manifest(server, always(answer(401, WWW_Authenticate=demand)))
    server.behave("/token", always(answer(200, b'{"token": "x"}')))

    with pytest.raises(Unauthorized):
        client.resolve(_tag(server))

    assert len(server.asked("/token")) == 1


def test_only_the_needed_scope_is_asked_for(client: Registry, server: Server) -> None:
    demand = f'Bearer realm="{server.url}/token",service="x",scope="repository:everything:push"'
    _serve_manifest(
        server,
        lambda request: (
            [answer(401, WWW_Authenticate=demand)]
            if "authorization" not in request.headers
            else [answer(200, MANIFEST, Content_Type=IMAGE_MANIFEST)]
        ),
    )
    server.behave("/token", always(answer(200, b'{"token": "x"}')))

    client.resolve(_tag(server))

    (asked,) = server.asked("/token")
    assert asked.target == "/token?service=x&scope=repository%3Aa%3Apull"


def _page(tags: list[str], following: str) -> bytes:
    return answer(200, json.dumps({"tags": tags}).encode(), Link=f'<{following}>; rel="next"')


@pytest.mark.parametrize(
    ("following", "expected", "sentence"),
    [
        pytest.param("/v2/a/tags/list?again", TooLarge, "200 pages", id="itself, for ever"),
        pytest.param("http://127.0.0.1:9/v2/a/tags/list", Refused, "another host", id="on another port"),
        pytest.param("https://127.0.0.1/v2/a/tags/list", Refused, "another host", id="on another host"),
        pytest.param("file:///etc/passwd", Refused, "no usable address", id="in a file"),
    ],
)
def test_a_list_that_goes_on_where_it_should_not_is_refused(
    patient_client: Registry, server: Server, following: str, expected: type[RegistryError], sentence: str
) -> None:
    server.behave("/v2/a/tags/list", always(_page(["a"], following)))

    with _limits(seconds=20, mebibytes=16), pytest.raises(expected, match=sentence):
        patient_client.tags(_repository(server))


def test_a_list_whose_pages_are_slow_ends_with_its_time_and_not_with_its_pages(
    client: Registry, server: Server
) -> None:
    def page(_: Request) -> Iterator[bytes]:
        time.sleep(BRIEF.total_s / 4)
        yield _page(["a"], "/v2/a/tags/list?more")

    server.behave("/v2/a/tags/list", page)

    with _limits(seconds=6, mebibytes=16), pytest.raises(Unreachable, match="too slow"):
        client.tags(_repository(server))


def test_a_list_with_too_many_tags_is_refused(patient_client: Registry, server: Server) -> None:
    def page(request: Request) -> list[bytes]:
        return [_page([f"{request.number}-{n}" for n in range(1000)], "/v2/a/tags/list?more")]

    server.behave("/v2/a/tags/list", page)

    with _limits(seconds=20, mebibytes=32), pytest.raises(TooLarge, match="more than 50000 tags"):
        patient_client.tags(_repository(server))


def test_pages_of_tags_are_put_together(client: Registry, server: Server) -> None:
    server.behave("/v2/a/tags/list?n=1000", always(_page(["b"], "/v2/a/tags/list?last=b")))
    server.behave("/v2/a/tags/list?last=b", always(answer(200, b'{"tags": ["a"]}')))

    assert client.tags(_repository(server)) == ("a", "b")


def test_a_repository_without_tags_may_say_null(client: Registry, server: Server) -> None:
    server.behave("/v2/a/tags/list", always(answer(200, b'{"name": "a", "tags": null}')))

    assert client.tags(_repository(server)) == ()


IMAGE = Digest(f"sha256:{'0' * 64}")
EMPTY_INDEX = b'{"schemaVersion": 2, "manifests": null}'


@pytest.mark.parametrize("status", [400, 404, 405, 406, 501])
def test_a_registry_without_the_referrers_api_may_say_so_in_many_ways(
    client: Registry, server: Server, status: int
) -> None:
    server.behave("/v2/a/referrers/", always(answer(status)))

    assert client.referrers(_repository(server), IMAGE) == ()
    assert len(server.asked(f"/v2/a/manifests/sha256-{IMAGE.encoded}")) == 1


def test_a_page_that_is_no_index_means_that_there_is_no_referrers_api(
    client: Registry, server: Server
) -> None:
    server.behave("/v2/a/referrers/", always(answer(200, b"<html>", Content_Type="text/html")))

    assert client.referrers(_repository(server), IMAGE) == ()


def test_an_empty_list_of_referrers_may_be_null(client: Registry, server: Server) -> None:
    server.behave("/v2/a/referrers/", always(answer(200, EMPTY_INDEX, Content_Type=IMAGE_INDEX)))

    assert client.referrers(_repository(server), IMAGE) == ()


def test_too_many_referrers_are_refused(client: Registry, server: Server) -> None:
    entry = {"mediaType": IMAGE_MANIFEST, "digest": IMAGE, "size": 1}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry] * 5000}).encode()
    server.behave("/v2/a/referrers/", always(answer(200, index, Content_Type=IMAGE_INDEX)))

    with pytest.raises(Refused, match="4096 is the most"):
        client.referrers(_repository(server), IMAGE)


def test_a_referrers_api_that_is_broken_is_not_taken_for_none(client: Registry, server: Server) -> None:
    """Otherwise an outage could hide a signature, or a better one."""
    server.behave("/v2/a/referrers/", always(answer(500)))

    with pytest.raises(Unreachable):
        client.referrers(_repository(server), IMAGE)


def _mirrored(server: Server, *mirrors: Server) -> Registry:
    places = Mirrors({server.host: tuple(f"{mirror.host}/copy" for mirror in mirrors)})
    return Registry(Settings(patience=BRIEF, mirrors=places), _EverybodysLogin())


def test_a_mirror_is_asked_first_and_its_origin_not_at_all(server: Server, other: Server) -> None:
    other.behave("/v2/copy/a/manifests/v1", GOOD_MANIFEST)

    with _mirrored(server, other) as client:
        assert client.resolve(_tag(server)).data == MANIFEST

    assert server.requests == []


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(always(answer(404)), id="it is not there"),
        pytest.param(always(answer(500)), id="it is broken"),
        pytest.param(always(answer(200, LAYER[::-1])), id="it is something else"),
        pytest.param(always(answer(401)), id="it asks for an impossible login"),
    ],
)
def test_when_a_mirror_does_not_serve_it_the_origin_does(
    server: Server, other: Server, behaviour: Behaviour
) -> None:
    other.behave("/v2/copy/a/blobs/", behaviour)
    _serve_layer(server, always(answer(200, LAYER)))

    with _mirrored(server, other) as client:
        assert client.blob(_repository(server), LAYER_ENTRY, limit=MIB) == LAYER

    assert other.asked("/v2/copy/a/blobs/")


def test_an_error_names_what_the_mirrors_said(server: Server, other: Server) -> None:
    with _mirrored(server, other) as client, pytest.raises(NotFound) as refusal:
        client.resolve(_tag(server))

    assert server.host in str(refusal.value)
    assert f"its mirrors: {other.host} answered 404" in str(refusal.value)


def test_a_mirror_without_signatures_does_not_hide_those_of_the_origin(server: Server, other: Server) -> None:
    entry = {"mediaType": IMAGE_MANIFEST, "digest": IMAGE, "size": 1}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    other.behave("/v2/copy/a/referrers/", always(answer(200, EMPTY_INDEX, Content_Type=IMAGE_INDEX)))
    server.behave("/v2/a/referrers/", always(answer(200, index, Content_Type=IMAGE_INDEX)))

    with _mirrored(server, other) as client:
        assert [found.digest for found in client.referrers(_repository(server), IMAGE)] == [IMAGE]


def test_through_a_proxy_plain_registries_are_read_and_others_are_tunnelled(server: Server) -> None:
    proxies = Proxies(http=f"http://u:p@{server.host}", https=server.url)
    plain, secure = Repository("plain.rig.test", "a"), Repository("secure.rig.test", "a")
    server.behave("http://plain.rig.test/v2/a/manifests/v1", GOOD_MANIFEST)
    settings = Settings(patience=BRIEF, proxies=proxies, insecure=frozenset({plain.registry}))

    with Registry(settings, _EverybodysLogin()) as client:
        assert client.resolve(Reference(plain, tag="v1")).data == MANIFEST
        with pytest.raises(Unreachable, match=r"secure\.rig\.test"):
            client.resolve(Reference(secure, tag="v1"))

    (last,) = server.asked("http://plain.rig.test/v2/a/manifests/v1")
    assert last.headers["proxy-authorization"] == "Basic dTpw"
    assert {request.method for request in server.asked("secure.rig.test:443")} == {"CONNECT"}
    assert not any("authorization" in request.headers for request in server.requests)


def test_every_client_hangs_up_when_it_is_done_with_a_server(client: Registry, server: Server) -> None:
    _serve_manifest(server, endless())

    with pytest.raises(TooLarge):
        client.resolve(_tag(server))

    server.await_silence()


@contextmanager
def _limits(*, seconds: float, mebibytes: int) -> Iterator[None]:
    """Fails when the block takes longer, or more memory at its peak."""
    tracemalloc.start()
    begun = time.monotonic()
    try:
        yield
        took, (_, peak) = time.monotonic() - begun, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert took < seconds
    assert peak < mebibytes * MIB
