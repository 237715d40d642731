"""Allocations of devices to containers with the responses of the plugins, and the pure rules by which devices are
selected.

The allocations are checkpointed on disk, so that a restarted kubelet does not allocate a device twice.
"""

from __future__ import annotations

import base64
import logging
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from sampan.api.types.core_v1 import Container, Pod
from sampan.api.values import quantity
from sampan.host.durable_files import write_durably

log = logging.getLogger(__name__)

NO_NODE = -1
"""NUMA node of a device without affinity."""


class DeviceAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one resource that a container has."""

    uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    nodes: Mapping[str, list[str]] = msgspec.field(name="DeviceIDs")
    """Device IDs by NUMA node."""
    response: str = msgspec.field(name="AllocResp")
    """Serialized response of the plugin, in base64."""

    @property
    def devices(self) -> set[str]:
        return {device for devices in self.nodes.values() for device in devices}

    @property
    def message(self) -> bytes:
        return base64.b64decode(self.response)


class _CheckpointData(msgspec.Struct, kw_only=True):
    PodDeviceEntries: list[DeviceAllocation]
    RegisteredDevices: dict[str, list[str]]


class _CheckpointFile(msgspec.Struct, kw_only=True):
    Data: _CheckpointData
    Checksum: int


class DeviceAllocations:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._all: dict[tuple[str, str, str], DeviceAllocation] = {}

    def read(self) -> list[str]:
        """Read the checkpoint. Return the resources that were registered when it was written."""
        try:
            checkpoint = msgspec.json.decode(self._file.read_bytes(), type=_CheckpointFile)
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            log.error("cannot read device checkpoint %s: %s; device allocations may be lost", self._file, error)
            return []
        if _checksum(checkpoint.Data) != checkpoint.Checksum:
            log.error("device checkpoint %s is corrupt; device allocations may be lost", self._file)
            return []
        self._all = {
            (allocation.uid, allocation.container, allocation.resource): allocation
            for allocation in checkpoint.Data.PodDeviceEntries
        }
        return sorted(checkpoint.Data.RegisteredDevices)

    def write(self, registered: Mapping[str, Collection[str]]) -> None:
        """Write the checkpoint. Raise OSError if that fails."""
        devices = {resource: sorted(names) for resource, names in registered.items()}
        data = _CheckpointData(PodDeviceEntries=list(self._all.values()), RegisteredDevices=devices)
        checkpoint = _CheckpointFile(Data=data, Checksum=_checksum(data))
        write_durably(self._file, msgspec.json.encode(checkpoint), mode=0o600)

    def put(self, allocation: DeviceAllocation) -> None:
        self._all[allocation.uid, allocation.container, allocation.resource] = allocation

    def get(self, uid: str, container: str, resource: str) -> DeviceAllocation | None:
        return self._all.get((uid, container, resource))

    def list_container_allocations(self, uid: str, container: str) -> list[DeviceAllocation]:
        return [
            allocation
            for allocation in self._all.values()
            if (allocation.uid, allocation.container) == (uid, container)
        ]

    def list_pod_allocations(self, uid: str) -> list[DeviceAllocation]:
        return [allocation for allocation in self._all.values() if allocation.uid == uid]

    def list_allocated_devices(self, resource: str) -> set[str]:
        return {
            device
            for allocation in self._all.values()
            if allocation.resource == resource
            for device in allocation.devices
        }

    def users(self, resource: str, devices: Collection[str]) -> set[str]:
        """Return the UIDs of the pods that have any of the devices."""
        return {
            allocation.uid
            for allocation in self._all.values()
            if allocation.resource == resource and allocation.devices & set(devices)
        }

    def pods(self) -> set[str]:
        return {allocation.uid for allocation in self._all.values()}

    def forget(self, uids: Iterable[str]) -> bool:
        """Drop the allocations of the pods. Return whether there were any."""
        removed = set(uids)
        remaining = {key: allocation for key, allocation in self._all.items() if allocation.uid not in removed}
        is_changed, self._all = len(remaining) != len(self._all), remaining
        return is_changed


def _checksum(data: _CheckpointData) -> int:
    return zlib.crc32(msgspec.json.encode(data))


class NoDevices(Exception):
    """The devices cannot be allocated; the message says why."""


def check_health(resource: str, healthy: Collection[str] | None, allocated: Collection[str]) -> None:
    """Raise NoDevices unless the resource has healthy devices and all devices that the container already has
    (`allocated`) are among them. `healthy` is None if no plugin has ever registered the resource."""
    if healthy is None:
        raise NoDevices(f"cannot allocate unregistered device {resource}")
    if not healthy:
        raise NoDevices(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not set(allocated) <= set(healthy):
        message = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"
        raise NoDevices(f"{message} {resource}")


def check_unchanged(uid: str, container: str, resource: str, allocated: Collection[str], count: int) -> None:
    if allocated and len(allocated) != count:
        message = f'pod "{uid}" container "{container}" changed request for resource "{resource}"'
        raise NoDevices(f"{message} from {len(allocated)} to {count}")


def check_enough(resource: str, count: int, free: Collection[str]) -> None:
    if len(free) < count:
        message = f"requested number of devices unavailable for {resource}. Requested: {count}, Available: {len(free)}"
        raise NoDevices(message)


def select_devices(count: int, reusable: Collection[str], preferred: Sequence[str], free: Collection[str]) -> list[str]:
    """Return `count` devices for a container: those of earlier init containers of the pod (`reusable`) first, then
    those that the plugin prefers, then other free devices.
    """
    ordered = [*sorted(reusable), *(device for device in preferred if device in free), *sorted(free)]
    return list(dict.fromkeys(ordered))[:count]


def requested_resources(container: Container) -> dict[str, int]:
    """Return the requested number of each resource. Limits and requests of devices are equal."""
    return {name: int(quantity.parse(text).value()) for name, text in container.resources.limits.items()}


def resources_from_claim(pod: Pod, container: str) -> set[str]:
    """Return the resources that a resource claim provides to the container instead of a device plugin."""
    status = pod.status.extendedResourceClaimStatus
    mappings = status.requestMappings if status is not None else ()
    return {mapping.resourceName for mapping in mappings or () if mapping.containerName == container}
