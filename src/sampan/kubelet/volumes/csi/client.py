"""Client of the node service of a CSI driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.csi import wire
from sampan.kubelet.volumes.csi.wire import Message

STAGE, STATS, EXPAND, MULTI_WRITER, MOUNT_GROUP = 1, 2, 3, 5, 6
_MODES = {
    "ReadWriteOnce": "SINGLE_NODE_WRITER",
    "ReadOnlyMany": "MULTI_NODE_READER_ONLY",
    "ReadWriteMany": "MULTI_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_WRITER",
}
_MODES_OF_MANY = {
    **_MODES,
    "ReadWriteOnce": "SINGLE_NODE_MULTI_WRITER",
    "ReadWriteOncePod": "SINGLE_NODE_SINGLE_WRITER",
}
"""Access modes for drivers that distinguish single from multiple writers on a node."""


class NodeInfo(NamedTuple):
    node_id: str
    most_volumes: int
    topology: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A volume with the parameters of its use."""

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


class Driver:
    """A registered driver."""

    def __init__(self, name: str, socket: str) -> None:
        self.name, self.socket = name, socket
        self._abilities: frozenset[int] | None = None

    async def can(self, ability: int) -> bool:
        if self._abilities is None:
            answer = await self._call("NodeGetCapabilities", wire.csi().NodeGetCapabilitiesRequest())
            self._abilities = frozenset(capability.rpc.type for capability in answer.capabilities)
        return ability in self._abilities

    async def info(self) -> NodeInfo:
        answer = await self._call("NodeGetInfo", wire.csi().NodeGetInfoRequest())
        return NodeInfo(answer.node_id, answer.max_volumes_per_node, dict(answer.accessible_topology.segments))

    async def stage(self, use: Use, staging: Path) -> None:
        request = wire.csi().NodeStageVolumeRequest(
            volume_id=use.handle,
            publish_context=dict(use.publish_context),
            staging_target_path=str(staging),
            volume_capability=await self._capability(use),
            secrets=dict(use.secrets),
            volume_context=dict(use.volume_context),
        )
        await self._call("NodeStageVolume", request)

    async def unstage(self, handle: str, staging: Path) -> None:
        request = wire.csi().NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=str(staging))
        await self._call("NodeUnstageVolume", request)

    async def publish(self, use: Use, staging: Path | None, target: Path, *, is_read_only: bool) -> None:
        request = wire.csi().NodePublishVolumeRequest(
            volume_id=use.handle,
            publish_context=dict(use.publish_context),
            staging_target_path=str(staging) if staging is not None else "",
            target_path=str(target),
            volume_capability=await self._capability(use),
            readonly=is_read_only,
            secrets=dict(use.secrets),
            volume_context=dict(use.volume_context),
        )
        await self._call("NodePublishVolume", request)

    async def unpublish(self, handle: str, target: Path) -> None:
        request = wire.csi().NodeUnpublishVolumeRequest(volume_id=handle, target_path=str(target))
        await self._call("NodeUnpublishVolume", request)

    async def expand(self, use: Use, staging: Path | None, path: Path, size: int) -> None:
        schema = wire.csi()
        request = schema.NodeExpandVolumeRequest(
            volume_id=use.handle,
            volume_path=str(path),
            capacity_range=schema.CapacityRange(required_bytes=size),
            staging_target_path=str(staging) if staging is not None else "",
            volume_capability=await self._capability(use),
            secrets=dict(use.secrets),
        )
        await self._call("NodeExpandVolume", request)

    async def stats(self, handle: str, path: Path) -> Message:
        request = wire.csi().NodeGetVolumeStatsRequest(volume_id=handle, volume_path=str(path))
        return await self._call("NodeGetVolumeStats", request)

    async def _capability(self, use: Use) -> Message:
        schema = wire.csi()
        modes = _MODES_OF_MANY if await self.can(MULTI_WRITER) else _MODES
        if use.mode not in modes:
            raise VolumeFault(f"unknown access mode {use.mode}")
        mode = schema.AccessMode(mode=getattr(schema.AccessMode, modes[use.mode]))
        if use.is_block:
            return schema.VolumeCapability(block=schema.BlockVolume(), access_mode=mode)
        group = str(use.group) if use.group is not None else ""
        mount = schema.MountVolume(fs_type=use.kind, mount_flags=list(use.options), volume_mount_group=group)
        return schema.VolumeCapability(mount=mount, access_mode=mode)

    async def _call(self, name: str, request: Message) -> Message:
        return await wire.call(self.socket, name, request)


class Drivers:
    """Registered drivers by name."""

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._drivers

    def names(self) -> list[str]:
        return sorted(self._drivers)

    def add(self, driver: Driver) -> None:
        self._drivers[driver.name] = driver

    def remove(self, name: str) -> None:
        self._drivers.pop(name, None)

    def get(self, name: str, doing: str) -> Driver:
        """Return the driver. `doing` is the operation for the message. Raise VolumeFault if it is not registered."""
        driver = self._drivers.get(name)
        if driver is None:
            why = f"driver name {name} not found in the list of registered CSI drivers"
            raise VolumeFault(f"kubernetes.io/csi: {doing}: {why}")
        return driver
