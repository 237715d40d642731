"""A fake extender: an HTTP server with given responses that records its requests."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Response = Callable[[dict[str, Any]], Any]


@dataclass
class FakeExtender:
    responses: dict[str, Response]
    """Functions from request to response body by verb; an int is a status code."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    url: str = ""

    async def respond(self, request: web.BaseRequest) -> web.Response:
        verb = request.path.rpartition("/")[2]
        body = await request.json()
        self.calls.append((verb, body))
        response = self.responses[verb](body)
        return web.Response(status=response) if isinstance(response, int) else web.json_response(response)

    def bodies(self, verb: str) -> list[dict[str, Any]]:
        return [body for called, body in self.calls if called == verb]


@asynccontextmanager
async def running_extender(tls: ssl.SSLContext | None = None, **responses: Response) -> AsyncIterator[FakeExtender]:
    extender = FakeExtender(responses)
    runner = web.ServerRunner(web.Server(extender.respond, access_log=None), shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        extender.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/ext"
        yield extender
    finally:
        await runner.cleanup()
