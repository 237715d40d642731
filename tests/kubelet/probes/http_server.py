"""An HTTP server that a probe can reach."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(response: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(response), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
