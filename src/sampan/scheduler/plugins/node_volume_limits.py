"""NodeVolumeLimits: rejects nodes that would exceed the volume limit of a CSI driver in their CSINode.

With VolumeLimitScaling, it also rejects nodes without a driver whose CSIDriver has `preventPodSchedulingIfMissing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment
from sampan.machinery.volumes import claim_name_of
from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.cache.node_attributes import volumes_with_claims
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.volumes.attached_volumes import AttachedVolumes, CsiVolumes
from sampan.scheduler.volumes.pod_volume_claims import format_not_found, has_claims, named_claims, uses_claim

MAX_VOLUME_COUNT_EXCEEDED = "node(s) exceed max volume count"
_NO_LIMIT = 2**62
_NO_DRIVER = -1


class NodeVolumeLimits:
    name = "NodeVolumeLimits"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        claims = handle.watch(PersistentVolumeClaim, EventResource.PVC)
        volumes = handle.watch(PersistentVolume, EventResource.PV)
        classes = handle.watch(StorageClass, EventResource.STORAGE_CLASS)
        nodes = handle.watch(CSINode, EventResource.CSI_NODE)
        self._claims = claims.lister
        drivers = handle.watch(CSIDriver, EventResource.CSI_DRIVER)
        self._drivers = drivers.lister if handle.feature_gates.is_enabled("VolumeLimitScaling") else None
        self._csi = CsiVolumes(claims.lister, volumes.lister, classes.lister)
        self._attached = AttachedVolumes(
            table=handle.table,
            csi=self._csi,
            claims=claims,
            volumes=volumes,
            attachments=handle.watch(VolumeAttachment, EventResource.VOLUME_ATTACHMENT),
        )
        self._limits: dict[str, dict[str, int]] = {}
        """The limit of each node that has the driver, by driver."""
        self._limited_nodes: Counter[str] = Counter()
        """The number of nodes with a limit, by driver."""
        self._columns: dict[str, tuple[int, Ints]] = {}
        """For each driver, the limits by row and the table shape that they were computed for."""
        nodes.subscribe(self._on_node_changed)

    def applies_to(self, signature: PodSignature) -> bool:
        return has_claims(signature)

    def pre_filter(self, cycle: CycleState) -> Status | None:
        if not self.applies_to(cycle.signature):
            return SKIP
        volumes = cycle.signature.parse_once("claiming volumes", volumes_with_claims)
        names = [claim_name_of(cycle.pod, volume) for volume in volumes]
        missing = next((name for name in names if self._claims.get(name, cycle.info.namespace) is None), "")
        handles = set(self._csi.list_pod_handles(cycle.pod, volumes))
        cycle.memo[self.name] = (missing, handles)
        is_relevant = missing or any(self._limited_nodes[driver] or self._is_required(driver) for driver, _ in handles)
        return None if is_relevant else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        missing, handles = cycle.memo[self.name]
        if missing:
            why = f"looking up PVC {cycle.info.namespace}/{missing}: {format_not_found(missing)}"
            codes[:] = cycle.reject(self.name, why, is_final=True)
            return codes
        full = np.zeros(count_of(rows), dtype=np.bool_)
        drivers = sorted({driver for driver, _ in handles})
        for driver in drivers:
            if self._limited_nodes[driver]:
                full |= self._is_full(driver, [handle for handle in handles if handle[0] == driver], rows)
        codes[full] = cycle.reject(self.name, MAX_VOLUME_COUNT_EXCEEDED)
        for driver in reversed(drivers):
            if self._is_required(driver):
                is_missing = self._limit(driver)[rows] == _NO_DRIVER
                codes[is_missing] = cycle.reject(self.name, f"{driver} CSI driver is not installed on the node")
        return codes

    def _is_required(self, driver: str) -> bool:
        """Tell whether pods with volumes of the driver may only run on nodes that have it."""
        csi_driver = self._drivers.get(driver) if self._drivers is not None else None
        return csi_driver is not None and bool(csi_driver.spec.preventPodSchedulingIfMissing)

    def _is_full(self, driver: str, handles: Sequence[tuple[str, str]], rows: Rows) -> Flags:
        more = np.full(count_of(rows), len(handles), dtype=np.int64)
        for handle in handles:
            more -= self._attached.is_volume_used(handle, rows)
        limit = self._limit(driver)[rows]
        full: Flags = (more > 0) & (limit >= 0) & (self._attached.count(driver, rows) + more > limit)
        return full

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE), _raises_limit),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), _had_claims),
            (ClusterEvent(EventResource.PVC, ActionType.ADD), lambda info, old, new: uses_claim(info, new)),
            (ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE), _names_claims),
        ]

    def _limit(self, driver: str) -> Ints:
        """Return the limit of the driver for each row, _NO_LIMIT or _NO_DRIVER."""
        shape, column = self._columns.get(driver, (-1, None))
        if column is None or shape != self._table.shape:
            column = np.full(self._table.size, _NO_DRIVER, dtype=np.int64)
            for node, limit in self._limits.get(driver, {}).items():
                if node in self._table.rows:
                    column[self._table.rows[node]] = limit
            self._columns[driver] = (self._table.shape, column)
        return column

    def _on_node_changed(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        self._columns.clear()
        for driver, limit in limits_of(old).items() if old is not None else ():
            if self._limits.get(driver, {}).pop(name, None) is not None:
                self._limited_nodes[driver] -= limit != _NO_LIMIT
                if not self._limits[driver]:
                    del self._limits[driver], self._limited_nodes[driver]
        for driver, limit in limits_of(new).items() if new is not None else ():
            self._limits.setdefault(driver, {})[name] = limit
            self._limited_nodes[driver] += limit != _NO_LIMIT


def limits_of(node: CSINode) -> dict[str, int]:
    """Return the limits of the drivers that the node has; _NO_LIMIT without one."""
    return {
        driver.name: driver.allocatable.count
        if driver.allocatable is not None and driver.allocatable.count is not None
        else _NO_LIMIT
        for driver in node.spec.drivers or ()
    }


def _raises_limit(info: PodInfo, old: Any, new: Any) -> bool:
    before = limits_of(old)
    return any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())


def _had_claims(info: PodInfo, old: Any, new: Any) -> bool:
    return bool(volumes_with_claims(old.spec))


def _names_claims(info: PodInfo, old: Any, new: Any) -> bool:
    return bool(named_claims(info.signature))
