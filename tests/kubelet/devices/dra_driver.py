"""A DRA driver: a gRPC server on a Unix socket in the kubelet's plugin registry."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]

from sampan.kubelet.devices.dra.drivers import SERVICES, health_proto, proto
from sampan.kubelet.plugin_registry.registry import proto as registration
from sampan.machinery.proto import Message
from tests.kubelet.devices.device_plugin import server_of

NAME = "boats.example.com"


@dataclass
class BoatDriver:
    """A driver that gives every claim the device `boat`, for the requests in `requests`."""

    requests: tuple[str, ...] = ("one",)
    cdi_name: str = "example.com/boat=boat"
    versions: tuple[str, ...] = SERVICES
    fault: str = ""
    health: list[tuple[str, int, str]] | None = None
    """Name, health and message of each device. With None, the driver has no health service."""
    calls: list[tuple[str, list[str]]] = field(default_factory=list)
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    status: Any = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def listen(self, registry: Path) -> AsyncIterator[None]:
        os.makedirs(registry, exist_ok=True)
        socket = registry / "b.sock"
        own = {"NodePrepareResources": self._prepare, "NodeUnprepareResources": self._unprepare}
        services: list[tuple[Any, str, dict[str, Any]]] = [
            (
                registration(),
                "Registration",
                {"GetInfo": self._info, "NotifyRegistrationStatus": self._notify_registration_status},
            ),
            *((proto(version), "DRAPlugin", own) for version in self.versions if version in SERVICES),
        ]
        if self.health is not None:
            services.append((health_proto(), "DRAResourceHealth", {"NodeWatchResources": self._watch}))
        server = server_of(*services)
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)
            socket.unlink(missing_ok=True)

    async def _info(self, request: Message, context: Any) -> Message:
        return registration().PluginInfo(type="DRAPlugin", name=NAME, supported_versions=list(self.versions))

    async def _notify_registration_status(self, request: Message, context: Any) -> Message:
        self.status = request
        self.registered.set()
        return registration().RegistrationStatusResponse()

    async def _prepare(self, request: Message, context: Any) -> Message:
        schema = proto(self._version)
        self.calls.append(("prepare", [claim.name for claim in request.claims]))
        if self.fault == "rpc":
            await context.abort(grpc.StatusCode.INTERNAL, "no boats")
        device = schema.Device(
            request_names=list(self.requests),
            pool_name="harbour",
            device_name="boat",
            cdi_device_ids=[self.cdi_name],
        )
        response = schema.NodePrepareResourceResponse(devices=[] if self.fault else [device], error=self.fault)
        return schema.NodePrepareResourcesResponse(claims={claim.uid: response for claim in request.claims})

    async def _unprepare(self, request: Message, context: Any) -> Message:
        schema = proto(self._version)
        self.calls.append(("unprepare", [claim.name for claim in request.claims]))
        response = schema.NodeUnprepareResourceResponse(error=self.fault)
        return schema.NodeUnprepareResourcesResponse(claims={claim.uid: response for claim in request.claims})

    @property
    def _version(self) -> str:
        return next(version for version in self.versions if version in SERVICES)

    async def _watch(self, request: Message, context: Any) -> AsyncIterator[Message]:
        schema = health_proto()
        while True:
            self.changed.clear()
            devices = [
                schema.DeviceHealth(
                    device=schema.DeviceIdentifier(pool_name="harbour", device_name=name),
                    health=health,
                    message=message,
                )
                for name, health, message in self.health or ()
            ]
            yield schema.NodeWatchResourcesResponse(devices=devices)
            await self.changed.wait()
