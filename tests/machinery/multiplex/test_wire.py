"""Connections are closed completely, whatever the peer does."""

import asyncio
import gc
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sampan.machinery.multiplex import wire
from sampan.machinery.multiplex.wire import StreamWire
from sampan.machinery.pki import certificates
from tests import transports


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    now = time.time()
    request = certificates.SigningRequest(common_name="s", dns_names=("localhost",), is_server=True)
    pair = certificates.issue(certificates.make_ca("ca", now=now), request, now=now)
    file = directory / "both.pem"
    file.write_bytes(pair.certificate + pair.key)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(file)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return server, client


def test_peer_without_tls_close_notify_leaves_no_transport_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silent peer does not reply to the TLS close_notify before the event loop ends."""
    monkeypatch.setattr(wire, "_FAREWELL_S", 0.01)
    server_tls, client_tls = contexts(tmp_path)

    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> ssl.SSLSocket:
        client, _ = listening.accept()
        return server_tls.wrap_socket(client, server_side=True)

    async def main() -> None:
        reader, writer = await asyncio.open_connection(*listening.getsockname(), ssl=client_tls)
        await StreamWire(reader, writer).close()

    gc.collect()
    transports.take_leaks()
    with listening, ThreadPoolExecutor(1) as thread:
        silent = thread.submit(accept)
        asyncio.run(main())
        gc.collect()
        leaks = transports.take_leaks()
        silent.result(60).close()
    assert leaks == []
