"""Registries that lie, drip and flood: refused in bounded time and memory."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import random
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from rig.base.certificates import Authority, KeyPair
from rig.registries.distribution import IMAGE_INDEX, IMAGE_MANIFEST
from rig.registries.hostile import (
    Behaviour,
    Request,
    Server,
    always,
    answer,
    dripping,
    endless,
    head,
    in_turn,
    silent,
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
    serve_manifest,
    tagged,
)
from schedkit.model.images.content import digest_of
from schedkit.model.images.references import Reference, Repository
from schedkit.oci.errors import (
    Intercepted,
    NotFound,
    Refused,
    RegistryError,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from schedkit.oci.registry.client import Registry, Settings
from schedkit.oci.registry.host import Patience


@pytest.fixture(scope="module")
def client() -> Iterator[Registry]:
    with Registry(Settings(patience=BRIEF), EverybodysLogin()) as client:
        yield client


@pytest.fixture(scope="module")
def hasty_client() -> Iterator[Registry]:
    with Registry(Settings(patience=HASTY)) as client:
        yield client


@pytest.fixture(scope="module")
def patient_client() -> Iterator[Registry]:
    """With time for a long list."""
    with Registry(Settings(patience=Patience(total_s=20))) as client:
        yield client


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return authority.issue("hostile", common_name="hostile", sans=("127.0.0.1", "localhost"))


OWN_WORDS = b'{"errors": [{"code": "UNSUPPORTED", "message": "no"}]}'
OWN_CODE = b'{"errors": [{"code": "UNSUPPORTED"}]}'


def own(status: int) -> bytes:
    """An answer that only a registry gives."""
    return answer(status, Docker_Distribution_Api_Version="registry/2.0")


def _document(body: bytes, media_type: str = IMAGE_MANIFEST) -> Behaviour:
    return always(answer(200, body, Content_Type=media_type))


def _fields(**fields: object) -> bytes:
    return json.dumps({**json.loads(MANIFEST), **fields}).encode()


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(64 * MIB))


def _only_preliminaries(_: Request) -> Iterator[bytes]:
    return itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


def test_the_honest_answer_that_all_others_differ_from_is_accepted(client: Registry, server: Server) -> None:
    serve_manifest(server, GOOD_MANIFEST)
    serve_layer(server, always(answer(200, LAYER)))

    assert client.resolve(tagged(server)).data == MANIFEST
    assert client.blob(repository(server), LAYER_ENTRY, limit=MIB) == LAYER


@pytest.mark.parametrize(
    ("behaviour", "expected", "sentence"),
    [
        pytest.param(endless(Content_Type=IMAGE_MANIFEST), TooLarge, "more than 4194304 bytes", id="endless"),
        pytest.param(
            always(head(200, {"Content-Length": "9" * 18})), TooLarge, "the limit is", id="announced as huge"
        ),
        pytest.param(always(b"garbage\r\n\r\n"), Unreachable, "was interrupted", id="no HTTP at all"),
        pytest.param(
            always(head(200, {"Content-Length": "999", "Content-Type": IMAGE_MANIFEST}), MANIFEST),
            Unreachable,
            "was interrupted",
            id="half a body",
        ),
        pytest.param(
            always(head(200, {"X": "x" * 200_000})),
            Unreachable,
            "was interrupted",
            id="one huge header",
        ),
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
        pytest.param(
            always(answer(418)), Intercepted, "answered 418, but not like a registry", id="an odd status"
        ),
        pytest.param(always(answer(400, OWN_WORDS)), Refused, "answered 400: 'no'$", id="its own refusal"),
        pytest.param(
            always(answer(400, OWN_CODE)), Refused, "answered 400: 'UNSUPPORTED'$", id="its own code"
        ),
        pytest.param(always(own(405)), Refused, "answered 405$", id="in its own name"),
        pytest.param(
            always(own(407)),
            Intercepted,
            "a proxy may have",
            id="a proxy's login",
        ),
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
    serve_manifest(server, behaviour)

    with limits(seconds=20, mebibytes=24), pytest.raises(expected, match=sentence) as refusal:
        client.resolve(tagged(server))

    assert type(refusal.value) is expected


@pytest.mark.parametrize(
    ("behaviour", "is_hearsay"),
    [
        pytest.param(always(answer(404, OWN_WORDS)), False, id="in a document of its own"),
        pytest.param(always(answer(404, OWN_CODE)), False, id="in such a document, without a message"),
        pytest.param(always(own(404)), False, id="in its own name"),
        pytest.param(always(answer(404, b"<html>")), True, id="on a page"),
        pytest.param(always(answer(404, b'{"errors": []}')), True, id="in a document of something else"),
        pytest.param(always(answer(404, b'{"errors": ["no"]}')), True, id="in a similar document"),
    ],
)
def test_what_is_not_there_is_a_registrys_word_or_hearsay(
    client: Registry, server: Server, behaviour: Behaviour, is_hearsay: bool
) -> None:
    serve_manifest(server, behaviour)

    with pytest.raises(NotFound) as missing:
        client.resolve(tagged(server))

    assert missing.value.is_hearsay is is_hearsay
    assert ("a proxy may have answered instead" in str(missing.value)) is is_hearsay


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
        pytest.param(
            always(head(200, {"Content-Length": str(len(LAYER))}), LAYER[:99]),
            Unreachable,
            "was interrupted",
            id="half",
        ),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in pieces"])
def test_a_blob_that_is_not_what_was_announced_is_refused(
    client: Registry,
    server: Server,
    behaviour: Behaviour,
    expected: type[RegistryError],
    sentence: str,
    whole: bool,
) -> None:
    serve_layer(server, behaviour)

    with limits(seconds=20, mebibytes=24), pytest.raises(expected, match=sentence):
        _read_layer(client, repository(server), whole=whole)


def _read_layer(client: Registry, repository: Repository, *, whole: bool) -> None:
    if whole:
        client.blob(repository, LAYER_ENTRY, limit=MIB)
    else:
        collections.deque(client.stream(repository, LAYER_ENTRY), maxlen=0)


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(dripping(answer(200, MANIFEST)), id="dripping from the first byte"),
        pytest.param(silent, id="silent"),
        pytest.param(_only_preliminaries, id="never more than preliminaries"),
    ],
)
def test_a_server_that_wastes_time_does_not_hold_us(
    hasty_client: Registry, server: Server, behaviour: Behaviour
) -> None:
    serve_manifest(server, behaviour)

    with limits(seconds=8, mebibytes=24), pytest.raises(Unreachable, match="too slow"):
        hasty_client.resolve(tagged(server))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in pieces"])
def test_a_blob_that_drips_does_not_hold_us(hasty_client: Registry, server: Server, whole: bool) -> None:
    serve_layer(server, dripping(head(200) + LAYER))

    with limits(seconds=8, mebibytes=24), pytest.raises(Unreachable, match="too slow"):
        _read_layer(hasty_client, repository(server), whole=whole)


def test_a_server_that_accepts_and_says_nothing_does_not_hold_us(hasty_client: Registry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, limits(seconds=8, mebibytes=8):
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="too slow"):
            hasty_client.resolve(Reference(Repository(host, "a")))


def test_a_manifest_asked_for_by_digest_is_that_one_or_none(client: Registry, server: Server) -> None:
    digest = digest_of(b"another")
    server.behave(f"/v2/a/manifests/{digest}", GOOD_MANIFEST)

    with pytest.raises(Refused, match=f"but {digest} was requested"):
        client.manifest(repository(server), digest)


def test_a_transfer_that_breaks_off_is_continued_where_it_did(client: Registry, server: Server) -> None:
    def second_half(request: Request) -> list[bytes]:
        begin = int(request.headers["range"].removeprefix("bytes=").removesuffix("-"))
        span = f"bytes {begin}-{len(LAYER) - 1}/{len(LAYER)}"
        return [answer(206, LAYER[begin:], Content_Range=span)]

    half = always(head(200, {"Content-Length": str(len(LAYER))}), LAYER[: len(LAYER) // 2])
    serve_layer(server, in_turn(half, second_half))

    assert b"".join(client.stream(repository(server), LAYER_ENTRY)) == LAYER
    assert len(server.asked("/v2/a/blobs/")) == 2


@pytest.mark.parametrize(
    "header", [{}, {"Retry_After": "0"}, {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}]
)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_who_is_busy_is_asked_again(
    client: Registry, server: Server, status: int, header: dict[str, str]
) -> None:
    serve_manifest(server, in_turn(always(answer(status, b"", **header)), GOOD_MANIFEST))

    assert client.resolve(tagged(server)).data == MANIFEST
    assert len(server.asked("/v2/a/manifests")) == 2


def test_retry_after_is_waited_for(client: Registry, server: Server) -> None:
    serve_manifest(server, in_turn(always(answer(429, Retry_After="1")), GOOD_MANIFEST))

    begun = time.monotonic()
    client.resolve(tagged(server))

    assert time.monotonic() - begun >= 1


def test_nobody_waits_longer_than_an_operation_may_take(client: Registry, server: Server) -> None:
    serve_manifest(server, always(answer(429, Retry_After="86400")))

    with limits(seconds=20, mebibytes=8), pytest.raises(Unreachable, match="429") as refusal:
        client.resolve(tagged(server))

    assert refusal.value.retry_after_s == 86400
    assert len(server.asked("/v2/a/manifests")) == 1


def test_an_outage_is_tried_only_so_often(client: Registry, server: Server) -> None:
    serve_manifest(server, always(answer(503)))

    with pytest.raises(Unreachable):
        client.resolve(tagged(server))

    assert len(server.asked("/v2/a/manifests")) == BRIEF.attempts


_SPLINTERS = (
    *(
        b"\r\n",
        b"\0",
        b"\xff",
        b":",
        b"-1",
        b"9" * 20,
        b"{",
        b'"',
        b"chunked",
        b"null",
        b"\\ud800",
        b"1e999",
        b"301",
    ),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n", b"Content-Length: 5\r\n"),
    *(b"Location: http://[::1/\r\n", b"Link: <http://[>; rel=next\r\n", b"Retry-After: 99 Xxx\r\n"),
)


def _broken(whole: bytes, dice: random.Random) -> bytes:
    """The answer with something cut out, changed or put in, at up to three places."""
    pieces = bytearray(whole)
    for _ in range(dice.randint(1, 3)):
        place, length = dice.randrange(len(pieces)), dice.choice([0, 0, 1, 20])
        pieces[place : place + length] = dice.choice([*_SPLINTERS, b"", dice.randbytes(1)])
    return bytes(pieces)


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.full)])
def test_nothing_but_our_errors_comes_out_of_broken_answers(server: Server, count: int) -> None:
    dice = random.Random(count)
    index = json.dumps({"schemaVersion": 2, "manifests": [{"mediaType": "a/b", "digest": IMAGE, "size": 1}]})
    whole = {
        "manifests/v1": answer(200, MANIFEST, Content_Type=IMAGE_MANIFEST),
        "referrers/": answer(200, index.encode(), Content_Type=IMAGE_INDEX),
        "tags/list": answer(200, b'{"tags": ["a"]}', Link='</v2/a/tags/end>; rel="next"'),
    }
    outcomes: collections.Counter[str] = collections.Counter()

    with Registry(Settings(patience=Patience(total_s=15, attempts=1))) as client:
        calls: dict[str, Callable[[], object]] = {
            "manifests/v1": lambda: client.resolve(tagged(server)),
            "referrers/": lambda: client.referrers(repository(server), IMAGE),
            "tags/list": lambda: client.tags(repository(server)),
        }
        for kind in itertools.islice(itertools.cycle(whole), count):
            server.behave(f"/v2/a/{kind}", always(_broken(whole[kind], dice)))
            try:
                calls[kind]()
                outcomes["accepted"] += 1
            except RegistryError as error:
                outcomes[type(error).__name__] += 1

    assert outcomes["Refused"] > count / 10
    assert outcomes["Unreachable"] > count / 10


def test_every_client_hangs_up_when_it_is_done_with_a_server(client: Registry, server: Server) -> None:
    serve_manifest(server, endless())

    with pytest.raises(TooLarge):
        client.resolve(tagged(server))

    server.await_silence()
