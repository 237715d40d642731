"""VolumeZone: rejects nodes outside the zones and regions that a volume declares in its labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes import class_of_claim, waits_for_consumer
from sampan.scheduler.cache.arrays import Codes, Flags, Rows, count_of
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, Code, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.volumes.pod_volume_claims import UnusableVolumeClaim, format_not_found, named_claims, uses_claim

CONFLICT = "node(s) had no available volume zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE, _BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
_LABELS = {_BETA_ZONE: ZONE, _BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""The topology labels of volumes, each with the label that a node may have instead."""
_BETWEEN = "__"


class VolumeTopology(NamedTuple):
    label: str
    values: frozenset[str]


class VolumeZone:
    name = "VolumeZone"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.watch(PersistentVolumeClaim, EventResource.PVC).lister
        self._volumes = handle.watch(PersistentVolume, EventResource.PV).lister
        self._classes = handle.watch(StorageClass, EventResource.STORAGE_CLASS).lister

    def applies_to(self, signature: PodSignature) -> bool:
        return bool(named_claims(signature))

    def pre_filter(self, cycle: CycleState) -> Status | None:
        if not self.applies_to(cycle.signature):
            return SKIP
        try:
            topologies = self._topologies(cycle.info)
        except UnusableVolumeClaim as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        cycle.memo[self.name] = topologies
        return None if topologies else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        table = cycle.table
        has_topology = np.zeros(count_of(rows), dtype=np.bool_)
        for label in _LABELS:
            has_topology |= table.column(label).exists(rows)
        outside = np.zeros(count_of(rows), dtype=np.bool_)
        for topology in cycle.memo[self.name]:
            outside |= ~_is_in(table, topology, rows)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[has_topology & outside] = cycle.reject(self.name, CONFLICT, is_final=True)
        return codes

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), lambda info, old, new: waits_for_consumer(new)),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.PVC, ActionType.ADD), lambda info, old, new: uses_claim(info, new)),
            (ClusterEvent(EventResource.PVC, ActionType.UPDATE), lambda info, old, new: uses_claim(info, new)),
            (ClusterEvent(EventResource.PV, ActionType.ADD), None),
            (ClusterEvent(EventResource.PV, ActionType.UPDATE), _changes_topology),
        ]

    def _topologies(self, info: PodInfo) -> list[VolumeTopology]:
        topologies: list[VolumeTopology] = []
        for name in named_claims(info.signature):
            claim = self._claims.get(name, info.namespace)
            if claim is None:
                raise UnusableVolumeClaim(format_not_found(name))
            if not claim.spec.volumeName:
                self._check_unbound(claim)
                continue
            volume = self._volumes.get(claim.spec.volumeName)
            if volume is None:
                raise UnusableVolumeClaim(f'persistentvolume "{claim.spec.volumeName}" not found')
            topologies += topologies_of(volume)
        return topologies

    def _check_unbound(self, claim: PersistentVolumeClaim) -> None:
        """Raise UnusableVolumeClaim for an unbound claim, unless its storage class uses WaitForFirstConsumer."""
        name = class_of_claim(claim)
        if not name:
            raise UnusableVolumeClaim("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._classes.get(name)
        if storage_class is None:
            raise UnusableVolumeClaim(f'storageclass.storage.k8s.io "{name}" not found')
        if storage_class.volumeBindingMode is None:
            raise UnusableVolumeClaim(f'VolumeBindingMode not set for StorageClass "{name}"')
        if not waits_for_consumer(storage_class):
            raise UnusableVolumeClaim("PersistentVolume had no name")


def topologies_of(volume: PersistentVolume) -> list[VolumeTopology]:
    labels = volume.metadata.labels
    pairs = ((key, [part.strip() for part in labels[key].split(_BETWEEN)]) for key in _LABELS if key in labels)
    return [VolumeTopology(key, frozenset(values)) for key, values in pairs if all(values)]


def _is_in(table: NodeTable, topology: VolumeTopology, rows: Rows) -> Flags:
    own = table.column(topology.label)
    inside = own.is_one_of(topology.values, rows)
    other = _LABELS[topology.label]
    if other != topology.label:
        inside |= ~own.exists(rows) & table.column(other).is_one_of(topology.values, rows)
    return inside


def _changes_topology(info: PodInfo, old: Any, new: Any) -> bool:
    return topologies_of(old) != topologies_of(new)
