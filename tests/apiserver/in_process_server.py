"""An API server without sockets: requests go through the pipeline and responses through the renderer, as over HTTP."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from sampan.api.scheme import Scheme
from sampan.apiserver.admission.framework.contract import RegisteredPlugin
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.response.renderer import Renderer
from sampan.apiserver.response.responses import StreamedResponse, WatchResponse
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from tests.api_server import ADMIN, Server, running_api_server

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    code: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class InProcessClient:
    """A client of the server; keyword arguments are headers: `await client.get(path, accept=...)`."""

    def __init__(self, server: Server) -> None:
        self.server, self.pipeline, self.registry = server, server.pipeline, server.registry
        self.renderer = Renderer(endpoints=server.pipeline.endpoints)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.send("GET", path, b"", **headers)

    async def create(self, path: str, value: dict[str, Any], **headers: str) -> Reply:
        reply = await self.send("POST", path, msgspec.json.encode(value), **headers)
        assert reply.code == 201, reply.body
        return reply

    async def send(self, method: str, target: str, body: bytes = b"", **headers: str) -> Reply:
        call = self.make_call(method, target, body, headers)
        try:
            response = await self.pipeline.serve_as(call)
            assert not isinstance(response, WatchResponse | StreamedResponse)
            rendered = await self.renderer.render(response, call.output_format, call)
        except errors.ApiError as error:
            rendered = await self.renderer.error(error, call)
        chunks = b"".join(rendered.chunks)
        if rendered.headers.get("Content-Encoding") == "gzip" and not rendered.is_gzipped:
            chunks = zlib.decompress(chunks, 16 + zlib.MAX_WBITS)
        return Reply(rendered.code, rendered.content_type, rendered.headers, chunks)

    async def watch(self, target: str, count: int, **headers: str) -> tuple[str, bytes]:
        """Return the content type and the bytes of the first `count` events of a watch."""
        call = self.make_call("GET", target, b"", headers)
        response = await self.pipeline.serve_as(call)
        assert isinstance(response, WatchResponse)
        frames, body, position = self.renderer.frames(response, call), b"", 0
        async with response.watcher as watcher:
            async for events in watcher:
                body += b"".join(frames.encode(events))
                position += len(events)
                if position >= count:
                    break
        return frames.content_type, body

    @staticmethod
    def make_call(method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Call:
        path, _, query = target.partition("?")
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        return Call(method=method, path=path, query=Query(query), headers=named, body=body, user=ADMIN)


@asynccontextmanager
async def in_process_client(
    scheme: Scheme | None = None, plugins: Sequence[RegisteredPlugin] = (), **options: Any
) -> AsyncIterator[InProcessClient]:
    """`options` are those of `running_api_server`."""
    async with running_api_server(VirtualClock(), scheme, plugins, **options) as server:
        yield InProcessClient(server)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
