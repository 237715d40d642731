"""VolumeRestrictions: rejects nodes if a disk or ReadWriteOncePod claim of the pod is already in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import PersistentVolumeClaim, PodSpec, Volume
from sampan.machinery.object_key import NamespacedName
from sampan.scheduler.cache.arrays import Codes, Rows, count_of, numbers_of
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.volumes.pod_volume_claims import format_not_found, named_claims, uses_claim

DISK_CONFLICT = "node(s) had no available disk"
POD_CONFLICT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class VolumeRestrictions:
    name = "VolumeRestrictions"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.watch(PersistentVolumeClaim, EventResource.PVC).lister
        self._table = handle.table

    def applies_to(self, signature: PodSignature) -> bool:
        return bool(named_claims(signature) or disks_of(signature))

    def pre_filter(self, cycle: CycleState) -> Status | None:
        if not self.applies_to(cycle.signature):
            return SKIP
        alone: list[NamespacedName] = []
        for name in named_claims(cycle.signature):
            claim = self._claims.get(name, cycle.info.namespace)
            if claim is None:
                return Status(Code.UNRESOLVABLE, (format_not_found(name),))
            if _READ_WRITE_ONCE_POD in claim.spec.accessModes:
                alone.append(NamespacedName(cycle.info.namespace, name))
        cycle.memo[self.name] = alone
        return None if disks_of(cycle.signature) or self._is_used(alone) else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        if self._is_used(cycle.memo[self.name]):
            codes[:] = cycle.reject(self.name, POD_CONFLICT)
        disks = disks_of(cycle.signature)
        if disks:
            conflicting = [self._conflicts(disks, int(row)) for row in numbers_of(rows)]
            codes[np.array(conflicting, dtype=np.bool_)] = cycle.reject(self.name, DISK_CONFLICT)
        return codes

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), _frees),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.PVC, ActionType.ADD), lambda info, old, new: uses_claim(info, new)),
        ]

    def _is_used(self, claims: Sequence[NamespacedName]) -> bool:
        return any(self._table.claims.rows(claim) for claim in claims)

    def _conflicts(self, disks: Sequence[Volume], row: int) -> bool:
        return any(
            conflict(disk, other)
            for info in self._table.pods[row].values()
            for other in disks_of(info.signature)
            for disk in disks
        )


def disks_of(signature: PodSignature) -> Sequence[Volume]:
    return signature.parse_once("disks", _disks)


def _disks(spec: PodSpec) -> Sequence[Volume]:
    return tuple(volume for volume in spec.volumes if _is_disk(volume))


def _is_disk(volume: Volume) -> bool:
    kinds = (volume.gcePersistentDisk, volume.awsElasticBlockStore, volume.rbd, volume.iscsi)
    return any(kind is not None for kind in kinds)


def conflict(volume: Volume, other: Volume) -> bool:
    """Whether both volumes are the same disk and not both read-only; AWS EBS volumes conflict even if read-only."""
    if volume.gcePersistentDisk is not None and other.gcePersistentDisk is not None:
        mine, theirs = volume.gcePersistentDisk, other.gcePersistentDisk
        return mine.pdName == theirs.pdName and not (mine.readOnly and theirs.readOnly)
    if volume.awsElasticBlockStore is not None and other.awsElasticBlockStore is not None:
        return volume.awsElasticBlockStore.volumeID == other.awsElasticBlockStore.volumeID
    if volume.iscsi is not None and other.iscsi is not None:
        return volume.iscsi.iqn == other.iscsi.iqn and not (volume.iscsi.readOnly and other.iscsi.readOnly)
    if volume.rbd is not None and other.rbd is not None:
        return _is_same_image(volume.rbd, other.rbd) and not (volume.rbd.readOnly and other.rbd.readOnly)
    return False


def _is_same_image(volume: Any, other: Any) -> bool:
    if (volume.pool or "rbd", volume.image) != (other.pool or "rbd", other.image):
        return False
    return not set(volume.monitors or ()).isdisjoint(other.monitors or ())


def _frees(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the deleted pod used a disk or a claim that this pod uses."""
    if old.metadata.namespace != info.namespace:
        return False
    names = {volume.persistentVolumeClaim.claimName for volume in old.spec.volumes if volume.persistentVolumeClaim}
    if names.intersection(named_claims(info.signature)):
        return True
    return any(conflict(disk, other) for disk in disks_of(info.signature) for other in _disks(old.spec))
