"""The device manager tracks devices of plugins and allocates them to containers (`pkg/kubelet/cm/devicemanager`)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from sampan.api import names
from sampan.api.semantics.pods import init_and_main_containers, is_sidecar
from sampan.api.types.core_v1 import Container, Pod, ResourceHealth, ResourceStatus
from sampan.host.clock import Clock
from sampan.kubelet.devices.allocations import (
    NO_NODE,
    DeviceAllocation,
    DeviceAllocations,
    NoDevices,
    check_enough,
    check_health,
    check_unchanged,
    requested_resources,
    resources_from_claim,
    select_devices,
)
from sampan.kubelet.devices.plugin import (
    VERSION,
    DevicePlugin,
    DeviceRunOptions,
    DeviceStatus,
    merge_options,
    options_from_response,
    proto,
)
from sampan.kubelet.plugin_registry import PluginError
from sampan.kubelet.plugin_registry.calls import Message, RpcError
from sampan.kubelet.plugin_registry.socket_server import GrpcService, ServiceError, SocketServer
from sampan.kubelet.pod_status import PodFailure

log = logging.getLogger(__name__)

TYPE = "DevicePlugin"
UNEXPECTED = "UnexpectedAdmissionError"
_DIRECTORY, _SOCKET, _CHECKPOINT = "device-plugins", "kubelet.sock", "kubelet_internal_checkpoint"
_GRACE_S = 300.0
"""How long the devices of a disconnected plugin still count towards the capacity."""


class DeviceManager:
    """Tracks the devices of plugins and allocates them to containers. `run()` must be active for
    plugins to register.
    """

    def __init__(
        self,
        *,
        root: Path,
        clock: Clock,
        on_change: Callable[[], None] = lambda: None,
        look_at: Callable[[str], None] = lambda uid: None,
    ) -> None:
        """`on_change` is called when the devices of the node have changed. `look_at` is called with the UID of each pod
        that has a device whose health has changed.
        """
        self._directory, self._clock = root / _DIRECTORY, clock
        self._on_change, self._look_at = on_change, look_at
        self._plugins: dict[str, DevicePlugin] = {}
        self._devices: dict[str, dict[str, DeviceStatus]] = {}
        """Devices by resource and ID; those of a disconnected plugin are unhealthy."""
        self._disconnected_at: dict[str, float] = {}
        """Monotonic time at which the plugin of a resource disconnected."""
        self._allocations = DeviceAllocations(self._directory / _CHECKPOINT)
        self._locks: dict[str, asyncio.Lock] = {}
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        for resource in self._allocations.read():
            self._devices[resource], self._disconnected_at[resource] = {}, clock.monotonic()

    # -- plugins ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the registration socket. Plugins detect that the socket was created again, and register again."""
        self._remove_sockets()
        service = GrpcService(schema=proto, name="Registration", methods={"Register": self._on_register})
        async with asyncio.TaskGroup() as group:
            self._group = group
            await SocketServer(path=self._directory / _SOCKET, services=[service]).run(self._clock)

    def _remove_sockets(self) -> None:
        """Remove the sockets of plugins that registered with the previous kubelet."""
        for path in self._directory.glob("*"):
            with contextlib.suppress(OSError):
                if path.is_socket():
                    path.unlink()

    async def _on_register(self, request: Message) -> Message:
        name, version = request.resource_name, request.version
        if version != VERSION:
            message = (
                f'requested API version "{version}" is not supported by kubelet. Supported version is ["{VERSION}"]'
            )
            raise ServiceError(message)
        if not names.is_extended_resource(name):
            raise ServiceError(f'the ResourceName "{name}" is invalid')
        try:
            await self._connect(DevicePlugin(name, str(self._directory / request.endpoint)))
        except RpcError as error:
            raise ServiceError(str(error)) from None
        return proto().Empty()

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if VERSION not in versions:
            message = f'manager does not support versions: {list(versions)}. Supported version is ["{VERSION}"]'
            raise PluginError(message)
        if not names.is_extended_resource(name):
            raise PluginError(f"invalid name of device plugin socket: the ResourceName {name!r} is invalid")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        try:
            await self._connect(DevicePlugin(name, endpoint))
        except RpcError as error:
            raise PluginError(str(error)) from None

    async def deregister(self, name: str, endpoint: str) -> None:
        plugin = self._plugins.get(name)
        if plugin is not None and plugin.socket == endpoint:
            self._stop_listening(name)
            self._disconnect(plugin)

    async def _connect(self, plugin: DevicePlugin) -> None:
        if self._group is None:
            raise RpcError("the kubelet has not started its plugin manager yet")
        await plugin.connect()
        self._stop_listening(plugin.resource)
        self._plugins[plugin.resource] = plugin
        self._disconnected_at.pop(plugin.resource, None)
        self._listening[plugin.resource] = self._group.create_task(self._listen(plugin))
        log.info("registered device plugin for %s", plugin.resource)

    def _stop_listening(self, resource: str) -> None:
        task = self._listening.pop(resource, None)
        if task is not None:
            task.cancel()

    async def _listen(self, plugin: DevicePlugin) -> None:
        try:
            async for devices in plugin.devices():
                self._update_devices(plugin.resource, devices)
        except RpcError as error:
            log.info("device plugin for %s failed: %s", plugin.resource, error)
        self._disconnect(plugin)

    def _disconnect(self, plugin: DevicePlugin) -> None:
        """Mark the devices of the plugin as unhealthy, because their actual state is unknown."""
        resource = plugin.resource
        if self._plugins.get(resource) is not plugin:
            return
        del self._plugins[resource]
        self._disconnected_at[resource] = self._clock.monotonic()
        devices = self._devices.get(resource, {})
        self._update_devices(resource, {name: DeviceStatus(False, device.nodes) for name, device in devices.items()})

    def _update_devices(self, resource: str, devices: dict[str, DeviceStatus]) -> None:
        before = self._devices.get(resource, {})
        changed = {name for name in devices if before.get(name) != devices[name]}
        self._devices[resource] = devices
        self._write()
        self._on_change()
        for uid in sorted(self._allocations.users(resource, changed)):
            self._look_at(uid)

    # -- capacity and health -----------------------------------------------------------------------------------------

    def capacity(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return capacity and allocatable number of each resource; 0 if its plugin has been gone for too long."""
        capacity, allocatable = {}, {}
        for resource, devices in self._devices.items():
            is_past = self._clock.monotonic() - self._disconnected_at.get(resource, self._clock.monotonic()) > _GRACE_S
            capacity[resource] = "0" if is_past else str(len(devices))
            allocatable[resource] = "0" if is_past else str(len(self._healthy(resource)))
        return capacity, allocatable

    def devices(self) -> dict[str, dict[str, DeviceStatus]]:
        """Return the healthy devices by resource."""
        return {
            resource: {name: device for name, device in devices.items() if device.is_healthy}
            for resource, devices in self._devices.items()
        }

    def list_allocations(self, pod: Pod, container: str) -> list[DeviceAllocation]:
        return self._allocations.list_container_allocations(pod.metadata.uid, container)

    def statuses(self, pod: Pod, container: str) -> list[ResourceStatus]:
        """Return the health of the container's devices."""
        return [
            ResourceStatus(
                name=allocation.resource,
                resources=[
                    ResourceHealth(resourceID=device, health=self._health(allocation.resource, device))
                    for device in sorted(allocation.devices)
                ],
            )
            for allocation in self.list_allocations(pod, container)
        ]

    def _health(self, resource: str, device: str) -> str:
        state = self._devices.get(resource, {}).get(device)
        return "Healthy" if state is None or state.is_healthy else "Unhealthy"

    def _healthy(self, resource: str) -> set[str]:
        return {name for name, device in self._devices.get(resource, {}).items() if device.is_healthy}

    # -- pods --------------------------------------------------------------------------------------------------------

    async def admit(self, pod: Pod, *, is_running: bool) -> PodFailure | None:
        """Allocate the devices of the pod's containers. Return the rejection if that fails. Containers of a running pod
        keep the devices that they have, whatever their health.
        """
        reusable: dict[str, set[str]] = {}
        try:
            for container in init_and_main_containers(pod.spec):
                await self._allocate(pod, container, reusable, is_running=is_running)
        except (NoDevices, RpcError) as error:
            self.forget([pod.metadata.uid])
            return PodFailure(reason=UNEXPECTED, message=f"Allocate failed due to {error}, which is unexpected")
        return None

    async def _allocate(
        self, pod: Pod, container: Container, reusable: dict[str, set[str]], *, is_running: bool
    ) -> None:
        """Allocate devices to the container. `reusable` are devices of the pod's earlier init containers, which will
        have terminated; they are used first.
        """
        uid, is_init = pod.metadata.uid, container in pod.spec.initContainers and not is_sidecar(container)
        claimed = resources_from_claim(pod, container.name)
        for resource, count in requested_resources(container).items():
            if count <= 0 or resource in claimed or not self._is_known(resource):
                continue
            free = reusable.setdefault(resource, set())
            async with self._locks.setdefault(resource, asyncio.Lock()):
                await self._allocate_resource(uid, container.name, resource, count, free, is_running=is_running)
            allocation = self._allocations.get(uid, container.name, resource)
            if allocation is not None:
                reusable[resource] = free | allocation.devices if is_init else free - allocation.devices

    async def _allocate_resource(
        self, uid: str, container: str, resource: str, count: int, reusable: Collection[str], *, is_running: bool
    ) -> None:
        allocation = self._allocations.get(uid, container, resource)
        allocated = allocation.devices if allocation is not None else set()
        check_unchanged(uid, container, resource, allocated, count)
        if is_running:
            return
        healthy = self._healthy(resource)
        check_health(resource, healthy if resource in self._devices else None, allocated)
        if allocation is not None:
            return
        reused = set(sorted(set(reusable) & healthy)[:count])
        free = healthy - self._allocations.list_allocated_devices(resource)
        check_enough(resource, count - len(reused), free)
        plugin = self._plugins.get(resource)
        if plugin is None:
            raise NoDevices(f"unknown Device Plugin {resource}")
        asks_plugin = plugin.prefers and len(reused) < count
        preferred = await plugin.get_preferred_allocation(free, reused, count) if asks_plugin else []
        devices = select_devices(count, reused, preferred, free)
        response = await plugin.allocate(devices)
        self._put(uid, container, resource, devices, response)

    def _put(self, uid: str, container: str, resource: str, devices: Sequence[str], response: Message) -> None:
        nodes: dict[str, list[str]] = {}
        for device in devices:
            state = self._devices.get(resource, {}).get(device)
            for node in state.nodes if state is not None else (NO_NODE,):
                nodes.setdefault(str(node), []).append(device)
        text = base64.b64encode(response.SerializeToString()).decode()
        self._allocations.put(
            DeviceAllocation(uid=uid, container=container, resource=resource, nodes=nodes, response=text)
        )
        self._write()

    def _is_known(self, resource: str) -> bool:
        return resource in self._devices or bool(self._allocations.list_allocated_devices(resource))

    async def run_options(self, pod: Pod, container: str) -> DeviceRunOptions:
        """Return the configuration of the container's devices. Raise RpcError if its plugin has to be called before
        the start and fails.
        """
        allocations = self.list_allocations(pod, container)
        for allocation in allocations:
            plugin = self._plugins.get(allocation.resource)
            if plugin is not None and plugin.pre_starts:
                await plugin.pre_start(allocation.devices)
        response = proto().ContainerAllocateResponse if allocations else None
        return merge_options(
            options_from_response(response.FromString(allocation.message))
            for allocation in allocations
            if response is not None
        )

    def forget(self, uids: Iterable[str]) -> None:
        """Release the devices of pods none of whose containers runs any more."""
        if self._allocations.forget(uids):
            self._write()

    def keep_only(self, uids: Collection[str]) -> None:
        """Release the devices of all pods but those with the UIDs `uids`."""
        self.forget(self._allocations.pods() - set(uids))

    def _write(self) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._allocations.write({resource: self._healthy(resource) for resource in self._devices})
        except OSError as error:
            log.error("cannot save the device checkpoint: %s", error)
