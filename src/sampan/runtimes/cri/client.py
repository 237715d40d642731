"""A gRPC client of a CRI runtime on its Unix socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from grpc import aio

from sampan.machinery.proto import ProtoSchema, RpcMethod
from sampan.runtimes.contract import RuntimeFailure


@cache
def load() -> ProtoSchema:
    return ProtoSchema.read(Path(__file__).with_name("cri.proto"))


TIMEOUT_S = 120.0
_MAX_MESSAGE_BYTES = 16 << 20
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 3_000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


class CriError(RuntimeFailure):
    """An error response of the runtime, formatted as by the kubelet of Kubernetes."""

    def __init__(self, reason: str, code: grpc.StatusCode, details: str) -> None:
        name = "".join(part.capitalize() for part in code.name.split("_"))
        super().__init__(reason, f"rpc error: code = {name} desc = {details}")
        self.code, self.details = code, details

    @property
    def is_missing(self) -> bool:
        return self.code is grpc.StatusCode.NOT_FOUND

    @property
    def is_unknown(self) -> bool:
        """Whether the runtime does not implement the call."""
        return self.code is grpc.StatusCode.UNIMPLEMENTED


class CriClient:
    """A client of the runtime at `endpoint`, a path with or without `unix://`."""

    def __init__(self, endpoint: str) -> None:
        self.schema: ProtoSchema = load()
        self.channel = aio.insecure_channel(f"unix:{endpoint.removeprefix('unix://')}", _OPTIONS)
        self._calls: dict[str, Any] = {}

    async def close(self) -> None:
        await self.channel.close()

    async def runtime(
        self, name: str, request: Any = None, *, reason: str = "RuntimeError", timeout_s: float | None = TIMEOUT_S
    ) -> Any:
        """Call the RuntimeService. Raise CriError with that reason if it fails."""
        return await self._call("RuntimeService", name, request, reason, timeout_s)

    async def images(
        self, name: str, request: Any = None, *, reason: str = "ImageError", timeout_s: float | None = TIMEOUT_S
    ) -> Any:
        return await self._call("ImageService", name, request, reason, timeout_s)

    async def events(self) -> AsyncIterator[Any]:
        """Yield container events until the runtime ends the stream. Raise CriError if the stream fails."""
        method = self.schema.method("RuntimeService", "GetContainerEvents")
        stream = self.channel.unary_stream(
            method.path, request_serializer=method.request.SerializeToString, response_deserializer=_reader(method)
        )
        call = stream(method.request())
        try:
            async for event in call:
                yield event
        except aio.AioRpcError as error:
            raise _error("RuntimeError", error) from None
        finally:
            call.cancel()

    async def _call(self, service: str, name: str, request: Any, reason: str, timeout_s: float | None) -> Any:
        method = self.schema.method(service, name)
        call = self._calls.get(method.path)
        if call is None:
            call = self._calls[method.path] = self.channel.unary_unary(
                method.path, request_serializer=method.request.SerializeToString, response_deserializer=_reader(method)
            )
        try:
            return await call(request if request is not None else method.request(), timeout=timeout_s)
        except aio.AioRpcError as error:
            raise _error(reason, error) from None


def _reader(method: RpcMethod) -> Any:
    return method.response.FromString


def _error(reason: str, error: aio.AioRpcError) -> CriError:
    return CriError(reason, error.code(), error.details() or error.code().name)
