"""VolumeBinding: places a pod where its volumes are or can be provisioned, and binds its claims before the pod.

With StorageCapacityScoring, nodes are scored by how much of the volumes, or of the capacity for new ones, is used.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from sampan.machinery.volumes import capacity, class_of_claim, class_of_volume, requested_size
from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.config.plugin_args import check_volume_binding, raise_if_invalid, read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.plugins.resource_allocation import ShapePoint, UtilizationShape, round_half_up
from sampan.scheduler.volumes.pod_volume_claims import (
    PodClaims,
    UnusableVolumeClaim,
    VolumeChoice,
    can_access,
    choose_volumes,
    classify_claims,
    compute_provisioning_capacity,
    flag_all,
    flag_none,
    has_capacity,
    has_claims,
    has_more_capacity,
    limit_bytes,
    uses_claim,
    volume_claims_of,
)
from sampan.scheduler.volumes.volume_binder import AssumeCache, PodVolumes, SchedulerVolumeBinder, VolumeBindingFailed

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


_DEFAULT_SHAPE = (ShapePoint(utilization=0, score=10), ShapePoint(utilization=100, score=0))


class VolumeBindingArgs(msgspec.Struct, forbid_unknown_fields=True):
    bindTimeoutSeconds: int = 600
    shape: list[ShapePoint] | None = None


def by_class(volume: PersistentVolume) -> Iterable[Hashable]:
    return (class_of_volume(volume),)


@dataclass(slots=True)
class _StorageUse:
    """What a pod would use of one storage class, for each row."""

    requested: Ints
    capacity: Ints
    is_used: Flags

    @classmethod
    def make_empty(cls, rows: Rows) -> _StorageUse:
        zeros = np.zeros(count_of(rows), dtype=np.int64)
        return cls(zeros, zeros.copy(), flag_none(rows))


class VolumeBinding:
    name = "VolumeBinding"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, VolumeBindingArgs)
        has_scores = handle.feature_gates.is_enabled("StorageCapacityScoring")
        shape = (args.shape or _DEFAULT_SHAPE) if has_scores else args.shape
        raise_if_invalid(check_volume_binding(args.bindTimeoutSeconds, shape, has_scores=has_scores))
        self._shape = UtilizationShape(shape) if has_scores and shape else None
        claims = handle.watch(PersistentVolumeClaim, EventResource.PVC)
        volumes = handle.watch(PersistentVolume, EventResource.PV)
        self._claims, self._volumes = AssumeCache(claims.lister), AssumeCache(volumes.lister)
        self._classes = handle.watch(StorageClass, EventResource.STORAGE_CLASS).lister
        self._drivers = handle.watch(CSIDriver, EventResource.CSI_DRIVER).lister
        self._capacities = handle.watch(CSIStorageCapacity, EventResource.CSI_CAPACITY).lister
        handle.watch(CSINode, EventResource.CSI_NODE)
        self._table = handle.table
        self._binder = SchedulerVolumeBinder(
            client=handle.client, clock=handle.clock, claims=claims, volumes=volumes, table=handle.table
        )
        self._timeout_s = args.bindTimeoutSeconds

    def applies_to(self, signature: PodSignature) -> bool:
        return has_claims(signature)

    def pre_filter(self, cycle: CycleState) -> Status | None:
        if not self.applies_to(cycle.signature):
            return SKIP
        try:
            claims = classify_claims(volume_claims_of(cycle.pod, self._claims.get), self._class)
        except UnusableVolumeClaim as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        if claims.immediate:
            return Status(Code.UNRESOLVABLE, (UNBOUND,))
        cycle.memo[self.name] = claims
        return None

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        claims: PodClaims = cycle.memo[self.name]
        reachable, existing = self._check_bound_volumes(claims, rows)
        choice = self._choice(claims, rows)
        checks = [
            (NODE_CONFLICT, reachable),
            (BIND_CONFLICT, choice.has_volumes),
            (NO_SPACE, choice.has_capacity_flags),
            (NO_VOLUME, existing),
        ]
        return self._codes(cycle, checks, rows)

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        claims: PodClaims | None = cycle.memo.get(self.name)
        return None if self._shape is not None and claims is not None and claims.delayed else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Score by the existing volumes that are chosen on a node or, where there are none, by the capacity for new
        ones; each is summed up by storage class."""
        choice = self._choice(cycle.memo[self.name], rows)
        existing = self._sum_existing_volumes(choice, rows)
        has_volumes = np.logical_or.reduce([flag_none(rows), *(uses.is_used for uses in existing.values())])
        provisioned = self._sum_provisioned_volumes(choice, rows)
        for uses in provisioned.values():
            uses.is_used &= ~has_volumes
        return self._score_uses([*existing.values(), *provisioned.values()], rows)

    def _sum_existing_volumes(self, choice: VolumeChoice, rows: Rows) -> dict[str, _StorageUse]:
        by_class: dict[str, _StorageUse] = {}
        for claim, volumes in choice.static:
            size = limit_bytes(requested_size(claim))
            for volume, flags in volumes:
                use = by_class.setdefault(class_of_claim(claim), _StorageUse.make_empty(rows))
                use.requested += flags * size
                use.capacity += flags * limit_bytes(capacity(volume))
                use.is_used |= flags
        return by_class

    def _sum_provisioned_volumes(self, choice: VolumeChoice, rows: Rows) -> dict[str, _StorageUse]:
        by_class: dict[str, _StorageUse] = {}
        for claim, flags in choice.to_provision:
            storage_class = self._class(class_of_claim(claim))
            if storage_class is None or not self._publishes_capacity(storage_class):
                continue
            size = requested_size(claim).value()
            name = storage_class.metadata.name
            available = compute_provisioning_capacity(self._table, self._capacities, name, size, rows)
            use = by_class.setdefault(name, _StorageUse.make_empty(rows))
            is_used = flags & (available >= 0)
            use.requested += is_used * limit_bytes(requested_size(claim))
            use.capacity = np.where(is_used, available, use.capacity)
            use.is_used |= is_used
        return by_class

    def _score_uses(self, uses: Sequence[_StorageUse], rows: Rows) -> Ints:
        """Return the mean score of the storage classes that a node uses, or 0."""
        assert self._shape is not None
        total: Ints = np.zeros(count_of(rows), dtype=np.int64)
        count: Ints = np.zeros(count_of(rows), dtype=np.int64)
        for use in uses:
            percentage = use.requested * 100 // np.maximum(use.capacity, 1)
            utilization = np.where((use.capacity == 0) | (use.requested > use.capacity), 100, percentage)
            total += np.where(use.is_used, self._shape(utilization), 0)
            count += use.is_used
        return round_half_up(total, count)

    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        """Assume the volumes that match or will be provisioned on the node."""
        claims: PodClaims | None = cycle.memo.get(self.name)
        if claims is None or not claims.delayed:
            return None
        choice = self._choice(claims, np.array([self._table.rows[node]], dtype=np.intp))
        if not (choice.has_volumes[0] and choice.has_capacity_flags[0]):
            return Status(Code.ERROR, (f'no pod volume found for node "{node}"',))
        static = [(claim, volume) for claim, volumes in choice.static for volume, flags in volumes if flags[0]]
        volumes_of_pod = PodVolumes.build(static, [claim for claim, flags in choice.to_provision if flags[0]], node)
        for volume in volumes_of_pod.volumes:
            self._volumes.assume(volume)
        for claim in volumes_of_pod.claims:
            self._claims.assume(claim)
        cycle.memo[_POD_VOLUMES] = volumes_of_pod
        return None

    def unreserve(self, cycle: CycleState, node: str) -> None:
        volumes_of_pod: PodVolumes | None = cycle.memo.pop(_POD_VOLUMES, None)
        if volumes_of_pod is not None:
            for volume in volumes_of_pod.volumes:
                self._volumes.restore(volume)
            for claim in volumes_of_pod.claims:
                self._claims.restore(claim)

    def has_pre_bind(self, cycle: CycleState, node: str) -> bool:
        return _POD_VOLUMES in cycle.memo

    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        """Write the assumed bindings and wait until the claims are bound."""
        volumes_of_pod: PodVolumes | None = cycle.memo.get(_POD_VOLUMES)
        if volumes_of_pod is None:
            return SKIP
        try:
            await self._binder.bind_pod_volumes(volumes_of_pod, self._timeout_s)
        except VolumeBindingFailed as error:
            return Status(Code.ERROR, (str(error),))
        return None

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), None),
            (ClusterEvent(EventResource.STORAGE_CLASS, ActionType.UPDATE), _changes_topologies),
            (ClusterEvent(EventResource.PVC, ActionType.ADD), _is_own_claim),
            (ClusterEvent(EventResource.PVC, ActionType.UPDATE), _is_own_claim),
            (ClusterEvent(EventResource.PV, ActionType.ADD), None),
            (ClusterEvent(EventResource.PV, ActionType.UPDATE), None),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE), _stops_publishing_capacity),
            (ClusterEvent(EventResource.CSI_CAPACITY, ActionType.ADD), None),
            (
                ClusterEvent(EventResource.CSI_CAPACITY, ActionType.UPDATE),
                lambda info, old, new: has_more_capacity(old, new),
            ),
        ]

    def _check_bound_volumes(self, claims: PodClaims, rows: Rows) -> tuple[Flags, Flags]:
        """Return the rows from which all bound volumes are accessible, and the rows for which all of them exist."""
        reachable, existing = flag_all(rows), flag_all(rows)
        for claim in claims.bound:
            volume = self._volumes.get(claim.spec.volumeName)
            if volume is None:
                existing &= ~reachable
                break
            reachable &= can_access(self._table, volume, rows)
        return reachable, existing

    def _choice(self, claims: PodClaims, rows: Rows) -> VolumeChoice:
        if not claims.delayed:
            return VolumeChoice(flag_all(rows), flag_all(rows), [], [])
        fresh = [self._claims.get(claim.metadata.name, claim.metadata.namespace) or claim for claim in claims.delayed]
        return choose_volumes(self._table, fresh, self._volumes_of_class, self._class, self._has_capacity, rows)

    def _volumes_of_class(self, class_name: str) -> list[PersistentVolume]:
        return self._volumes.find(by_class, class_name)

    def _class(self, name: str) -> StorageClass | None:
        return self._classes.get(name) if name else None

    def _has_capacity(self, storage_class: StorageClass, size: int, rows: Rows) -> Flags:
        if not self._publishes_capacity(storage_class):
            return flag_all(rows)
        return has_capacity(self._table, self._capacities, storage_class.metadata.name, size, rows)

    def _publishes_capacity(self, storage_class: StorageClass) -> bool:
        driver = self._drivers.get(storage_class.provisioner)
        return driver is not None and bool(driver.spec.storageCapacity)

    def _codes(self, cycle: CycleState, checks: list[tuple[str, Flags]], rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        bits = np.zeros(count_of(rows), dtype=np.int64)
        for bit, (_, passed) in enumerate(checks):
            bits |= (~passed).astype(np.int64) << bit
        for pattern in np.unique(bits):
            if pattern:
                reasons = [reason for bit, (reason, _) in enumerate(checks) if pattern >> bit & 1]
                codes[bits == pattern] = cycle.reject(self.name, *reasons, is_final=True)
        return codes


_POD_VOLUMES = "VolumeBinding/plan"


def _is_own_claim(info: PodInfo, old: Any, new: Any) -> bool:
    return uses_claim(info, new)


def _changes_topologies(info: PodInfo, old: Any, new: Any) -> bool:
    return bool(old.allowedTopologies != new.allowedTopologies)


def _stops_publishing_capacity(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the driver no longer publishes its storage capacity."""
    return bool(old.spec.storageCapacity and not new.spec.storageCapacity)
