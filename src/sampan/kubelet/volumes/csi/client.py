"""Client of the node service of a CSI driver (`pkg/volume/csi/csi_client.go`). Errors are raised as
VolumeOperationError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.kubelet.volumes.contract import VolumeOperationError

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

STAGE, STATS, EXPAND, MULTI_WRITER, MOUNT_GROUP = 1, 2, 3, 5, 6
_MODES = {
    "ReadWriteOnce": "SINGLE_NODE_WRITER",
    "ReadOnlyMany": "MULTI_NODE_READER_ONLY",
    "ReadWriteMany": "MULTI_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_WRITER",
}
_MULTI_WRITER_MODES = {
    **_MODES,
    "ReadWriteOnce": "SINGLE_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER",
}
"""Access modes for drivers that distinguish single from multiple writers on a node."""


class CsiRpcError(VolumeOperationError):
    """The error of the driver; `code` is the name of the gRPC status code."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def csi() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "csi.proto")


async def call(socket: str, name: str, request: Message) -> Message:
    """Call the node service. Raise RpcError on errors."""
    try:
        return await calls.call(socket, csi(), "Node", name, request)
    except calls.RpcError as error:
        raise CsiRpcError(str(error), error.code) from None


class NodeInfo(NamedTuple):
    node_id: str
    max_volumes: int
    topology: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """A CSI volume with the parameters of its use by a pod."""

    handle: str
    mode: str = "ReadWriteOnce"
    kind: str = ""
    """File system type."""
    options: Sequence[str] = ()
    group: int | None = None
    is_block: bool = False
    publish_context: Mapping[str, str] = field(default_factory=dict)
    volume_context: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


class CsiDriverClient:
    """A client of one registered CSI driver."""

    def __init__(self, name: str, socket: str) -> None:
        self.name, self.socket = name, socket
        self._capabilities: frozenset[int] | None = None

    async def can(self, capability: int) -> bool:
        if self._capabilities is None:
            response = await self._call("NodeGetCapabilities", csi().NodeGetCapabilitiesRequest())
            self._capabilities = frozenset(entry.rpc.type for entry in response.capabilities)
        return capability in self._capabilities

    async def info(self) -> NodeInfo:
        response = await self._call("NodeGetInfo", csi().NodeGetInfoRequest())
        return NodeInfo(response.node_id, response.max_volumes_per_node, dict(response.accessible_topology.segments))

    async def stage(self, volume: CsiVolume, staging: Path) -> None:
        request = csi().NodeStageVolumeRequest(
            volume_id=volume.handle,
            publish_context=dict(volume.publish_context),
            staging_target_path=str(staging),
            volume_capability=await self._capability(volume),
            secrets=dict(volume.secrets),
            volume_context=dict(volume.volume_context),
        )
        await self._call("NodeStageVolume", request)

    async def unstage(self, handle: str, staging: Path) -> None:
        request = csi().NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=str(staging))
        await self._call("NodeUnstageVolume", request)

    async def publish(self, volume: CsiVolume, staging: Path | None, target: Path, *, is_read_only: bool) -> None:
        request = csi().NodePublishVolumeRequest(
            volume_id=volume.handle,
            publish_context=dict(volume.publish_context),
            staging_target_path=str(staging) if staging is not None else "",
            target_path=str(target),
            volume_capability=await self._capability(volume),
            readonly=is_read_only,
            secrets=dict(volume.secrets),
            volume_context=dict(volume.volume_context),
        )
        await self._call("NodePublishVolume", request)

    async def unpublish(self, handle: str, target: Path) -> None:
        request = csi().NodeUnpublishVolumeRequest(volume_id=handle, target_path=str(target))
        await self._call("NodeUnpublishVolume", request)

    async def expand(self, volume: CsiVolume, staging: Path | None, path: Path, size: int) -> None:
        schema = csi()
        request = schema.NodeExpandVolumeRequest(
            volume_id=volume.handle,
            volume_path=str(path),
            capacity_range=schema.CapacityRange(required_bytes=size),
            staging_target_path=str(staging) if staging is not None else "",
            volume_capability=await self._capability(volume),
            secrets=dict(volume.secrets),
        )
        await self._call("NodeExpandVolume", request)

    async def stats(self, handle: str, path: Path) -> Message:
        request = csi().NodeGetVolumeStatsRequest(volume_id=handle, volume_path=str(path))
        return await self._call("NodeGetVolumeStats", request)

    async def _capability(self, volume: CsiVolume) -> Message:
        schema = csi()
        modes = _MULTI_WRITER_MODES if await self.can(MULTI_WRITER) else _MODES
        if volume.mode not in modes:
            raise VolumeOperationError(f"unknown access mode {volume.mode}")
        mode = schema.AccessMode(mode=getattr(schema.AccessMode, modes[volume.mode]))
        if volume.is_block:
            return schema.VolumeCapability(block=schema.BlockVolume(), access_mode=mode)
        group = str(volume.group) if volume.group is not None else ""
        mount = schema.MountVolume(fs_type=volume.kind, mount_flags=list(volume.options), volume_mount_group=group)
        return schema.VolumeCapability(mount=mount, access_mode=mode)

    async def _call(self, name: str, request: Message) -> Message:
        return await call(self.socket, name, request)


class CsiDrivers:
    """The clients of the registered CSI drivers by driver name."""

    def __init__(self) -> None:
        self._drivers: dict[str, CsiDriverClient] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._drivers

    def names(self) -> list[str]:
        return sorted(self._drivers)

    def add(self, driver: CsiDriverClient) -> None:
        self._drivers[driver.name] = driver

    def remove(self, name: str) -> None:
        self._drivers.pop(name, None)

    def get(self, name: str, operation: str) -> CsiDriverClient:
        """Return the client of the driver. Raise VolumeOperationError if it is not registered; `operation` is the
        operation that the message of the error names.
        """
        driver = self._drivers.get(name)
        if driver is None:
            why = f"driver name {name} not found in the list of registered CSI drivers"
            raise VolumeOperationError(f"kubernetes.io/csi: {operation}: {why}")
        return driver
