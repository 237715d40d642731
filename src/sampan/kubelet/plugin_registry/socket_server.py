"""A gRPC server on a Unix socket that imports gRPC only when the first client connects.

The socket itself is a plain one. The first connection starts the gRPC server on an inner socket, to which every
connection is forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.host.clock import Clock
from sampan.kubelet.plugin_registry.calls import Message
from sampan.machinery.extras import MissingExtra, require

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

log = logging.getLogger(__name__)

_CHUNK = 1 << 16
_RETRY_S = 10.0

RpcMethod = Callable[[Message], Awaitable[Message]]
StreamMethod = Callable[[Message], AsyncIterator[Message]]


class ServiceError(Exception):
    """An error whose message is returned to the client, with the name of a gRPC status code."""

    def __init__(self, text: str, *, code: str = "UNKNOWN") -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcService:
    """A gRPC service. `schema` returns its protobuf messages and is called when they are first needed."""

    schema: Callable[[], ProtoSchema]
    name: str
    methods: Mapping[str, RpcMethod]
    streams: Mapping[str, StreamMethod] = field(default_factory=dict)
    """The methods that yield any number of responses."""


class SocketServer:
    def __init__(self, *, path: Path, services: Sequence[GrpcService]) -> None:
        self._path, self._services = path, services
        self._inner = path.with_name(".inner")
        self._start_lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._is_started = False
        self._open: dict[asyncio.StreamWriter, asyncio.Event] = {}
        """Open connections, each with an event that is set when the connection has ended."""

    async def run(self, clock: Clock) -> None:
        """Serve until cancelled. If the socket cannot be created, for example because the disk is full, retry.
        Meanwhile the node works without the socket.
        """
        while True:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
                async with self.listen():
                    await asyncio.Event().wait()
            except OSError as error:
                log.error("cannot listen on %s: %s; retrying in %g s", self._path, error, _RETRY_S)
            await clock.sleep(_RETRY_S)

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        self._path.unlink(missing_ok=True)
        self._is_started = False
        async with self._stack:
            directory = self._stack.enter_context(_short_path(self._path.parent))
            self._inner = directory / ".inner"
            server = await asyncio.start_unix_server(self._forward, directory / self._path.name)
            self._path.chmod(0o600)
            try:
                yield
            finally:
                server.close()
                self._path.unlink(missing_ok=True)
                ends = list(self._open.values())
                for writer in self._open:
                    writer.transport.abort()  # Do not wait for the client to read.
                for end in ends:
                    await end.wait()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        end = self._open[writer] = asyncio.Event()
        try:
            with contextlib.closing(writer), contextlib.suppress(OSError):
                await self._start()
                await self._pump_both(reader, writer)
        except MissingExtra as missing:
            log.warning("rejected a connection to %s: %s", self._path, missing)
        finally:
            del self._open[writer]
            end.set()

    async def _pump_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._inner)
        with contextlib.closing(inner_writer):
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer))
                group.create_task(_pump(inner_reader, writer))

    async def _start(self) -> None:
        async with self._start_lock:
            if not self._is_started:
                await self._stack.enter_async_context(_grpc(self._inner, self._services))
                self._is_started = True


@contextlib.contextmanager
def _short_path(directory: Path) -> Iterator[Path]:
    """Yield a short path of the directory that is valid in this process. The paths of Unix sockets have a length limit
    that directories often exceed.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def _grpc(path: Path, services: Sequence[GrpcService]) -> AsyncIterator[None]:
    require("grpc")
    import grpc.aio  # type: ignore[import-untyped]

    _remove(path)
    server = grpc.aio.server()
    for service in services:
        schema = service.schema()
        handlers, unary, stream = {}, grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        calls = [(name, unary, _handler(call)) for name, call in service.methods.items()]
        streams = [(name, stream, _stream_handler(call)) for name, call in service.streams.items()]
        for name, make_handler, handle in (*calls, *streams):
            method = schema.method(service.name, name)
            handlers[name] = make_handler(
                handle,
                request_deserializer=method.request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            full = method.path.split("/")[1]
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(full, handlers),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        _remove(path)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _handler(call: RpcMethod) -> Callable[[Message, Any], Awaitable[Message]]:
    async def handle(request: Message, context: Any) -> Message:
        import grpc

        try:
            return await call(request)
        except ServiceError as error:
            await context.abort(grpc.StatusCode[error.code], str(error))

    return handle


def _stream_handler(call: StreamMethod) -> Callable[[Message, Any], AsyncIterator[Message]]:
    async def handle(request: Message, context: Any) -> AsyncIterator[Message]:
        import grpc

        try:
            async for response in call(request):
                yield response
        except ServiceError as error:
            await context.abort(grpc.StatusCode[error.code], str(error))

    return handle
