"""VolumeRestrictions: rejects nodes if a disk or ReadWriteOncePod claim of the pod is already in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import PersistentVolumeClaim, PodSpec, Volume
from sampan.machinery.object_key import Key
from sampan.scheduler.arrays import Codes, Rows, count_of, numbers_of
from sampan.scheduler.framework.contract import (
    SKIP,
    Action,
    ClusterEvent,
    Code,
    Cycle,
    Events,
    Handle,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.needs import Needs
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.reports import followed
from sampan.scheduler.volumes.claims import named_claims, not_found, uses

DISK_CONFLICT = "node(s) had no available disk"
POD_CONFLICT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions:
    name = "VolumeRestrictions"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._claims = followed(handle, PersistentVolumeClaim, Resource.PVC).lister
        self._table = handle.table

    def pre_filter(self, cycle: Cycle) -> Status | None:
        names = named_claims(cycle.needs)
        disks = disks_of(cycle.needs)
        if not names and not disks:
            return SKIP
        alone: list[Key] = []
        for name in names:
            claim = self._claims.get(name, cycle.info.namespace)
            if claim is None:
                return Status(Code.UNRESOLVABLE, (not_found(name),))
            if _ONE_POD in claim.spec.accessModes:
                alone.append(Key(cycle.info.namespace, name))
        cycle.memo[self.name] = alone
        return None if disks or self._is_used(alone) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        if self._is_used(cycle.memo[self.name]):
            codes[:] = cycle.refuse(self.name, POD_CONFLICT)
        disks = disks_of(cycle.needs)
        if disks:
            clashing = [self._clashes(disks, int(row)) for row in numbers_of(rows)]
            codes[np.array(clashing, dtype=np.bool_)] = cycle.refuse(self.name, DISK_CONFLICT)
        return codes

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _frees),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.PVC, Action.ADD), lambda info, old, new: uses(info, new)),
        ]

    def _is_used(self, claims: Sequence[Key]) -> bool:
        return any(self._table.claims.rows(claim) for claim in claims)

    def _clashes(self, disks: Sequence[Volume], row: int) -> bool:
        return any(
            clash(disk, other)
            for info in self._table.pods[row].values()
            for other in disks_of(info.needs)
            for disk in disks
        )


def disks_of(needs: Needs) -> Sequence[Volume]:
    return needs.parsed("disks", _disks)


def _disks(spec: PodSpec) -> Sequence[Volume]:
    return tuple(volume for volume in spec.volumes if _is_disk(volume))


def _is_disk(volume: Volume) -> bool:
    kinds = (volume.gcePersistentDisk, volume.awsElasticBlockStore, volume.rbd, volume.iscsi)
    return any(kind is not None for kind in kinds)


def clash(one: Volume, other: Volume) -> bool:
    """Whether both volumes are the same disk and not both read-only; AWS EBS volumes conflict even if read-only."""
    if one.gcePersistentDisk is not None and other.gcePersistentDisk is not None:
        mine, theirs = one.gcePersistentDisk, other.gcePersistentDisk
        return mine.pdName == theirs.pdName and not (mine.readOnly and theirs.readOnly)
    if one.awsElasticBlockStore is not None and other.awsElasticBlockStore is not None:
        return one.awsElasticBlockStore.volumeID == other.awsElasticBlockStore.volumeID
    if one.iscsi is not None and other.iscsi is not None:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.readOnly and other.iscsi.readOnly)
    if one.rbd is not None and other.rbd is not None:
        return _same_image(one.rbd, other.rbd) and not (one.rbd.readOnly and other.rbd.readOnly)
    return False


def _same_image(one: Any, other: Any) -> bool:
    if (one.pool or "rbd", one.image) != (other.pool or "rbd", other.image):
        return False
    return not set(one.monitors or ()).isdisjoint(other.monitors or ())


def _frees(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the deleted pod used a disk or a claim that this pod uses."""
    if old.metadata.namespace != info.namespace:
        return False
    names = {volume.persistentVolumeClaim.claimName for volume in old.spec.volumes if volume.persistentVolumeClaim}
    if names.intersection(named_claims(info.needs)):
        return True
    return any(clash(disk, other) for disk in disks_of(info.needs) for other in _disks(old.spec))
