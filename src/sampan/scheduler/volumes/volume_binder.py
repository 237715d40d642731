"""Volume bindings of a pod: assumed when a node is selected, written before the pod is bound.

`AssumeCache` overlays an informer cache with objects whose changes are decided but not written. `SchedulerVolumeBinder`
writes them and waits until the claims are bound (compare `pkg/scheduler/framework/plugins/volumebinding/binder.go`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import IndexFunction, Informer, Lister
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import SELECTED_NODE, bind_volume
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.volumes.pod_volume_claims import can_access, is_bound

T = TypeVar("T")


class AssumeCache(Generic[T]):
    def __init__(self, lister: Lister[T]) -> None:
        self._lister = lister
        self._assumed: dict[NamespacedName, tuple[str, T]] = {}
        """Assumed objects with the resource version that they are based on; a newer version from the server replaces
        them.
        """

    def get(self, name: str, namespace: str = "") -> T | None:
        stored = self._lister.get(name, namespace)
        return None if stored is None else self._prefer_assumed(stored)

    def find(self, index: IndexFunction, value: Hashable) -> list[T]:
        """Return the matching objects; the index covers the informer cache only."""
        return [self._prefer_assumed(stored) for stored in self._lister.find(index, value)]

    def assume(self, changed: Any) -> None:
        """Overlay the object, which still has the resource version of the cached object that it is based on."""
        self._assumed[key_of(changed)] = (changed.metadata.resourceVersion, changed)

    def restore(self, obj: Any) -> None:
        self._assumed.pop(key_of(obj), None)

    def _prefer_assumed(self, stored: Any) -> T:
        if not self._assumed:
            return stored  # type: ignore[no-any-return]
        key = key_of(stored)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored  # type: ignore[no-any-return]
        if assumed[0] != stored.metadata.resourceVersion:
            del self._assumed[key]
            return stored  # type: ignore[no-any-return]
        return assumed[1]


class VolumeBindingFailed(Exception):
    """Volumes could not be bound. The message becomes the text of the event."""


@dataclass(slots=True)
class PodVolumes:
    node: str
    volumes: list[PersistentVolume]
    """Modified copies, each with a claimRef to the claim that it is chosen for."""
    claims: list[PersistentVolumeClaim]
    """Modified copies, each annotated with the node to provision a volume for."""
    pairs: list[tuple[str, PersistentVolumeClaim]]
    """Names of volumes with the claims that they are chosen for."""

    @classmethod
    def build(
        cls,
        static: Sequence[tuple[PersistentVolumeClaim, PersistentVolume]],
        to_provision: Sequence[PersistentVolumeClaim],
        node: str,
    ) -> PodVolumes:
        changed = [bind_volume(volume, claim) for claim, volume in static]
        claims = []
        for claim in to_provision:
            copy = copy_of(claim)
            copy.metadata.annotations[SELECTED_NODE] = node
            claims.append(copy)
        pairs = [(volume.metadata.name, claim) for claim, volume in static]
        return cls(node, [volume for volume in changed if volume is not None], claims, pairs)


class SchedulerVolumeBinder:
    def __init__(
        self,
        *,
        client: Client,
        clock: Clock,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        table: NodeTable,
    ) -> None:
        self._clock, self._table = clock, table
        self._claim_client, self._volume_client = (
            client.for_kind(PersistentVolumeClaim),
            client.for_kind(PersistentVolume),
        )
        self._claims, self._volumes = claims.lister, volumes.lister
        self._waiting: set[asyncio.Event] = set()
        claims.subscribe(self._on_object_changed)
        volumes.subscribe(self._on_object_changed)

    async def bind_pod_volumes(self, pod_volumes: PodVolumes, timeout_s: float) -> None:
        try:
            written = [await self._volume_client.update(volume) for volume in pod_volumes.volumes]
            claims = [await self._claim_client.update(claim) for claim in pod_volumes.claims]
        except (errors.ApiError, ConnectionFailed) as error:
            raise VolumeBindingFailed(str(error)) from error
        versions = _WrittenVersions(
            {volume.metadata.name: volume.metadata.resourceVersion for volume in written},
            {claim.metadata.name: claim.metadata.resourceVersion for claim in claims},
        )
        await self._wait(pod_volumes, versions, timeout_s)

    async def _wait(self, pod_volumes: PodVolumes, versions: _WrittenVersions, timeout_s: float) -> None:
        changed = asyncio.Event()
        self._waiting.add(changed)
        is_late = False
        try:
            async with asyncio.TaskGroup() as group:
                timer = group.create_task(self._clock.sleep(timeout_s))
                timer.add_done_callback(lambda _: changed.set())
                while (message := self._progress(pod_volumes, versions)) is None and not is_late:
                    changed.clear()
                    is_late = timer.done() or (await changed.wait() and timer.done())
                timer.cancel()
        finally:
            self._waiting.discard(changed)
        if message or is_late:
            raise VolumeBindingFailed(f"binding volumes: {message or 'context deadline exceeded'}")

    def _progress(self, pod_volumes: PodVolumes, versions: _WrittenVersions) -> str | None:
        """Return an error message, an empty string if everything is bound, or None while binding is in progress."""
        try:
            return "" if self._is_done(pod_volumes, versions) else None
        except VolumeBindingFailed as error:
            return str(error)

    def _is_done(self, pod_volumes: PodVolumes, versions: _WrittenVersions) -> bool:
        return all(
            self._is_static_bound(name, claim, pod_volumes, versions) for name, claim in pod_volumes.pairs
        ) and all(self._is_provisioned(claim, pod_volumes, versions) for claim in pod_volumes.claims)

    def _is_static_bound(
        self, name: str, claim: PersistentVolumeClaim, pod_volumes: PodVolumes, versions: _WrittenVersions
    ) -> bool:
        volume = self._volumes.get(name)
        if volume is None:
            raise VolumeBindingFailed(f'failed to check binding: persistentvolume "{name}" not found')
        if _is_older(volume, versions.volumes.get(name)):
            return False
        self._check_node_affinity(volume, pod_volumes.node)
        if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
            raise VolumeBindingFailed(f'ClaimRef got reset for pv "{name}"')
        return is_bound(self._claim(claim, "failed to check binding"))

    def _is_provisioned(
        self, claim: PersistentVolumeClaim, pod_volumes: PodVolumes, versions: _WrittenVersions
    ) -> bool:
        current = self._claim(claim, "failed to check provisioning pvc")
        if _is_older(current, versions.claims.get(claim.metadata.name)):
            return False
        if current.metadata.annotations.get(SELECTED_NODE) != pod_volumes.node:
            raise VolumeBindingFailed(f'provisioning failed for PVC "{claim.metadata.name}"')
        if current.spec.volumeName:
            volume = self._volumes.get(current.spec.volumeName)
            if volume is None:
                return False
            self._check_node_affinity(volume, pod_volumes.node)
        return is_bound(current)

    def _claim(self, claim: PersistentVolumeClaim, action: str) -> PersistentVolumeClaim:
        current = self._claims.get(claim.metadata.name, claim.metadata.namespace)
        if current is None:
            missing = f'persistentvolumeclaim "{claim.metadata.name}" not found'
            raise VolumeBindingFailed(f"{action}: {missing}")
        return current

    def _check_node_affinity(self, volume: PersistentVolume, node: str) -> None:
        row = self._table.rows.get(node)
        if row is None:
            raise VolumeBindingFailed(f'failed to get node "{node}": node "{node}" not found')
        if not can_access(self._table, volume, np.array([row], dtype=np.intp))[0]:
            mismatch = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}"'
            raise VolumeBindingFailed(f"{mismatch}: no matching NodeSelectorTerms")

    def _on_object_changed(self, old: Any, new: Any) -> None:
        for event in self._waiting:
            event.set()


@dataclass(frozen=True, slots=True)
class _WrittenVersions:
    """The resource versions of the objects that were written. Older versions in the cache are ignored."""

    volumes: dict[str, str]
    claims: dict[str, str]


def _is_older(obj: Any, version: str | None) -> bool:
    return version is not None and int(obj.metadata.resourceVersion) < int(version)
