"""A web server with manifests of static pods."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from sampan.host.clock import VirtualClock
from tests.eventually import eventually

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"


class ManifestServer:
    """A server that sends `text` in response to requests with the header `X-Key`."""

    def __init__(self) -> None:
        self.status, self.text, self.request_count = 200, POD.format("a"), 0

    async def respond(self, request: web.BaseRequest) -> web.Response:
        self.request_count += 1
        if request.headers.get("X-Key") != "secret":
            return web.Response(status=403)
        return web.Response(status=self.status, text=self.text)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        try:
            yield await self.begin()
        finally:
            await self.end()

    async def begin(self) -> str:
        """Start the server and return the URL of the manifests."""
        self._factory = web.Server(self.respond)
        self._server = await asyncio.get_running_loop().create_server(self._factory, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/pods"

    async def end(self) -> None:
        self._server.close()
        await self._factory.shutdown(0.01)

    async def wait_for_next_request(self, clock: VirtualClock) -> None:
        before = self.request_count
        # The first of these two requests may have been sent before this call.
        await eventually(lambda: self.request_count >= before + 2, step=lambda: clock.advance(20))
