"""Unary and streaming gRPC calls on a Unix socket. protobuf and gRPC are imported with the first call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.machinery.extras import MissingExtra, require

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

Message = Any

_OPTIONS = [("grpc.enable_http_proxy", 0)]


class RpcError(Exception):
    """The error of the called plugin; `code` is the name of the gRPC status code."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


@cache
def read_schema(file: Path) -> ProtoSchema:
    try:
        require("grpc")
    except MissingExtra as missing:
        raise RpcError(str(missing)) from None
    from sampan.machinery.proto import ProtoSchema

    return ProtoSchema.read(file)


async def call(
    socket: str, schema: ProtoSchema, service: str, name: str, request: Message, *, timeout_s: float = 120.0
) -> Message:
    """Make one call over a new connection: calls are rare, and plugins may restart at any time. The timeout uses the
    event loop's clock.
    """
    import grpc.aio  # type: ignore[import-untyped]

    method = schema.method(service, name)
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        method_call = channel.unary_unary(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        try:
            return _check_response(await method_call(request, timeout=timeout_s))
        except grpc.aio.AioRpcError as error:
            raise _rpc_error(error) from None


async def stream(socket: str, schema: ProtoSchema, service: str, name: str, request: Message) -> AsyncIterator[Message]:
    """Yield each response until the plugin ends the stream."""
    import grpc.aio

    method = schema.method(service, name)
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
        method_call = channel.unary_stream(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        try:
            async for response in method_call(request):
                yield _check_response(response)
        except grpc.aio.AioRpcError as error:
            raise _rpc_error(error) from None


def _check_response(response: Message | None) -> Message:
    """Return the response. gRPC passes None if the bytes cannot be deserialized."""
    if response is None:
        raise RpcError("rpc error: code = Internal desc = the response cannot be decoded", "Internal")
    return response


def _rpc_error(error: Any) -> RpcError:
    code = "".join(word.capitalize() for word in error.code().name.split("_"))
    return RpcError(f"rpc error: code = {code} desc = {error.details() or ''}", code)
