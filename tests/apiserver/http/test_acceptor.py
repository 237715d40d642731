"""Accepting of connections: failed TLS handshakes, plain HTTP, and errors of the acceptor."""

import asyncio
import logging
import socket
import ssl
import time
from pathlib import Path

import pytest

from sampan.apiserver.http import acceptor
from sampan.apiserver.http.acceptor import Acceptor
from sampan.apiserver.http.connection_limits import ConnectionSlot
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from tests.apiserver.http.http_server import GET, Site, run_on_site
from tests.apiserver.http.wire import Wire


def test_plain_http_on_the_tls_port_gets_an_explanation(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        async with Wire(site.tls_port) as wire:
            wire.send(GET + b"\r\n")
            response = await wire.read_response()
            assert response.code == 400
            assert response.text == "Client sent an HTTP request to an HTTPS server.\n"

    run_on_site(tmp_path, test)


INVALID_HANDSHAKES = {
    "no bytes": b"",
    "SOCKS greeting": b"\x05\x01\x00",
    "SSLv2 ClientHello": b"\x80\x2e\x01\x00\x02\x00\x15",
    "truncated ClientHello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    "malformed ClientHello": b"\x16\x03\x01\x00\x05hello" * 3,
}


@pytest.mark.parametrize("name", INVALID_HANDSHAKES)
def test_invalid_tls_handshakes_are_dropped_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async def test(site: Site) -> None:
        async with Wire(site.tls_port) as wire:
            wire.send(INVALID_HANDSHAKES[name])
            async with asyncio.timeout(60):
                await wire.reader.read()
        async with site.wire(tls=True) as wire:
            assert (await wire.request("GET", "/healthz")).text == "ok"

    run_on_site(tmp_path, test, handshake_s=1)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_disconnect_during_the_tls_handshake_frees_the_connection_slot(tmp_path: Path) -> None:
    async def test(site: Site) -> None:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", site.tls_port)) as client:
                client.sendall(b"\x16\x03\x01")
        async with site.wire(tls=True) as wire:
            assert (await wire.request("GET", "/healthz")).text == "ok"

    run_on_site(tmp_path, test, connections=3, handshake_s=60)


def test_client_certificate_of_an_unknown_ca_is_rejected(tmp_path: Path) -> None:
    """kube-apiserver accepts the connection and responds 401; the ssl module can only reject the handshake."""

    async def test(site: Site) -> None:
        request = SigningRequest(common_name="admin", organizations=("system:masters",), is_client=True)
        pair = issue(make_ca("stranger", now=time.time()), request, now=time.time())
        (tmp_path / "key").write_bytes(pair.key)
        (tmp_path / "certificate").write_bytes(pair.certificate)
        context = site.client_tls()
        context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with site.wire(context=context) as wire:
                await wire.request("GET", "/healthz")

    run_on_site(tmp_path, test)


def test_acceptor_continues_after_unexpected_errors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(site: Site) -> None:
        original_enter, original_speaks_tls = site.http._limiter.enter, Acceptor._speaks_tls
        failures = ["limiter", "tls"]

        async def enter(peer: str) -> ConnectionSlot | None:
            if "limiter" in failures:
                failures.remove("limiter")
                raise RuntimeError("unexpected error of the limiter")
            return await original_enter(peer)

        async def speaks_tls(self: Acceptor, client: socket.socket) -> bool:
            if "tls" in failures:
                failures.remove("tls")
                raise RuntimeError("unexpected error of TLS detection")
            return await original_speaks_tls(self, client)

        monkeypatch.setattr(site.http._limiter, "enter", enter)
        monkeypatch.setattr(Acceptor, "_speaks_tls", speaks_tls)
        monkeypatch.setattr(acceptor, "_PAUSE_S", 0.0)
        for _ in range(2):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                async with site.wire(tls=True) as wire:
                    await wire.request("GET", "/healthz")
        async with site.wire(tls=True) as wire:
            assert (await wire.request("GET", "/healthz")).text == "ok"

    run_on_site(tmp_path, test)
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 2
