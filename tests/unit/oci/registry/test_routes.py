"""Where a registry is asked: through which proxy, at which mirror, and at which token server."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from rig.base import effort
from rig.base.certificates import Authority
from rig.registries import hostile
from schedkit.model.images.references import Repository
from schedkit.oci.errors import Refused, RegistryError, Unauthorized, Uncertified, Unreachable
from schedkit.oci.http.bodies import retry_after
from schedkit.oci.http.deadlines import capped, within
from schedkit.oci.http.proxies import Proxies, is_loopback, parse_proxy, read_proxies
from schedkit.oci.http.tls import Authorities, is_indexed, system_authorities
from schedkit.oci.http.transport import Request, Transport
from schedkit.oci.http.urls import join_address
from schedkit.oci.registry.challenges import Challenge, parse_challenge, parse_token, refuse_unsafe_realm
from schedkit.oci.registry.host import Patience, persistently
from schedkit.oci.registry.mirrors import Mirrors


@pytest.mark.parametrize(
    ("environment", "scheme", "expected"),
    [
        ({}, "https", ""),
        ({"https_proxy": "http://p:1"}, "https", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "https", "http://p:1"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "https", "http://low:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http", ""),
        ({"ALL_PROXY": "http://p:1"}, "http", "http://p:1"),
        ({"HTTPS_PROXY": "p:1"}, "https", "http://p:1"),
    ],
)
def test_the_environment_names_the_proxy(environment: dict[str, str], scheme: str, expected: str) -> None:
    assert read_proxies(environment).proxy_for(scheme, "quay.io", 443) == expected


@pytest.mark.parametrize(
    ("no_proxy", "host", "bypassed"),
    [
        ("", "quay.io", False),
        ("quay.io", "quay.io", True),
        ("QUAY.io", "quay.IO", True),
        ("quay.io", "cdn.quay.io", True),
        (".quay.io", "cdn.quay.io", True),
        ("*.quay.io", "cdn.quay.io", True),
        ("quay.io", "notquay.io", False),
        ("a.test, quay.io", "quay.io", True),
        ("*", "quay.io", True),
        ("*", "10.1.2.3", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("fd00::/8", "fd00::1", True),
        ("quay.io", "10.1.2.3", False),
        ("quay.io:5000", "quay.io", True),
        (".quay.io:5000", "cdn.quay.io", True),
        ("quay.io:443", "quay.io", False),
        ("10.1.2.3:5000", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", False),
        ("[fd00::1]:5000", "fd00::1", True),
        ("fd00::5000", "fd00::5000", True),
        ("", "127.0.0.1", True),
        ("", "localhost", True),
        ("", "::1", True),
    ],
)
def test_some_hosts_need_no_proxy(no_proxy: str, host: str, bypassed: bool) -> None:
    proxies = read_proxies({"HTTPS_PROXY": "http://p:1", "NO_PROXY": no_proxy})

    assert proxies.proxy_for("https", host, 5000) == ("" if bypassed else "http://p:1")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a", ("http://a", None)),
        ("https://u%40:p@a:8/", ("https://a:8", ("u@", "p"))),
        ("http://u@[::1]:8", ("http://[::1]:8", ("u", ""))),
    ],
)
def test_a_proxy_may_ask_for_a_login(url: str, expected: tuple[str, tuple[str, str] | None]) -> None:
    assert parse_proxy(url) == expected


NO_PROXIES = ["socks5://a", "http://", "http://a:x", "http://u:secret@a b", "http://[::1"]
NO_PLACES = ["http://u:secret@a:99999", "http://a:65536", "http://a:0", "http://[1]:8"]


@pytest.mark.parametrize("url", [*NO_PROXIES, *NO_PLACES])
def test_what_cannot_be_a_proxy_is_told_without_its_password(url: str) -> None:
    with pytest.raises(RegistryError, match="cannot be a proxy") as refusal:
        parse_proxy(url)

    assert "secret" not in str(refusal.value)


def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")

    for name in ("ca", "missing"):
        with pytest.raises(RegistryError, match=f"{name} cannot be read as CA certificates"):
            system_authorities(tmp_path / name)


@pytest.mark.parametrize(("authorities", "is_all"), [(0, False), (1, False), (140, True)])
def test_a_folder_with_a_few_authorities_is_not_the_whole_store(
    tmp_path: Path, authorities: int, is_all: bool
) -> None:
    (tmp_path / "ca-certificates.crt").touch()
    for number in range(authorities):
        (tmp_path / f"{number:08x}.0").touch()

    assert is_indexed(tmp_path) is is_all
    assert not is_indexed(tmp_path / "nowhere")


@pytest.fixture
def private(tmp_path: Path) -> Authority:
    """An authority that no system knows."""
    return Authority(tmp_path / "authority")


def test_an_authority_that_the_index_lacks_is_looked_for_in_the_whole_store(
    private: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("SSL_CERT_FILE", str(private.ca_file))  # OpenSSL's whole store

    assert _statuses(private, Authorities(None, index=tmp_path / "index")) == [200, 200]


def test_who_is_in_no_store_is_not_believed_and_the_store_is_read_once(
    private: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index").mkdir()
    stranger = Authority(tmp_path / "stranger")
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger.ca_file))
    authorities = Authorities(None, index=tmp_path / "index")

    with pytest.raises(Uncertified, match="cannot be trusted"):
        _statuses(private, authorities)

    assert not authorities.complete()


def test_a_store_is_not_read_for_a_certificate_of_another_host(private: Authority, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    authorities = Authorities(private.ca_file, index=tmp_path / "index")

    with pytest.raises(Uncertified, match="mismatch"):
        _statuses(private, authorities, host="other.test")

    assert authorities.complete(), "it was read before"


def _statuses(authority: Authority, authorities: Authorities, *, host: str = "127.0.0.1") -> list[int]:
    """Of two answers of a server with a certificate of that authority, for that host."""
    pair = authority.issue("server", common_name="server", sans=(host,))
    with (
        hostile.Server({"/": hostile.always(hostile.answer(200))}, pair) as server,
        closing(Transport(tls=authorities, proxies=Proxies())) as transport,
    ):
        return [_status(transport, server.url) for _ in range(2)]


def _status(transport: Transport, url: str) -> int:
    with closing(transport.send(Request("GET", url), ends=time.monotonic() + 30)) as answer:
        return answer.status


def test_loopback_is_what_never_leaves_the_machine() -> None:
    hosts = [
        "localhost",
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "0.0.0.0",
        "localhost.test",
        "10.0.0.1",
        "127.0.0.1.test",
    ]

    assert [host for host in hosts if is_loopback(host)] == hosts[:4]
    assert Proxies(https="p").proxy_for("https", "127.0.0.1.test", 443) == "http://p"


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("docker.io/library/a", ["m.test/hub/library/a", "n.test/library/a", "docker.io/library/a"]),
        ("docker.io/ada/a", ["m.test/ada/a", "docker.io/ada/a"]),
        ("docker.io/adam/a", ["m.test/hub/adam/a", "n.test/adam/a", "docker.io/adam/a"]),
        ("quay.io/a", ["quay.io/a"]),
    ],
)
def test_mirrors_come_in_their_order_and_the_origin_last(name: str, places: list[str]) -> None:
    mirrors = Mirrors({"docker.io": ("m.test/hub", "n.test"), "docker.io/ada": ("m.test/ada",)})

    assert [str(place) for place in mirrors.places(Repository(*name.split("/", 1)))] == places


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        ('Basic realm="x"', Challenge("basic", "x")),
        ("Basic", Challenge("basic")),
        ('Negotiate, Basic realm="x"', Challenge("basic", "x")),
        ('Bearer realm="https://a/t", Basic realm="x"', Challenge("bearer", "https://a/t")),
        ('Bearer realm="https://a/t",service="s",scope="x:y:z"', Challenge("bearer", "https://a/t", "s")),
        ("bearer realm=https://a/t, service=s", Challenge("bearer", "https://a/t", "s")),
        ('Bearer Realm="https://a/t?x=y,z" , Service="s s"', Challenge("bearer", "https://a/t?x=y,z", "s s")),
    ],
)
def test_a_challenge_is_understood(header: str, challenge: Challenge) -> None:
    assert parse_challenge(header, host="r") == challenge


def test_a_long_challenge_is_read_in_one_pass() -> None:
    with effort.at_most(1):
        for _ in range(20):
            assert parse_challenge("Bearer " + "a" * 4080, host="r") == Challenge("bearer")


@pytest.mark.parametrize("header", ["", "Negotiate", "Digest realm=x", "Bearer " + "x" * 5000, '"'])
def test_a_challenge_that_nobody_can_meet_is_told(header: str) -> None:
    with pytest.raises(Unauthorized, match="kind of login that is not supported"):
        parse_challenge(header, host="r")


@pytest.mark.parametrize(
    ("realm", "host", "secure", "safe"),
    [
        ("https://auth.test/token", "r.test", True, True),
        ("http://r.test/token", "r.test", True, False),
        ("http://127.0.0.1/token", "r.test", True, False),
        ("http://r.test:1/token", "r.test:2", False, True),
        ("http://127.0.0.1:1/token", "127.0.0.1:2", False, True),
        ("http://127.0.0.1:1/token", "r.test:2", False, False),
        ("http://evil.test/token", "127.0.0.1:2", False, False),
        ("https://user:pw@auth.test/", "r.test", True, False),
        ("file:///token", "r.test", True, False),
        ("https://[::1/token", "r.test", True, False),
        ("https://auth.test:99999/token", "r.test", True, False),
        ("https://auth.t\u00e9st/token", "r.test", True, False),
        ("/token", "r.test", True, False),
        ("", "r.test", False, False),
    ],
)
def test_a_token_server_is_as_safe_as_its_registry(realm: str, host: str, secure: bool, safe: bool) -> None:
    def check() -> bool:
        try:
            refuse_unsafe_realm(Challenge("bearer", realm), host=host, secure=secure)
        except Refused:
            return False
        return True

    assert check() is safe


def test_a_token_has_one_of_two_names() -> None:
    assert parse_token(b'{"token": "a"}', host="r") == "a"
    assert parse_token(b'{"access_token": "b", "expires_in": 60}', host="r") == "b"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 3 ", 3.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("\u00a0" * 9 + "3", 3.0),
        ("\u0663", None),
        ("9" * 5000, 999_999_999.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_how_long_to_wait_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after(value) == seconds


@pytest.mark.parametrize(
    ("location", "joined"),
    [
        ("/x?y", "https://r.test/x?y"),
        ("https://other.test:1/x", "https://other.test:1/x"),
        ("//other.test/x", "https://other.test/x"),
    ],
)
def test_a_server_may_send_us_to_an_address(location: str, joined: str) -> None:
    assert join_address("https://r.test/v2/", location) == joined


@pytest.mark.parametrize(
    "location",
    [
        "",
        "file:///x",
        "gopher://x",
        "http://[x",
        "http://u@x/",
        "http://x:0/",
        "http://x:99999/",
        "é",
        "/" * 9000,
    ],
)
def test_a_server_may_send_us_nowhere_else(location: str) -> None:
    with pytest.raises(Refused, match="not a usable address"):
        join_address("https://r.test/v2/", location)


def _unreachable(attempts: list[float], retry_after_s: float) -> Callable[[float], None]:
    def attempt(ends: float) -> None:
        attempts.append(ends)
        raise Unreachable("busy", retry_after_s=retry_after_s)

    return attempt


def test_a_size_that_somebody_made_up_does_not_make_us_wait() -> None:
    """A day of transfer is allowed; an hour of waiting for it to begin is not."""
    attempts: list[float] = []

    with pytest.raises(Unreachable):
        persistently(_unreachable(attempts, 3600), Patience(), ends=time.monotonic() + 86_400)

    assert len(attempts) == 1


def test_all_operations_of_one_block_end_by_its_deadline() -> None:
    attempts: list[float] = []

    with within(0.05), pytest.raises(Unreachable):
        persistently(_unreachable(attempts, 1), Patience(), ends=time.monotonic() + 60)
    with within(5), within(600):
        nested = capped(float("inf"))

    assert len(attempts) == 1
    assert nested <= time.monotonic() + 5
    assert capped(float("inf")) == float("inf")


def _sent(addresses: list[str], port: int) -> None:
    """Ask a host of these addresses, which has half a second."""
    proxies, tls = Proxies(), system_authorities(None)
    with closing(Transport(tls=tls, proxies=proxies, resolve=lambda *_: addresses)) as transport, within(0.5):
        transport.send(Request("GET", f"http://many.test:{port}/"), ends=time.monotonic() + 60)


def test_a_host_with_many_dead_addresses_does_not_hold_us() -> None:
    """Each once had all the time: a queue that is full answers nobody."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        for _ in range(4):
            waiting.enter_context(closing(_knocking(full.getsockname())))
        began = time.monotonic()

        with pytest.raises(Unreachable):
            _sent(["127.0.0.1"] * 50, full.getsockname()[1])

    assert time.monotonic() - began < 2


def test_a_slow_name_server_leaves_the_time_to_connect() -> None:
    resolved = []

    def resolve_slowly(*_: object) -> list[str]:
        time.sleep(0.2)
        resolved.append(time.monotonic())
        return ["127.0.0.1"]

    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        for _ in range(4):
            waiting.enter_context(closing(_knocking(full.getsockname())))
        transport = Transport(
            tls=system_authorities(None), proxies=Proxies(), resolve=resolve_slowly, connect_s=0.2
        )
        request = Request("GET", f"http://slow.test:{full.getsockname()[1]}/")
        with closing(transport), pytest.raises(Unreachable, match="too slow"):
            transport.send(request, ends=time.monotonic() + 60)

    assert time.monotonic() - resolved[0] > 0.15


def _knocking(address: tuple[str, int]) -> socket.socket:
    knocking = socket.socket()
    knocking.setblocking(False)
    knocking.connect_ex(address)
    return knocking


def test_when_one_address_is_dead_the_next_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(Unreachable, match="too slow"):
            _sent(["127.0.0.2", "127.0.0.1"], server.getsockname()[1])
        server.settimeout(5)
        accepted, _ = server.accept()
        accepted.close()


def test_a_host_in_ascii_is_found_without_tables_of_unicode() -> None:
    """Loading them takes as long as a question to the registry."""
    program = (
        "import sys; from schedkit.oci.http.transport import addresses_of; addresses_of('localhost', 80)"
    )
    told = f"{program}; sys.exit('encodings.idna' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.test"])
def test_what_can_be_no_host_is_refused(host: str) -> None:
    transport = Transport(tls=system_authorities(None), proxies=Proxies())

    with pytest.raises(Refused, match="cannot be the name of a host"):
        transport.send(Request("GET", f"http://{host}/"), ends=time.monotonic() + 30)
