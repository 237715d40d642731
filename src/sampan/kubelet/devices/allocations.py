"""Allocations of devices to containers with the responses of the plug-ins, checkpointed on disk so that a restarted
kubelet does not allocate a device twice.
"""

from __future__ import annotations

import base64
import logging
import os
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

NO_NODE = -1
"""NUMA node of a device without affinity."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of one resource that a container has."""

    uid: str = msgspec.field(name="PodUID")
    container: str = msgspec.field(name="ContainerName")
    resource: str = msgspec.field(name="ResourceName")
    nodes: Mapping[str, list[str]] = msgspec.field(name="DeviceIDs")
    """Device IDs by NUMA node."""
    answer: str = msgspec.field(name="AllocResp")
    """Serialized response of the plug-in, in base64."""

    @property
    def devices(self) -> set[str]:
        return {device for devices in self.nodes.values() for device in devices}

    @property
    def message(self) -> bytes:
        return base64.b64decode(self.answer)


class _Data(msgspec.Struct, kw_only=True):
    PodDeviceEntries: list[Allocation]
    RegisteredDevices: dict[str, list[str]]


class _File(msgspec.Struct, kw_only=True):
    Data: _Data
    Checksum: int


class Allocations:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._all: dict[tuple[str, str, str], Allocation] = {}

    def read(self) -> list[str]:
        """Read the checkpoint. Return the resources that were registered when it was written."""
        try:
            checkpoint = msgspec.json.decode(self._file.read_bytes(), type=_File)
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
        """Write the checkpoint atomically."""
        devices = {resource: sorted(names) for resource, names in registered.items()}
        data = _Data(PodDeviceEntries=list(self._all.values()), RegisteredDevices=devices)
        fresh = self._file.with_name(f".{self._file.name}")
        fresh.write_bytes(msgspec.json.encode(_File(Data=data, Checksum=_checksum(data))))
        os.replace(fresh, self._file)

    def put(self, allocation: Allocation) -> None:
        self._all[allocation.uid, allocation.container, allocation.resource] = allocation

    def get(self, uid: str, container: str, resource: str) -> Allocation | None:
        return self._all.get((uid, container, resource))

    def of_container(self, uid: str, container: str) -> list[Allocation]:
        return [
            allocation
            for allocation in self._all.values()
            if (allocation.uid, allocation.container) == (uid, container)
        ]

    def of_pod(self, uid: str) -> list[Allocation]:
        return [allocation for allocation in self._all.values() if allocation.uid == uid]

    def taken(self, resource: str) -> set[str]:
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
        gone = set(uids)
        remaining = {key: allocation for key, allocation in self._all.items() if allocation.uid not in gone}
        is_changed, self._all = len(remaining) != len(self._all), remaining
        return is_changed


def _checksum(data: _Data) -> int:
    return zlib.crc32(msgspec.json.encode(data))
