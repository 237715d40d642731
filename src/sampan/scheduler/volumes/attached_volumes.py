"""Incrementally maintained counts of CSI volumes per row and driver, from pods and from VolumeAttachments.

A row is recounted when its pods change, or a claim, volume or attachment that refers to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import StorageClass, VolumeAttachment
from sampan.machinery.informer import Informer, Lister
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import claim_name_of, class_of_claim
from sampan.scheduler.cache.arrays import Ints, Rows, grow_array, numbers_of
from sampan.scheduler.cache.node_attributes import volumes_with_claims
from sampan.scheduler.cache.node_table import NodeTable

Handle = tuple[str, str]
"""The CSI driver and the volume handle."""


def by_node(attachment: VolumeAttachment) -> Iterable[Hashable]:
    return (attachment.spec.nodeName,)


class CsiVolumes:
    """Resolves claims to their CSI driver and volume handle."""

    def __init__(
        self, claims: Lister[PersistentVolumeClaim], volumes: Lister[PersistentVolume], classes: Lister[StorageClass]
    ) -> None:
        self._claims, self._volumes, self._classes = claims, volumes, classes

    def list_pod_handles(self, pod: Pod, volumes: Iterable[Any]) -> Iterator[Handle]:
        for volume in volumes:
            claim = self._claims.get(claim_name_of(pod, volume), pod.metadata.namespace)
            handle = self.find_claim_handle(claim) if claim is not None else None
            if handle is not None:
                yield handle

    def find_claim_handle(self, claim: PersistentVolumeClaim) -> Handle | None:
        """Return the driver and volume handle; an unbound claim counts by the provisioner of its storage class."""
        volume = self.volume(claim.spec.volumeName) if claim.spec.volumeName else None
        if volume is not None:
            return (volume.spec.csi.driver, volume.spec.csi.volumeHandle) if volume.spec.csi is not None else None
        name = class_of_claim(claim)
        storage_class = self._classes.get(name) if name else None
        return (
            (storage_class.provisioner, f"to be provisioned for {key_of(claim)}") if storage_class is not None else None
        )

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)


class AttachedVolumes:
    def __init__(
        self,
        *,
        table: NodeTable,
        csi: CsiVolumes,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        attachments: Informer[VolumeAttachment],
    ) -> None:
        self._table, self._csi, self._attachments = table, csi, attachments.lister
        self._counts: dict[str, Ints] = {}
        """The number of volumes of each row, by driver."""
        self._of_row: dict[int, frozenset[Handle]] = {}
        self._rows_with: dict[Handle, set[int]] = {}
        self._pods_at = self._nodes_at = -1
        self._stale: set[int] = set()
        claims.subscribe(self._on_claim_changed)
        volumes.subscribe(self._on_volume_changed)
        attachments.subscribe(self._on_attachment_changed)

    def count(self, driver: str, rows: Rows) -> Ints:
        self._refresh()
        counts = self._counts.get(driver)
        if counts is None:
            return np.zeros(len(numbers_of(rows)), dtype=np.int64)
        counted: Ints = counts[rows]
        return counted

    def is_volume_used(self, handle: Handle, rows: Rows) -> Any:
        """Return whether pods of each row already use the volume; an attachment alone does not count."""
        self._refresh()
        return np.isin(numbers_of(rows), list(self._rows_with.get(handle, ())))

    def _refresh(self) -> None:
        table = self._table
        pods, nodes = table.pod_log.list_changes_since(self._pods_at), table.node_log.list_changes_since(self._nodes_at)
        self._pods_at, self._nodes_at = table.pod_log.position, table.node_log.position
        if pods is None or nodes is None or self._pods_at < 0:
            stale: Iterable[int] = range(table.used)
        else:
            stale = {*pods.tolist(), *nodes.tolist(), *self._stale}
        self._stale.clear()
        for driver, counts in self._counts.items():
            if len(counts) < table.size:
                self._counts[driver] = grow_array(counts, table.size)
        for row in stale:
            self._recount(row)

    def _recount(self, row: int) -> None:
        used = frozenset(self._list_used_handles(row))
        before = self._of_row.get(row, frozenset())
        for handle in before - used:
            self._rows_with[handle].discard(row)
            if not self._rows_with[handle]:
                del self._rows_with[handle]
        for handle in used - before:
            self._rows_with.setdefault(handle, set()).add(row)
        self._of_row[row] = used
        for counts in self._counts.values():
            counts[row] = 0
        for driver, _ in used | set(self._list_attached_handles(row)):
            if driver not in self._counts:
                self._counts[driver] = np.zeros(self._table.size, dtype=np.int64)
            self._counts[driver][row] += 1

    def _list_used_handles(self, row: int) -> Iterator[Handle]:
        for info in self._table.pods[row].values():
            volumes = info.signature.parse_once("claiming volumes", volumes_with_claims)
            if volumes:
                yield from self._csi.list_pod_handles(info.pod, volumes)

    def _list_attached_handles(self, row: int) -> Iterator[Handle]:
        for attachment in self._attachments.find(by_node, self._table.names[row]):
            volume = self._csi.volume(attachment.spec.source.persistentVolumeName or "")
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                yield attachment.spec.attacher, volume.spec.csi.volumeHandle

    def _on_claim_changed(self, old: Any, new: Any) -> None:
        self._stale.update(self._table.claims.rows(key_of(new or old)))

    def _on_volume_changed(self, old: Any, new: Any) -> None:
        claim = (new or old).spec.claimRef
        if claim is not None:
            self._stale.update(self._table.claims.rows(NamespacedName(claim.namespace, claim.name)))

    def _on_attachment_changed(self, old: Any, new: Any) -> None:
        row = self._table.rows.get((new or old).spec.nodeName)
        if row is not None:
            self._stale.add(row)
