"""A device plugin: a gRPC server on a Unix socket that registers at the kubelet's socket."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]

from sampan.kubelet.devices.plugin import proto
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.registry import proto as registration
from sampan.machinery.proto import Message

BOAT = "example.com/boat"


def server_of(*services: tuple[Any, str, dict[str, Any]]) -> grpc.aio.Server:
    """Return a server of services, each with its schema, name and handlers; async generators are streams."""
    server = grpc.aio.server()
    for schema, service, handlers in services:
        methods = {}
        for name, handle in handlers.items():
            method = schema.method(service, name)
            kind = "unary_stream" if name in ("ListAndWatch", "NodeWatchResources") else "unary_unary"
            methods[name] = getattr(grpc, f"{kind}_rpc_method_handler")(
                handle,
                request_deserializer=method.request.FromString,
                response_serializer=lambda message: (
                    message if isinstance(message, bytes) else message.SerializeToString()
                ),
            )
            path = method.path.split("/")[1]
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(path, methods),))
    return server


@dataclass
class BoatPlugin:
    directory: Path
    """The directory of the kubelet's socket."""
    devices: dict[str, str] = field(default_factory=lambda: {"one": "Healthy", "two": "Healthy"})
    container_response: dict[str, Any] = field(default_factory=dict)
    """Fields of the allocation response besides the environment variable BOATS."""
    fault: str = ""
    pre_starts: bool = False
    prefers: tuple[str, ...] = ()
    resource: str = BOAT
    calls: list[tuple[str, Message]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _sends_invalid_data: bool = False

    @asynccontextmanager
    async def listen(self, registry: Path | None = None) -> AsyncIterator[None]:
        """Listen in the directory of the kubelet's socket, or in a plugin registry directory."""
        directory = registry or self.directory
        os.makedirs(directory, exist_ok=True)
        names = ("GetDevicePluginOptions", "Allocate", "PreStartContainer", "GetPreferredAllocation")
        handlers: dict[str, Any] = {name: self._handler(name) for name in names}
        methods = {"GetInfo": self._info, "NotifyRegistrationStatus": self._notify_registration_status}
        server = server_of(
            (proto(), "DevicePlugin", handlers | {"ListAndWatch": self._watch}),
            (registration(), "Registration", methods),
        )
        socket = directory / "boat.sock"
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)
            socket.unlink(missing_ok=True)

    async def register(self, **other: str) -> None:
        registration = {"version": "v1beta1", "endpoint": "boat.sock", "resource_name": self.resource, **other}
        request = proto().RegisterRequest(**registration)
        await calls.call(
            str(self.directory / "kubelet.sock"), proto(), "Registration", "Register", request, timeout_s=20
        )

    def change(self, **devices: str) -> None:
        self.devices |= devices
        self._changed.set()

    def send_invalid_data(self) -> None:
        """Send one invalid message instead of the devices."""
        self._sends_invalid_data = True
        self._changed.set()

    def list_requests(self, call: str) -> list[Message]:
        return [request for name, request in self.calls if name == call]

    def _handler(self, name: str) -> Callable[[Message, Any], Awaitable[Message]]:
        async def handle(request: Message, context: Any) -> Message:
            self.calls.append((name, request))
            if self.fault and name in ("Allocate", "PreStartContainer"):
                await context.abort(grpc.StatusCode.INTERNAL, self.fault)
            return getattr(self, f"_{name}")(request)

        return handle

    async def _info(self, request: Message, context: Any) -> Message:
        return registration().PluginInfo(type="DevicePlugin", name=self.resource, supported_versions=["v1beta1"])

    async def _notify_registration_status(self, request: Message, context: Any) -> Message:
        return registration().RegistrationStatusResponse()

    async def _watch(self, request: Message, context: Any) -> AsyncIterator[Message | bytes]:
        while True:
            self._changed.clear()
            if self._sends_invalid_data:
                self._sends_invalid_data = False
                yield b"\xff\xff\xff"
            devices = [proto().Device(ID=name, health=health) for name, health in self.devices.items()]
            yield proto().ListAndWatchResponse(devices=devices)
            await self._changed.wait()

    def _GetDevicePluginOptions(self, request: Message) -> Message:
        return proto().DevicePluginOptions(
            pre_start_required=self.pre_starts, get_preferred_allocation_available=bool(self.prefers)
        )

    def _Allocate(self, request: Message) -> Message:
        [container_request] = request.container_requests
        settings = {"envs": {"BOATS": " ".join(sorted(container_request.devices_ids))}} | self.container_response
        return proto().AllocateResponse(container_responses=[proto().ContainerAllocateResponse(**settings)])

    def _PreStartContainer(self, request: Message) -> Message:
        return proto().PreStartContainerResponse()

    def _GetPreferredAllocation(self, request: Message) -> Message:
        response = proto().ContainerPreferredAllocationResponse(deviceIDs=list(self.prefers))
        return proto().PreferredAllocationResponse(container_responses=[response])


__all__ = ["BOAT", "BoatPlugin", "server_of"]
