"""VolumeBinding: places a pod where its volumes are or can be provisioned, and binds its claims before the pod."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import msgspec
import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from sampan.machinery.volumes.classes import class_of_volume
from sampan.scheduler.arg_faults import binding, refuse
from sampan.scheduler.arrays import Codes, Flags, Rows, count_of
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
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.reports import followed
from sampan.scheduler.volumes.assumed import Assumed
from sampan.scheduler.volumes.binding import BindingFailed, Bindings, Plan
from sampan.scheduler.volumes.choosing import Choice, choose
from sampan.scheduler.volumes.claims import Amiss, PodClaims, claims_of, has_claims, sorted_claims, uses
from sampan.scheduler.volumes.reach import everywhere, grew, has_room, reached

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeBindingArgs(msgspec.Struct, forbid_unknown_fields=True):
    bindTimeoutSeconds: int = 600
    shape: list[Any] | None = None


def by_class(volume: PersistentVolume) -> Iterable[Hashable]:
    return (class_of_volume(volume),)


class VolumeBinding:
    name = "VolumeBinding"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, VolumeBindingArgs)
        refuse(binding(args.bindTimeoutSeconds, args.shape))
        claims = followed(handle, PersistentVolumeClaim, Resource.PVC)
        volumes = followed(handle, PersistentVolume, Resource.PV)
        self._claims, self._volumes = Assumed(claims.lister), Assumed(volumes.lister)
        self._classes = followed(handle, StorageClass, Resource.STORAGE_CLASS).lister
        self._drivers = followed(handle, CSIDriver, Resource.CSI_DRIVER).lister
        self._capacities = followed(handle, CSIStorageCapacity, Resource.CSI_CAPACITY).lister
        followed(handle, CSINode, Resource.CSI_NODE)
        self._table = handle.table
        self._bindings = Bindings(
            client=handle.client, clock=handle.clock, claims=claims, volumes=volumes, table=handle.table
        )
        self._timeout_s = args.bindTimeoutSeconds

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not has_claims(cycle.needs):
            return SKIP
        try:
            claims = sorted_claims(claims_of(cycle.pod, self._claims.get), self._class)
        except Amiss as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        if claims.immediate:
            return Status(Code.UNRESOLVABLE, (UNBOUND,))
        cycle.memo[self.name] = claims
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        claims: PodClaims = cycle.memo[self.name]
        near, existing = self._bound(claims, rows)
        choice = self._choice(claims, rows)
        checks = [
            (NODE_CONFLICT, near),
            (BIND_CONFLICT, choice.has_volumes),
            (NO_SPACE, choice.has_room),
            (NO_VOLUME, existing),
        ]
        return self._codes(cycle, checks, rows)

    def reserve(self, cycle: Cycle, node: str) -> Status | None:
        """Assume the volumes that match or will be provisioned on the node."""
        claims: PodClaims | None = cycle.memo.get(self.name)
        if claims is None or not claims.delayed:
            return None
        choice = self._choice(claims, np.array([self._table.rows[node]], dtype=np.intp))
        if not (choice.has_volumes[0] and choice.has_room[0]):
            return Status(Code.ERROR, (f'no pod volume found for node "{node}"',))
        static = [(claim, volume) for claim, volumes in choice.static for volume, flags in volumes if flags[0]]
        plan = Plan.of(static, [claim for claim, flags in choice.made if flags[0]], node)
        for volume in plan.volumes:
            self._volumes.assume(volume)
        for claim in plan.claims:
            self._claims.assume(claim)
        cycle.memo[_PLAN] = plan
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        plan: Plan | None = cycle.memo.pop(_PLAN, None)
        if plan is not None:
            for volume in plan.volumes:
                self._volumes.restore(volume)
            for claim in plan.claims:
                self._claims.restore(claim)

    def has_pre_bind(self, cycle: Cycle, node: str) -> bool:
        return _PLAN in cycle.memo

    async def pre_bind(self, cycle: Cycle, node: str) -> Status | None:
        """Write the assumed bindings and wait until the claims are bound."""
        plan: Plan | None = cycle.memo.get(_PLAN)
        if plan is None:
            return SKIP
        try:
            await self._bindings.carry_out(cycle.pod, plan, self._timeout_s)
        except BindingFailed as error:
            return Status(Code.ERROR, (str(error),))
        return None

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), None),
            (ClusterEvent(Resource.STORAGE_CLASS, Action.UPDATE), _topologies_changed),
            (ClusterEvent(Resource.PVC, Action.ADD), _is_own_claim),
            (ClusterEvent(Resource.PVC, Action.UPDATE), _is_own_claim),
            (ClusterEvent(Resource.PV, Action.ADD), None),
            (ClusterEvent(Resource.PV, Action.UPDATE), None),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.CSI_NODE, Action.ADD), None),
            (ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), _capacity_ignored),
            (ClusterEvent(Resource.CSI_CAPACITY, Action.ADD), None),
            (ClusterEvent(Resource.CSI_CAPACITY, Action.UPDATE), lambda info, old, new: grew(old, new)),
        ]

    def _bound(self, claims: PodClaims, rows: Rows) -> tuple[Flags, Flags]:
        """Return the rows from which all bound volumes are accessible, and the rows for which all of them exist."""
        near, existing = everywhere(rows), everywhere(rows)
        for claim in claims.bound:
            volume = self._volumes.get(claim.spec.volumeName)
            if volume is None:
                existing &= ~near
                break
            near &= reached(self._table, volume, rows)
        return near, existing

    def _choice(self, claims: PodClaims, rows: Rows) -> Choice:
        if not claims.delayed:
            return Choice(everywhere(rows), everywhere(rows), [], [])
        fresh = [self._claims.get(claim.metadata.name, claim.metadata.namespace) or claim for claim in claims.delayed]
        return choose(self._table, fresh, self._volumes_of, self._class, self._room, rows)

    def _volumes_of(self, class_name: str) -> list[PersistentVolume]:
        return self._volumes.find(by_class, class_name)

    def _class(self, name: str) -> StorageClass | None:
        return self._classes.get(name) if name else None

    def _room(self, found: StorageClass, size: int, rows: Rows) -> Flags:
        driver = self._drivers.get(found.provisioner)
        if driver is None or not driver.spec.storageCapacity:
            return everywhere(rows)
        return has_room(self._table, self._capacities, found.metadata.name, size, rows)

    def _codes(self, cycle: Cycle, told: list[tuple[str, Flags]], rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        bits = np.zeros(count_of(rows), dtype=np.int64)
        for bit, (_, is_well) in enumerate(told):
            bits |= (~is_well).astype(np.int64) << bit
        for pattern in np.unique(bits):
            if pattern:
                reasons = [reason for bit, (reason, _) in enumerate(told) if pattern >> bit & 1]
                codes[bits == pattern] = cycle.refuse(self.name, *reasons, is_final=True)
        return codes


_PLAN = "VolumeBinding/plan"


def _is_own_claim(info: PodInfo, old: Any, new: Any) -> bool:
    return uses(info, new)


def _topologies_changed(info: PodInfo, old: Any, new: Any) -> bool:
    return bool(old.allowedTopologies != new.allowedTopologies)


def _capacity_ignored(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the driver no longer publishes its storage capacity."""
    return bool(old.spec.storageCapacity and not new.spec.storageCapacity)
