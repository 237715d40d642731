"""VolumeZone: rejects nodes outside the zones and regions that a volume declares in its labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.machinery.volumes.classes import class_of_claim, waits_for_consumer
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
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.reports import followed
from sampan.scheduler.volumes.claims import Amiss, named_claims, not_found, uses

CONFLICT = "node(s) had no available volume zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE, _BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
_LABELS = {_BETA_ZONE: ZONE, _BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""The topology labels of volumes, each with the label that a node may have instead."""
_BETWEEN = "__"


class Place(NamedTuple):
    label: str
    values: frozenset[str]


class VolumeZone:
    name = "VolumeZone"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._claims = followed(handle, PersistentVolumeClaim, Resource.PVC).lister
        self._volumes = followed(handle, PersistentVolume, Resource.PV).lister
        self._classes = followed(handle, StorageClass, Resource.STORAGE_CLASS).lister

    def pre_filter(self, cycle: Cycle) -> Status | None:
        if not named_claims(cycle.needs):
            return SKIP
        try:
            places = self._places(cycle.info)
        except Amiss as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        cycle.memo[self.name] = places
        return None if places else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        table = cycle.table
        says_where = np.zeros(count_of(rows), dtype=np.bool_)
        for label in _LABELS:
            says_where |= table.column(label).exists(rows)
        far = np.zeros(count_of(rows), dtype=np.bool_)
        for topology in cycle.memo[self.name]:
            far |= ~_is_in(table, topology, rows)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[says_where & far] = cycle.refuse(self.name, CONFLICT, is_final=True)
        return codes

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), lambda info, old, new: waits_for_consumer(new)),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.PVC, Action.ADD), lambda info, old, new: uses(info, new)),
            (ClusterEvent(Resource.PVC, Action.UPDATE), lambda info, old, new: uses(info, new)),
            (ClusterEvent(Resource.PV, Action.ADD), None),
            (ClusterEvent(Resource.PV, Action.UPDATE), _moved),
        ]

    def _places(self, info: PodInfo) -> list[Place]:
        places: list[Place] = []
        for name in named_claims(info.needs):
            claim = self._claims.get(name, info.namespace)
            if claim is None:
                raise Amiss(not_found(name))
            if not claim.spec.volumeName:
                self._check_unbound(claim)
                continue
            volume = self._volumes.get(claim.spec.volumeName)
            if volume is None:
                raise Amiss(f'persistentvolume "{claim.spec.volumeName}" not found')
            places += places_of(volume)
        return places

    def _check_unbound(self, claim: PersistentVolumeClaim) -> None:
        """Raise Amiss for an unbound claim, unless its storage class uses WaitForFirstConsumer."""
        name = class_of_claim(claim)
        if not name:
            raise Amiss("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = self._classes.get(name)
        if storage_class is None:
            raise Amiss(f'storageclass.storage.k8s.io "{name}" not found')
        if storage_class.volumeBindingMode is None:
            raise Amiss(f'VolumeBindingMode not set for StorageClass "{name}"')
        if not waits_for_consumer(storage_class):
            raise Amiss("PersistentVolume had no name")


def places_of(volume: PersistentVolume) -> list[Place]:
    labels = volume.metadata.labels
    pairs = ((key, [part.strip() for part in labels[key].split(_BETWEEN)]) for key in _LABELS if key in labels)
    return [Place(key, frozenset(values)) for key, values in pairs if all(values)]


def _is_in(table: NodeTable, place: Place, rows: Rows) -> Flags:
    own = table.column(place.label)
    inside = own.is_one_of(place.values, rows)
    other = _LABELS[place.label]
    if other != place.label:
        inside |= ~own.exists(rows) & table.column(other).is_one_of(place.values, rows)
    return inside


def _moved(info: PodInfo, old: Any, new: Any) -> bool:
    return places_of(old) != places_of(new)
