"""The resource claims that a pod and its containers use, and the checkpoint of those that are or may be prepared on
this node, in the format of the Kubernetes kubelet (`pkg/kubelet/cm/dra/claiminfo.go`, `pkg/kubelet/cm/dra/state`).
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.resource_claims import is_reserved_for
from sampan.api.types.core_v1 import Container, Pod, PodResourceClaim
from sampan.api.types.resource_v1 import ResourceClaim
from sampan.api.values import quantity
from sampan.host.durable_files import write_durably


class ClaimNotPrepared(Exception):
    """The claims of the pod cannot be prepared; the message says why."""


class PodClaim(NamedTuple):
    name: str
    """Name of the ResourceClaim."""
    is_from_template: bool
    """Whether the ResourceClaim was created for this pod from a ResourceClaimTemplate."""


def pod_claims(pod: Pod) -> list[PodClaim]:
    claims = [pod_claim for claim in pod.spec.resourceClaims if (pod_claim := _pod_claim(pod, claim)) is not None]
    status = pod.status.extendedResourceClaimStatus
    return [*claims, PodClaim(status.resourceClaimName, False)] if status is not None else claims


def _pod_claim(pod: Pod, claim: PodResourceClaim) -> PodClaim | None:
    """Return the ResourceClaim of a claim in the pod's spec, or None if the pod does not need one. Raise
    ClaimNotPrepared if it has not been created yet.
    """
    if claim.resourceClaimName:
        return PodClaim(claim.resourceClaimName, False)
    for status in pod.status.resourceClaimStatuses:
        if status.name == claim.name:
            return PodClaim(status.resourceClaimName, True) if status.resourceClaimName else None
    pod_name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    raise ClaimNotPrepared(f'pod "{pod_name}": ResourceClaim not created yet')


def check_claim(pod: Pod, pod_claim: PodClaim, claim: ResourceClaim) -> None:
    meta = claim.metadata
    if pod_claim.is_from_template and not is_controlled_by(claim, pod):
        mismatch = f"{meta.namespace}/{meta.name} was not created for pod {pod.metadata.namespace}/{pod.metadata.name}"
        raise ClaimNotPrepared(f"ResourceClaim {mismatch} (pod is not owner)")
    if not is_reserved_for(claim, pod):
        message = f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use ResourceClaim"
        raise ClaimNotPrepared(f"{message} {pod_claim.name} ({meta.uid})")
    if claim.status.allocation is None:
        raise ClaimNotPrepared(f"ResourceClaim {pod_claim.name}: not allocated")


class ContainerClaim(NamedTuple):
    """The part of a resource claim that a container uses."""

    label: str
    """Name of the claim in the container status; empty for extended resources."""
    claim: str
    request: str
    """Name of a request in the claim; empty for all requests."""


def container_claims(pod: Pod, container: Container) -> Iterator[ContainerClaim]:
    by_name = {claim.name: claim for claim in pod.spec.resourceClaims}
    for claim_reference in container.resources.claims:
        pod_claim = _pod_claim(pod, by_name[claim_reference.name]) if claim_reference.name in by_name else None
        if pod_claim is not None:
            label = (
                f"claim:{claim_reference.name}/{claim_reference.request}"
                if claim_reference.request
                else f"claim:{claim_reference.name}"
            )
            yield ContainerClaim(label, pod_claim.name, claim_reference.request or "")
    status = pod.status.extendedResourceClaimStatus
    requested = {name for name, text in container.resources.requests.items() if quantity.parse(text).value()}
    for mapping in (status.requestMappings or ()) if status is not None else ():
        if mapping.containerName == container.name and mapping.resourceName in requested:
            yield ContainerClaim("", status.resourceClaimName if status is not None else "", mapping.requestName)


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


class _CheckpointData(msgspec.Struct, kw_only=True):
    kind: str = _KIND
    apiVersion: str = _VERSION
    ClaimInfoStateList: list[ClaimInfo] | None


class _CheckpointFile(msgspec.Struct, kw_only=True):
    Data: str
    Checksum: int


class PreparedClaims:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._all: dict[tuple[str, str], ClaimInfo] = {}
        self._prepared: set[str] = set()
        """UIDs of the claims that this kubelet has prepared since its start. Those of an earlier kubelet are prepared
        again.
        """

    def read(self) -> None:
        try:
            checkpoint = msgspec.json.decode(self._file.read_bytes(), type=_CheckpointFile)
            if zlib.crc32(checkpoint.Data.encode()) != checkpoint.Checksum:
                raise ValueError("the checksum does not match the content")
            data = msgspec.json.decode(checkpoint.Data, type=_CheckpointData)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            log.error("cannot read checkpoint %s: %s; prepared resource claims are unknown", self._file, error)
            return
        self._all = {(info.Namespace, info.ClaimName): info for info in data.ClaimInfoStateList or ()}

    def write(self) -> None:
        """Write the checkpoint. Raise OSError if that fails."""
        text = msgspec.json.encode(_CheckpointData(ClaimInfoStateList=list(self._all.values())))
        checkpoint = _CheckpointFile(Data=text.decode(), Checksum=zlib.crc32(text))
        write_durably(self._file, msgspec.json.encode(checkpoint), mode=0o600)

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._all.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        self._all[info.Namespace, info.ClaimName] = info

    def remove(self, info: ClaimInfo) -> None:
        self._all.pop((info.Namespace, info.ClaimName), None)
        self._prepared.discard(info.ClaimUID)

    def list_pod_claims(self, uid: str) -> list[ClaimInfo]:
        return [info for info in self._all.values() if uid in info.PodUIDs]

    def list_device_claims(self, driver: str, pool: str, device: str) -> list[ClaimInfo]:
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

    def is_prepared(self, info: ClaimInfo) -> bool:
        return info.ClaimUID in self._prepared

    def set_prepared(self, uids: Collection[str]) -> None:
        self._prepared.update(uids)
