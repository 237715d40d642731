"""Connections that are accepted: TLS that fails, what is no TLS, and errors of the acceptor."""

import asyncio
import logging
import socket
import ssl
import time
from pathlib import Path

import pytest

from sampan.apiserver.http.acceptor import Acceptor
from sampan.apiserver.http.connection_limits import ConnectionSlot
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from tests.apiserver.http.http_server import GET, Site, on_a_site
from tests.apiserver.http.wire import Wire


def test_plain_http_on_the_tls_port_gets_an_explanation(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        async with Wire(here.tls_port) as wire:
            wire.send(GET + b"\r\n")
            response = await wire.read_response()
            assert response.code == 400
            assert response.text == "Client sent an HTTP request to an HTTPS server.\n"

    on_a_site(tmp_path, test)


NO_TLS = {
    "nothing": b"",
    "noise": b"\x05\x01\x00",
    "an old greeting": b"\x80\x2e\x01\x00\x02\x00\x15",
    "a greeting cut off": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    "a broken greeting": b"\x16\x03\x01\x00\x05hello" * 3,
}


@pytest.mark.parametrize("name", NO_TLS)
def test_what_is_no_tls_is_dropped_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def test(here: Site) -> None:
        async with Wire(here.tls_port) as wire:
            wire.send(NO_TLS[name])
            async with asyncio.timeout(60):
                await wire.reader.read()
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site(tmp_path, test, handshake_s=1)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_goes_during_the_greeting_frees_its_place(tmp_path: Path) -> None:
    async def test(here: Site) -> None:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", here.tls_port)) as client:
                client.sendall(b"\x16\x03\x01")
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site(tmp_path, test, connections=3, handshake_s=60)


def test_a_certificate_that_somebody_else_signed_is_no_way_in(tmp_path: Path) -> None:
    """The real server takes the connection and answers 401; TLS as Python has it can only refuse it."""

    async def test(here: Site) -> None:
        request = SigningRequest(common_name="admin", organizations=("system:masters",), is_client=True)
        stranger = issue(make_ca("stranger", now=time.time()), request, now=time.time())
        (tmp_path / "key").write_bytes(stranger.key)
        (tmp_path / "certificate").write_bytes(stranger.certificate)
        context = here.trusting()
        context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with here.wire(context=context) as wire:
                await wire.ask("GET", "/healthz")

    on_a_site(tmp_path, test)


def test_accepting_goes_on_after_an_error_that_nobody_expected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(here: Site) -> None:
        entered, admitted = here.http._limiter.enter, Acceptor._speaks_tls
        failures = ["room", "tls"]

        async def enter(peer: str) -> ConnectionSlot | None:
            if "room" in failures:
                failures.remove("room")
                raise RuntimeError("nobody expected this")
            return await entered(peer)

        async def speaks_tls(self: Acceptor, client: socket.socket) -> bool:
            if "tls" in failures:
                failures.remove("tls")
                raise RuntimeError("nor this")
            return await admitted(self, client)

        monkeypatch.setattr(here.http._limiter, "enter", enter)
        monkeypatch.setattr(Acceptor, "_speaks_tls", speaks_tls)
        monkeypatch.setattr("sampan.apiserver.http.acceptor._PAUSE_S", 0.0)
        for _ in range(2):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with here.wire(tls=True) as wire:
                    await wire.ask("GET", "/healthz")
        async with here.wire(tls=True) as wire:
            assert (await wire.ask("GET", "/healthz")).text == "ok"

    on_a_site(tmp_path, test)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 2
