"""Client of a device plugin (API `v1beta1`), and the container configuration that results from allocated devices
(`DeviceRunContainerOptions` in `pkg/kubelet/cm/devicemanager`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sampan.kubelet.devices.allocations import NO_NODE
from sampan.kubelet.plugin_registry import calls
from sampan.kubelet.plugin_registry.calls import Message
from sampan.runtimes.config import Device, Mount

if TYPE_CHECKING:
    from sampan.machinery.proto import ProtoSchema

VERSION = "v1beta1"
HEALTHY = "Healthy"
_PRE_START_S = 30.0


def proto() -> ProtoSchema:
    return calls.read_schema(Path(__file__).parent / "device_plugin.proto")


class DeviceStatus(NamedTuple):
    """A device as last reported by its plugin."""

    is_healthy: bool
    nodes: Sequence[int]


class DevicePlugin:
    """A client of one device plugin. Methods raise RpcError if the plugin does not respond or returns an error."""

    def __init__(self, resource: str, socket: str) -> None:
        self.resource, self.socket = resource, socket
        self.pre_starts = self.prefers = False

    async def connect(self) -> None:
        """Read the options of the plugin."""
        options = await self._call("GetDevicePluginOptions", proto().Empty())
        self.pre_starts = options.pre_start_required
        self.prefers = options.get_preferred_allocation_available

    async def devices(self) -> AsyncIterator[dict[str, DeviceStatus]]:
        """Yield all devices of the plugin each time that one of them changes."""
        schema = proto()
        async for response in calls.stream(self.socket, schema, "DevicePlugin", "ListAndWatch", schema.Empty()):
            yield {device.ID: DeviceStatus(device.health == HEALTHY, _nodes(device)) for device in response.devices}

    async def allocate(self, devices: Sequence[str]) -> Message:
        """Allocate the devices. Return the configuration for the container."""
        schema = proto()
        container_request = schema.ContainerAllocateRequest(devices_ids=list(devices))
        response = await self._call("Allocate", schema.AllocateRequest(container_requests=[container_request]))
        if not response.container_responses:
            raise calls.RpcError("no containers return in allocation response &AllocateResponse{}")
        return response.container_responses[0]

    async def get_preferred_allocation(
        self, free: Collection[str], allocated: Collection[str], count: int
    ) -> list[str]:
        schema = proto()
        container_request = schema.ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted({*free, *allocated}),
            must_include_deviceIDs=sorted(allocated),
            allocation_size=count,
        )
        request = schema.PreferredAllocationRequest(container_requests=[container_request])
        try:
            response = await self._call("GetPreferredAllocation", request)
        except calls.RpcError as error:
            raise calls.RpcError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from None
        return list(response.container_responses[0].deviceIDs) if response.container_responses else []

    async def pre_start(self, devices: Collection[str]) -> None:
        request = proto().PreStartContainerRequest(devices_ids=sorted(devices))
        try:
            await self._call("PreStartContainer", request, timeout_s=_PRE_START_S)
        except calls.RpcError as error:
            raise calls.RpcError(f"device plugin PreStartContainer rpc failed with err: {error}") from None

    async def _call(self, name: str, request: Message, timeout_s: float = 120.0) -> Message:
        return await calls.call(self.socket, proto(), "DevicePlugin", name, request, timeout_s=timeout_s)


def _nodes(device: Message) -> list[int]:
    return [node.ID for node in device.topology.nodes] or [NO_NODE]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRunOptions:
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: Sequence[str] = ()


EMPTY_DEVICE_OPTIONS = DeviceRunOptions()


def merge_options(parts: Iterable[DeviceRunOptions]) -> DeviceRunOptions:
    """Merge the configurations of several resources; where two differ, the first one takes precedence."""
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, Device] = {}
    names: dict[str, None] = {}
    for part in parts:
        env = {**part.env, **env}
        annotations = {**part.annotations, **annotations}
        mounts = {mount.target: mount for mount in part.mounts} | mounts
        devices = {device.path: device for device in part.devices} | devices
        names |= dict.fromkeys(part.cdi_devices)
    return DeviceRunOptions(
        env=env,
        mounts=list(mounts.values()),
        devices=list(devices.values()),
        annotations=annotations,
        cdi_devices=list(names),
    )


def options_from_response(response: Message) -> DeviceRunOptions:
    """Return the configuration from the response of a device plugin."""
    return DeviceRunOptions(
        env=dict(response.envs),
        mounts=[
            Mount(source=Path(item.host_path), target=item.container_path, is_read_only=item.read_only)
            for item in response.mounts
        ],
        devices=[
            Device(host_path=item.host_path, path=item.container_path, permissions=item.permissions)
            for item in response.devices
        ],
        annotations=dict(response.annotations),
        cdi_devices=[item.name for item in response.cdi_devices],
    )
