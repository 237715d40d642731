"""Claims that are or may be prepared on this node with the pods that use them, checkpointed in the format of the
Kubernetes kubelet.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

_KIND, _VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


class PreparedDevice(msgspec.Struct, frozen=True, kw_only=True):
    PoolName: str
    DeviceName: str
    ShareID: str | None = None
    RequestNames: list[str] | None = None
    CDIDeviceIDs: list[str] | None = None

    def is_for(self, request: str) -> bool:
        """Whether the device belongs to the request. A device without request names belongs to all, and an empty
        request matches all devices.
        """
        return not request or not self.RequestNames or request.partition("/")[0] in self.RequestNames


class DriverState(msgspec.Struct, kw_only=True):
    Devices: list[PreparedDevice] | None = None


class ClaimInfo(msgspec.Struct, kw_only=True):
    ClaimUID: str
    ClaimName: str
    Namespace: str
    PodUIDs: dict[str, dict[str, str]]
    """UIDs of the pods that use the claim."""
    DriverState: dict[str, DriverState]
    """Devices that each driver has prepared."""

    def devices(self, request: str = "") -> Iterator[tuple[str, PreparedDevice]]:
        """Yield the devices of the request with the names of their drivers."""
        for driver, state in sorted(self.DriverState.items()):
            for device in state.Devices or ():
                if device.is_for(request):
                    yield driver, device


class _Data(msgspec.Struct, kw_only=True):
    kind: str = _KIND
    apiVersion: str = _VERSION
    ClaimInfoStateList: list[ClaimInfo] | None


class _File(msgspec.Struct, kw_only=True):
    Data: str
    Checksum: int


class PreparedClaims:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._all: dict[tuple[str, str], ClaimInfo] = {}
        self._done: set[str] = set()
        """UIDs of the claims that this kubelet has prepared since its start. Those of an earlier kubelet are prepared
        again.
        """

    def read(self) -> None:
        try:
            checkpoint = msgspec.json.decode(self._file.read_bytes(), type=_File)
            if zlib.crc32(checkpoint.Data.encode()) != checkpoint.Checksum:
                raise ValueError("the checksum is not that of the content")
            data = msgspec.json.decode(checkpoint.Data, type=_Data)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            log.error("cannot read checkpoint %s: %s; prepared resource claims are unknown", self._file, error)
            return
        self._all = {(info.Namespace, info.ClaimName): info for info in data.ClaimInfoStateList or ()}

    def write(self) -> None:
        """Write the checkpoint atomically. Raise OSError if that fails."""
        text = msgspec.json.encode(_Data(ClaimInfoStateList=list(self._all.values())))
        fresh = self._file.with_name(f".{self._file.name}")
        fresh.write_bytes(msgspec.json.encode(_File(Data=text.decode(), Checksum=zlib.crc32(text))))
        os.replace(fresh, self._file)

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._all.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        self._all[info.Namespace, info.ClaimName] = info

    def remove(self, info: ClaimInfo) -> None:
        self._all.pop((info.Namespace, info.ClaimName), None)
        self._done.discard(info.ClaimUID)

    def of_pod(self, uid: str) -> list[ClaimInfo]:
        return [info for info in self._all.values() if uid in info.PodUIDs]

    def of_device(self, driver: str, pool: str, device: str) -> list[ClaimInfo]:
        return [
            info
            for info in self._all.values()
            if any(
                (driver_name, prepared.PoolName, prepared.DeviceName) == (driver, pool, device)
                for driver_name, prepared in info.devices()
            )
        ]

    def pods(self) -> set[str]:
        return {uid for info in self._all.values() for uid in info.PodUIDs}

    def is_done(self, info: ClaimInfo) -> bool:
        return info.ClaimUID in self._done

    def set_done(self, uids: Collection[str]) -> None:
        self._done.update(uids)
