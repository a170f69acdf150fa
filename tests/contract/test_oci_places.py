"""Lists, mirrors and files: looked for where they may be, as far as is reasonable."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from rig.registries.distribution import IMAGE_INDEX, IMAGE_MANIFEST
from rig.registries.hostile import (
    Behaviour,
    Request,
    Server,
    always,
    answer,
    endless,
    in_turn,
    redirect,
)
from rig.registries.hostile_limits import (
    BRIEF,
    GOOD_MANIFEST,
    HASTY,
    IMAGE,
    LAYER,
    LAYER_ENTRY,
    MANIFEST,
    MIB,
    EverybodysLogin,
    limits,
    repository,
    serve_layer,
    tagged,
)
from schedkit.model.images.references import Repository
from schedkit.oci.errors import NotFound, Refused, RegistryError, TooLarge, Unauthorized, Unreachable
from schedkit.oci.registry.challenges import Login
from schedkit.oci.registry.client import Registry, Settings
from schedkit.oci.registry.download import fetch
from schedkit.oci.registry.mirrors import Mirrors


@pytest.fixture(scope="module")
def client() -> Iterator[Registry]:
    with Registry(Settings(patience=BRIEF), EverybodysLogin()) as client:
        yield client


def _page(tags: list[str], following: str) -> bytes:
    return answer(200, json.dumps({"tags": tags}).encode(), Link=f'<{following}>; rel="next"')


@pytest.mark.parametrize(
    ("following", "expected", "sentence"),
    [
        pytest.param("/v2/a/tags/list?again", TooLarge, "100 pages", id="itself, for ever"),
        pytest.param("http://127.0.0.1:9/v2/a/tags/list", Refused, "another host", id="on another port"),
        pytest.param("https://127.0.0.1/v2/a/tags/list", Refused, "another host", id="on another host"),
        pytest.param("file:///etc/passwd", Refused, "not a usable address", id="in a file"),
    ],
)
def test_a_list_that_goes_on_where_it_should_not_is_refused(
    client: Registry, server: Server, following: str, expected: type[RegistryError], sentence: str
) -> None:
    server.behave("/v2/a/tags/list", always(_page(["a"], following)))

    with limits(seconds=20, mebibytes=16), pytest.raises(expected, match=sentence):
        client.tags(repository(server))


def test_a_list_whose_pages_are_slow_ends_with_its_time_and_not_with_its_pages(
    server: Server,
) -> None:
    def page(_: Request) -> Iterator[bytes]:
        time.sleep(HASTY.total_s / 4)
        yield _page(["a"], "/v2/a/tags/list?more")

    server.behave("/v2/a/tags/list", page)

    with (
        Registry(Settings(patience=HASTY)) as client,
        limits(seconds=8, mebibytes=16),
        pytest.raises(Unreachable, match="too slow"),
    ):
        client.tags(repository(server))


def test_a_list_with_too_many_tags_is_refused(client: Registry, server: Server) -> None:
    def page(request: Request) -> list[bytes]:
        return [_page([f"{request.number}-{n}" for n in range(1000)], "/v2/a/tags/list?more")]

    server.behave("/v2/a/tags/list", page)

    with limits(seconds=20, mebibytes=32), pytest.raises(TooLarge, match="more than 50000 tags"):
        client.tags(repository(server))


def test_names_that_are_no_tags_are_left_out(client: Registry, server: Server) -> None:
    tags = ["v1", "../x", "", "1-" + "9" * 5000]
    server.behave("/v2/a/tags/list", always(answer(200, json.dumps({"tags": tags}).encode())))

    assert client.tags(repository(server)) == ("v1",)


def test_a_list_of_referrers_takes_no_more_memory_than_it_should(client: Registry, server: Server) -> None:
    entry = {"mediaType": IMAGE_MANIFEST, "digest": IMAGE, "size": 1, "annotations": {"a": "x" * 3_000_000}}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    endless = answer(200, index, Content_Type=IMAGE_INDEX, Link='</v2/a/referrers/more>; rel="next"')
    server.behave("/v2/a/referrers/", always(endless))

    with limits(seconds=20, mebibytes=64), pytest.raises(TooLarge):
        client.referrers(repository(server), IMAGE)


def test_pages_of_tags_are_put_together(client: Registry, server: Server) -> None:
    server.behave("/v2/a/tags/list?n=1000", always(_page(["b"], "/v2/a/tags/list?last=b")))
    server.behave("/v2/a/tags/list?last=b", always(answer(200, b'{"tags": ["a"]}')))

    assert client.tags(repository(server)) == ("a", "b")


def test_a_repository_without_tags_may_say_null(client: Registry, server: Server) -> None:
    server.behave("/v2/a/tags/list", always(answer(200, b'{"name": "a", "tags": null}')))

    assert client.tags(repository(server)) == ()


EMPTY_INDEX = b'{"schemaVersion": 2, "manifests": null}'


@pytest.mark.parametrize("status", [400, 404, 405, 406, 501])
def test_a_registry_without_the_referrers_api_may_say_so_in_many_ways(
    client: Registry, server: Server, status: int
) -> None:
    server.behave("/v2/a/referrers/", always(answer(status)))

    assert client.referrers(repository(server), IMAGE) == ()
    assert len(server.asked(f"/v2/a/manifests/sha256-{IMAGE.encoded}")) == 1


def test_a_page_that_is_no_index_means_that_there_is_no_referrers_api(
    client: Registry, server: Server
) -> None:
    server.behave("/v2/a/referrers/", always(answer(200, b"<html>", Content_Type="text/html")))

    assert client.referrers(repository(server), IMAGE) == ()


def test_an_empty_list_of_referrers_may_be_null(client: Registry, server: Server) -> None:
    server.behave("/v2/a/referrers/", always(answer(200, EMPTY_INDEX, Content_Type=IMAGE_INDEX)))

    assert client.referrers(repository(server), IMAGE) == ()


def test_too_many_referrers_are_refused(client: Registry, server: Server) -> None:
    entry = {"mediaType": IMAGE_MANIFEST, "digest": IMAGE, "size": 1}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry] * 5000}).encode()
    server.behave("/v2/a/referrers/", always(answer(200, index, Content_Type=IMAGE_INDEX)))

    with pytest.raises(Refused, match="the limit is 4096"):
        client.referrers(repository(server), IMAGE)


def test_a_referrers_api_that_is_broken_is_not_taken_for_none(client: Registry, server: Server) -> None:
    """Otherwise an outage could hide a signature, or a better one."""
    server.behave("/v2/a/referrers/", always(answer(500)))

    with pytest.raises(Unreachable):
        client.referrers(repository(server), IMAGE)


def _mirrored(server: Server, *mirrors: Server) -> Registry:
    places = Mirrors({server.host: tuple(f"{mirror.host}/copy" for mirror in mirrors)})
    return Registry(Settings(patience=BRIEF, mirrors=places), EverybodysLogin())


def test_a_mirror_is_asked_first_and_its_origin_not_at_all(server: Server, other: Server) -> None:
    other.behave("/v2/copy/a/manifests/v1", GOOD_MANIFEST)

    with _mirrored(server, other) as client:
        assert client.resolve(tagged(server)).data == MANIFEST

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
    serve_layer(server, always(answer(200, LAYER)))

    with _mirrored(server, other) as client:
        assert client.blob(repository(server), LAYER_ENTRY, limit=MIB) == LAYER

    assert other.asked("/v2/copy/a/blobs/")


def test_an_error_names_what_the_mirrors_said(server: Server, other: Server) -> None:
    with _mirrored(server, other) as client, pytest.raises(NotFound) as refusal:
        client.resolve(tagged(server))

    assert server.host in str(refusal.value)
    assert f"its mirrors failed: {other.host} answered 404" in str(refusal.value)


def test_a_mirror_without_signatures_does_not_hide_those_of_the_origin(server: Server, other: Server) -> None:
    entry = {"mediaType": IMAGE_MANIFEST, "digest": IMAGE, "size": 1}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    other.behave("/v2/copy/a/referrers/", always(answer(200, EMPTY_INDEX, Content_Type=IMAGE_INDEX)))
    server.behave("/v2/a/referrers/", always(answer(200, index, Content_Type=IMAGE_INDEX)))

    with _mirrored(server, other) as client:
        assert [found.digest for found in client.referrers(repository(server), IMAGE)] == [IMAGE]


def test_while_the_origin_is_away_an_empty_list_of_a_mirror_counts(server: Server, other: Server) -> None:
    """Signatures under a tag can then be read from the mirror."""
    other.behave("/v2/copy/a/referrers/", always(answer(200, EMPTY_INDEX, Content_Type=IMAGE_INDEX)))
    server.behave("/v2/a/", always(answer(503)))

    with _mirrored(server, other) as client:
        assert client.referrers(repository(server), IMAGE) == ()


def test_a_file_is_fetched_by_its_url(server: Server, other: Server) -> None:
    server.behave("/catalog.json", redirect(f"{other.url}/moved"))
    other.behave("/moved", in_turn(always(answer(503)), always(answer(200, b"{}"))))

    assert fetch(f"{server.url}/catalog.json", limit=2, patience=BRIEF) == b"{}"


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        pytest.param(endless(), TooLarge, id="endless"),
        pytest.param(redirect("file:///etc/passwd"), Refused, id="in a file"),
        pytest.param(always(answer(404)), NotFound, id="not there"),
        pytest.param(always(answer(206, b"{}")), Refused, id="a part"),
    ],
)
def test_a_file_that_comes_as_it_should_not_is_refused(
    server: Server, behaviour: Behaviour, expected: type[RegistryError]
) -> None:
    server.behave("/catalog.json", behaviour)

    with limits(seconds=20, mebibytes=16), pytest.raises(expected):
        fetch(f"{server.url}/catalog.json", limit=2, patience=BRIEF)


@pytest.mark.parametrize("url", ["http://catalog.rig.test/x", "file:///etc/passwd", "catalog.json", ""])
def test_nothing_is_fetched_unencrypted_from_elsewhere(url: str) -> None:
    with pytest.raises(Refused, match="use an https URL"):
        fetch(url, limit=2)


def test_a_mirror_gets_its_own_login_and_the_origin_its_own(server: Server, other: Server) -> None:
    demand = answer(401, WWW_Authenticate='Basic realm="x"')
    for each, path in ((server, "a"), (other, "copy/a")):
        each.behave(f"/v2/{path}/manifests/v1", always(demand))
    places = Mirrors({server.host: (f"{other.host}/copy",)})

    with (
        Registry(Settings(patience=BRIEF, mirrors=places), _NamedLogins()) as client,
        pytest.raises(Unauthorized),
    ):
        client.resolve(tagged(server))

    for each, path in ((server, "a"), (other, "copy/a")):
        sent = [request.headers.get("authorization") for request in each.asked(f"/v2/{path}/")]
        assert sent == [None, Login(f"{each.host}/{path}", "x").basic()]


class _NamedLogins:
    """Another login for every repository."""

    def find(self, repository: Repository) -> Login | None:
        return Login(str(repository), "x")
