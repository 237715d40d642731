"""Connects plugins on the node with the managers that use them: CSI volumes, device plugins, dynamic resources."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import msgspec

from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Container, ContainerStatus, Pod, PodStatus
from sampan.kubelet.devices import DeviceManager, DeviceRunOptions, merge_options
from sampan.kubelet.devices.dra import ClaimNotPrepared, DraManager
from sampan.kubelet.devices.pod_resources import PodResources
from sampan.kubelet.plugin_registry import PluginRegistry
from sampan.kubelet.plugin_registry.calls import RpcError
from sampan.kubelet.pod_status import PodFailure
from sampan.runtimes.contract import RuntimeFailure

NOT_PREPARED, NOT_GIVEN_BACK = "FailedPrepareDraManager", "FailedUnprepareDraManager"
_CREATE = "CreateContainerConfigError"


class NodePlugins:
    def __init__(
        self, *, registry: PluginRegistry, devices: DeviceManager, dynamic: DraManager, resources: PodResources
    ) -> None:
        self._registry, self._devices, self._dynamic, self._resources = registry, devices, dynamic, resources

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for work in (self._devices.run(), self._dynamic.run(), self._resources.run(), self._registry.run()):
                group.create_task(work)

    def capacity(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return capacity and allocatable amount of each device resource."""
        return self._devices.capacity()

    async def admit(self, pod: Pod, *, is_running: bool) -> PodFailure | None:
        """Allocate the devices that the pod requests. Return the rejection if that fails."""
        return await self._devices.admit(pod, is_running=is_running)

    async def prepare(self, pod: Pod) -> None:
        """Prepare the resource claims of the pod. Raise RuntimeFailure if that fails."""
        try:
            await self._dynamic.prepare(pod)
        except ClaimNotPrepared as error:
            raise RuntimeFailure(NOT_PREPARED, f"Failed to prepare dynamic resources: {error}") from None

    async def run_options(self, pod: Pod, container: AnyContainer) -> DeviceRunOptions:
        """Return the devices, mounts and variables that the container's devices and claims add to its configuration.
        Raise RuntimeFailure on errors.
        """
        try:
            parts = [await self._devices.run_options(pod, container.name)]
            if isinstance(container, Container):
                parts.append(self._dynamic.run_options(pod, container))
        except (RpcError, ClaimNotPrepared) as error:
            raise RuntimeFailure(_CREATE, str(error)) from None
        return merge_options(parts)

    async def release(self, uid: str) -> None:
        """Release devices and claims of a pod none of whose containers runs any more."""
        self._devices.forget([uid])
        try:
            await self._dynamic.unprepare(uid)
        except ClaimNotPrepared as error:
            raise RuntimeFailure(NOT_GIVEN_BACK, str(error)) from None

    async def keep_only(self, uids: Collection[str]) -> None:
        """Release devices and claims of all pods but those with the UIDs `uids`."""
        self._devices.keep_only(uids)
        await self._dynamic.keep_only(uids)

    def extend_status(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status extended by the health of the containers' devices."""
        containers = {container.name: container for container in pod.spec.containers or ()}
        statuses = [
            self._extend_container_status(pod, containers.get(container.name), container)
            for container in status.containerStatuses
        ]
        is_same = all(old is new for old, new in zip(status.containerStatuses, statuses, strict=True))
        return status if is_same else msgspec.structs.replace(status, containerStatuses=statuses)

    def _extend_container_status(
        self, pod: Pod, container: Container | None, status: ContainerStatus
    ) -> ContainerStatus:
        if container is None:
            return status
        statuses = [*self._devices.statuses(pod, container.name), *self._dynamic.statuses(pod, container)]
        if statuses == status.allocatedResourcesStatus:
            return status
        return msgspec.structs.replace(status, allocatedResourcesStatus=statuses)
