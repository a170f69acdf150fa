"""What the manager serves beside its work, on loopback: pages and certificates."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from rig.base.polling import play
from rig.base.processes import free_port
from schedkit.kube.errors import ConfigError
from schedkit.sked import wiring
from schedkit.sked.http import certificates, selfsigned, serving
from schedkit.sked.http.certificates import Mounted
from schedkit.sked.http.serving import Handler, listening, plain
from schedkit.sked.settings import Address

ROOT = Path(__file__).parents[4]


async def ask(url: str, tls: ssl.SSLContext | None = None, method: str = "GET") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url, ssl=tls or True) as response:
        return response.status, await response.text()


async def hello(_: object) -> web.Response:
    return plain(200, "hello")


ROUTES: dict[str, Handler] = {"/hello": hello}


def test_a_server_answers_its_paths_and_no_others() -> None:
    async def scenario() -> None:
        port = free_port()
        async with listening(Address("127.0.0.1", port), ROUTES, flag="metrics-bind-address"):
            base = f"http://127.0.0.1:{port}"
            assert await ask(f"{base}/hello") == (200, "hello\n")
            assert await ask(f"{base}/hello", method="POST") == (405, "only GET and HEAD are allowed\n")
            assert await ask(f"{base}/other") == (
                404,
                "this path does not exist: this server has only /hello\n",
            )

    play(scenario)


def test_a_port_that_is_taken_is_named_with_the_flag_and_the_variable_that_choose_another() -> None:
    remedy = "change --metrics-bind-address or SKED_METRICS_BIND_ADDRESS; 0 turns it off"

    async def scenario() -> None:
        address = Address("127.0.0.1", free_port())
        async with listening(address, ROUTES, flag="metrics-bind-address"):
            with pytest.raises(ConfigError, match=rf"cannot listen on {address}: .*; {remedy}$"):
                async with listening(address, ROUTES, flag="metrics-bind-address"):
                    pass

    play(scenario)


def test_whoever_holds_connections_open_makes_way_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_CONNECTIONS", 3)

    async def scenario() -> None:
        port = free_port()
        async with listening(Address("127.0.0.1", port), ROUTES, flag="metrics-bind-address"):
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            assert await ask(f"http://127.0.0.1:{port}/hello") == (200, "hello\n")
            with suppress(ConnectionResetError):
                assert await held[0][0].read() == b""  # the oldest was ended
            for _, writer in held:
                writer.close()

    play(scenario)


def test_who_never_begins_to_speak_tls_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_HANDSHAKE_S", 0.2)

    async def scenario() -> None:
        port = free_port()
        async with listening(
            Address("127.0.0.1", port), ROUTES, await certificates.self_signed(), flag="metrics-bind-address"
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""  # would wait for the scenario's limit otherwise
            writer.close()

    play(scenario)


def test_a_manager_is_done_before_the_kubelet_loses_its_patience() -> None:
    deployment = yaml.safe_load((ROOT / "config/manager/manager.yaml").read_text())
    patience_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]

    assert patience_s > wiring.GRACE_S + wiring.EVENTS_S + wiring.RELEASE_S


def parts(pem: bytes) -> tuple[bytes, bytes]:
    """The key and the certificate."""
    start = pem.index(b"-----BEGIN CERTIFICATE-----")
    return pem[:start], pem[start:]


def write_pair(folder: Path, pem: bytes) -> None:
    """As a mounted Secret has it."""
    key, certificate = parts(pem)
    (folder / "tls.key").write_bytes(key)
    (folder / "tls.crt").write_bytes(certificate)


def trusting(pem: bytes) -> ssl.SSLContext:
    """Nobody but who shows that very certificate."""
    return ssl.create_default_context(cadata=parts(pem)[1].decode())


def test_a_replaced_certificate_is_shown_on_new_connections_and_a_broken_one_is_not(tmp_path: Path) -> None:
    old, new = (selfsigned.make(dt.datetime.now(dt.UTC)) for _ in range(2))

    async def scenario() -> None:
        write_pair(tmp_path, old)
        mounted = Mounted(tmp_path)
        port = free_port()
        async with listening(Address("127.0.0.1", port), ROUTES, mounted.tls, flag="metrics-bind-address"):
            url = f"https://localhost:{port}/hello"
            assert await ask(url, trusting(old)) == (200, "hello\n")

            write_pair(tmp_path, new)
            mounted.look()
            assert await ask(url, trusting(new)) == (200, "hello\n")

            (tmp_path / "tls.crt").write_text("half of a certif")
            mounted.look()
            assert await ask(url, trusting(new)) == (200, "hello\n")

            (tmp_path / "tls.crt").write_bytes(parts(old)[1])  # good, but of another key
            mounted.look()
            assert await ask(url, trusting(new)) == (200, "hello\n")

    play(scenario)


def test_a_folder_without_a_certificate_is_refused_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--metrics-cert-path needs tls\.crt and tls\.key"):
        Mounted(tmp_path)


def test_without_a_mounted_certificate_one_is_made() -> None:
    async def scenario() -> None:
        tls = await certificates.self_signed()
        port = free_port()
        anybody = ssl.create_default_context()
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        async with listening(Address("127.0.0.1", port), ROUTES, tls, flag="metrics-bind-address"):
            assert await ask(f"https://127.0.0.1:{port}/hello", anybody) == (200, "hello\n")

    play(scenario)
