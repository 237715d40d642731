"""A webhook server with TLS, for tests of admission and conversion webhooks."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca

Respond = Callable[[str, dict[str, Any]], dict[str, Any] | web.Response]
"""A function from the path and the request of a review to the response of the review, or to an HTTP response."""


class WebhookServer:
    def __init__(self, port: int, bundle: bytes) -> None:
        self.port, self.bundle = port, bundle
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """The path and request of every review that was received."""
        self.hangs_up = False
        """Whether the next request is not answered and its connection closed."""

    def client_config(self, path: str = "/review", host: str = "127.0.0.1") -> dict[str, Any]:
        return {"url": f"https://{host}:{self.port}{path}", "caBundle": base64.b64encode(self.bundle).decode()}


@asynccontextmanager
async def webhook_server(
    directory: Path, respond: Respond, names: tuple[str, ...] = ()
) -> AsyncIterator[WebhookServer]:
    now = time.time()
    ca = make_ca("webhooks", now=now)
    request = SigningRequest(common_name="webhook", dns_names=names, addresses=["127.0.0.1"], is_server=True)
    pair = issue(ca, request, now=now)
    file = directory / "webhook.pem"
    file.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = WebhookServer(0, ca.certificate)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        review = msgspec.json.decode(await request.read())
        if server.hangs_up and request.transport is not None:
            server.hangs_up = False
            request.transport.abort()
            return web.Response()
        content = review["request"]
        server.requests.append((request.path, content))
        response = respond(request.path, content)
        if isinstance(response, web.Response):
            return response
        body = {
            "kind": review["kind"],
            "apiVersion": review["apiVersion"],
            "response": {"uid": content["uid"], **response},
        }
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def json_patch(*operations: dict[str, Any]) -> dict[str, Any]:
    """Return the response of a mutating webhook that allows a request with a patch."""
    patch = base64.b64encode(msgspec.json.encode(list(operations))).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}
