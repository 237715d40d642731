"""The messages, and one call on a Unix socket. protobuf and gRPC are loaded with the first of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sampan.kubelet.volumes.contract import VolumeFault

if TYPE_CHECKING:
    from sampan.machinery.proto import Schema

Message = Any

_HERE = Path(__file__).parent


class RpcFault(VolumeFault):
    """What the other side said."""


@cache
def csi() -> Schema:
    return _read("csi.proto")


@cache
def registration() -> Schema:
    return _read("registration.proto")


def _read(name: str) -> Schema:
    from sampan.machinery.proto import Schema

    return Schema.read(_HERE / name)


async def call(
    socket: str, schema: Schema, service: str, name: str, request: Message, *, timeout_s: float = 120.0
) -> Message:
    """A connection of its own: calls are rare, and drivers come and go. The time is the loop's."""
    import grpc.aio  # type: ignore[import-untyped]

    method = schema.method(service, name)
    options = [("grpc.enable_http_proxy", 0)]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        ask = channel.unary_unary(
            method.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        try:
            return await ask(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as fault:
            code = "".join(word.capitalize() for word in fault.code().name.split("_"))
            raise RpcFault(f"rpc error: code = {code} desc = {fault.details() or ''}") from None


__all__ = ["Message", "RpcFault", "call", "csi", "registration"]
