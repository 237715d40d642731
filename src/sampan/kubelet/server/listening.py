"""Listens on the kubelet's ports."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

_LONGEST_LINE = 1 << 20
"""Maximum length of the request line in bytes, which contains the command to execute."""

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(answer: Answer, *, host: str, port: int, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    """Serve within the context. Yield the actual port number."""
    server = web.Server(
        answer,
        access_log=None,
        keepalive_timeout=75,
        handler_cancellation=True,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE,
    )
    runner = web.ServerRunner(server, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def tls_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """Return the server context. Client certificates are optional and must be signed by `client_ca`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
