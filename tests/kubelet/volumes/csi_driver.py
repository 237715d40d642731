"""A CSI driver: a gRPC server on a Unix socket that keeps each volume in a directory and bind-mounts it on request."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]

from sampan.kubelet.plugin_registry.registry import proto
from sampan.kubelet.volumes.csi.client import csi
from sampan.machinery.proto import Message, ProtoSchema
from sampan.runtimes import kernel

STAGE, STATS, EXPAND, MOUNT_GROUP = 1, 2, 3, 6
NAME = "folders.example.com"


@dataclass
class DirectoryDriver:
    data: Path
    abilities: tuple[int, ...] = (STAGE,)
    topology: dict[str, str] = field(default_factory=dict)
    most: int = 7
    calls: list[tuple[str, Message]] = field(default_factory=list)
    claim_errors: dict[str, str] = field(default_factory=dict)
    """Messages of the calls that fail."""
    code: str = "INTERNAL"
    """The gRPC status code of the calls that fail."""
    registered: asyncio.Event = field(default_factory=asyncio.Event)
    status: Any = None

    @asynccontextmanager
    async def serving(self, registry: Path) -> AsyncIterator[None]:
        """Serve the node and the registration service on one socket."""
        server = grpc.aio.server()
        os.makedirs(registry, exist_ok=True)
        socket = registry / "d.sock"  # a socket's path must be short
        for schema, service in ((csi(), "Node"), (proto(), "Registration")):
            server.add_generic_rpc_handlers((self._handlers(schema, service),))
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)
            socket.unlink(missing_ok=True)

    def list_requests(self, call: str) -> list[Message]:
        return [request for name, request in self.calls if name == call]

    def _handlers(self, schema: ProtoSchema, service: str) -> grpc.GenericRpcHandler:
        names = [name for name in dir(self) if name[:1].isupper()]
        handlers = {}
        for name in names:
            try:
                method = schema.method(service, name)
            except KeyError:
                continue
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._handler(name),
                request_deserializer=method.request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            path = method.path.split("/")[1]
        return grpc.method_handlers_generic_handler(path, handlers)

    def _handler(self, name: str) -> Callable[[Message, Any], Awaitable[Message]]:
        async def handle(request: Message, context: Any) -> Message:
            self.calls.append((name, request))
            if name in self.claim_errors:
                await context.abort(grpc.StatusCode[self.code], self.claim_errors[name])
            return getattr(self, name)(request)

        return handle

    # -- registration ------------------------------------------------------------------------------------------------

    def GetInfo(self, request: Message) -> Message:
        return proto().PluginInfo(type="CSIPlugin", name=NAME, supported_versions=["1.0.0"])

    def NotifyRegistrationStatus(self, request: Message) -> Message:
        self.status = request
        self.registered.set()
        return proto().RegistrationStatusResponse()

    # -- the node ----------------------------------------------------------------------------------------------------

    def NodeGetInfo(self, request: Message) -> Message:
        topology = csi().Topology(segments=self.topology)
        return csi().NodeGetInfoResponse(
            node_id="node-of-driver", max_volumes_per_node=self.most, accessible_topology=topology
        )

    def NodeGetCapabilities(self, request: Message) -> Message:
        schema = csi()
        capabilities = [schema.NodeServiceCapability(rpc=schema.NodeRpc(type=ability)) for ability in self.abilities]
        return schema.NodeGetCapabilitiesResponse(capabilities=capabilities)

    def NodeStageVolume(self, request: Message) -> Message:
        (self.data / request.volume_id).mkdir(parents=True, exist_ok=True)
        self._bind(self.data / request.volume_id, Path(request.staging_target_path))
        return csi().NodeStageVolumeResponse()

    def NodeUnstageVolume(self, request: Message) -> Message:
        kernel.unmount(request.staging_target_path)
        return csi().NodeUnstageVolumeResponse()

    def NodePublishVolume(self, request: Message) -> Message:
        target = Path(request.target_path)
        if request.volume_capability.HasField("block"):
            target.touch()
            self._bind(Path("/dev/null"), target)
            return csi().NodePublishVolumeResponse()
        source = Path(request.staging_target_path or self.data / request.volume_id)
        source.mkdir(parents=True, exist_ok=True)
        target.mkdir(exist_ok=True)
        self._bind(source, target)
        return csi().NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request: Message) -> Message:
        kernel.unmount(request.target_path)
        if os.path.isdir(request.target_path):
            os.rmdir(request.target_path)
        elif os.path.exists(request.target_path):
            os.unlink(request.target_path)
        return csi().NodeUnpublishVolumeResponse()

    def _bind(self, source: Path, target: Path) -> None:
        if target not in kernel.mounts_below(target):
            kernel.mount(source, target, flags=kernel.MS_BIND)


@dataclass
class GrowingDriver(DirectoryDriver):
    """A driver whose volumes are tmpfs mounts that can be expanded."""

    abilities: tuple[int, ...] = (STAGE, STATS, EXPAND)
    sizes: dict[str, int] = field(default_factory=dict)

    def NodeStageVolume(self, request: Message) -> Message:
        target = Path(request.staging_target_path)
        if target not in kernel.mounts_below(target):
            size = self.sizes.setdefault(request.volume_id, 1 << 20)
            kernel.mount("tmpfs", target, "tmpfs", 0, f"size={size}")
        return csi().NodeStageVolumeResponse()

    def NodeExpandVolume(self, request: Message) -> Message:
        size = self.sizes[request.volume_id] = request.capacity_range.required_bytes
        kernel.mount("tmpfs", request.staging_target_path, "tmpfs", kernel.MS_REMOUNT, f"size={size}")
        return csi().NodeExpandVolumeResponse(capacity_bytes=size)

    def NodeGetVolumeStats(self, request: Message) -> Message:
        filesystem = os.statvfs(request.volume_path)
        total, left = filesystem.f_blocks * filesystem.f_frsize, filesystem.f_bavail * filesystem.f_frsize
        schema = csi()
        usage = schema.VolumeUsage(unit=1, total=total, available=left, used=total - left)
        return schema.NodeGetVolumeStatsResponse(usage=[usage])
