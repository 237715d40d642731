"""The controllers that a storage vendor runs beside its CSI driver: a provisioner, a resizer and an attacher, reduced
to what the tests need."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass, VolumeAttachment
from sampan.machinery.client import Client, DeleteParameters, PatchType
from sampan.machinery.informer import InformerFactory

PROVISIONER, SELECTED = "volume.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
ZONE = "topology.example.com/zone"


class Vendor:
    def __init__(self, *, client: Client, driver: str, data: Path) -> None:
        self._client, self._driver, self._data = client, driver, data
        self._work: asyncio.Queue[Any] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with InformerFactory(client=self._client) as informers, asyncio.TaskGroup() as group:
            for kind in (PersistentVolumeClaim, PersistentVolume, VolumeAttachment):
                informers.for_kind(kind).subscribe(
                    lambda old, new: self._work.put_nowait(new) if new is not None else None
                )
            task = group.create_task(self._run())
            yield
            task.cancel()

    async def _run(self) -> None:
        while True:
            claim = await self._work.get()
            if isinstance(claim, PersistentVolumeClaim):
                await self._provision(claim)
                await self._resize(claim)
            elif isinstance(claim, PersistentVolume):
                await self._reclaim(claim)
            else:
                await self._attach(claim)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        notes = claim.metadata.annotations
        if claim.spec.volumeName or notes.get(PROVISIONER) != self._driver or SELECTED not in notes:
            return
        name = f"pvc-{claim.metadata.uid}"
        (self._data / name).mkdir(parents=True, exist_ok=True)
        zone = (await self._client.for_kind(Node).get(notes[SELECTED])).metadata.labels[ZONE]
        kept = await self._client.for_kind(StorageClass).get(claim.spec.storageClassName or "")
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        spec = {
            "accessModes": claim.spec.accessModes,
            "capacity": {"storage": claim.spec.resources.requests["storage"]},
            "csi": {"driver": self._driver, "volumeHandle": name, "fsType": "ext4"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "persistentVolumeReclaimPolicy": kept.reclaimPolicy,
            "storageClassName": kept.metadata.name,
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "namespace": claim.metadata.namespace,
                "name": claim.metadata.name,
                "uid": claim.metadata.uid,
            },
        }
        meta = {"name": name, "annotations": {PROVISIONED_BY: self._driver}}
        volume = json.from_value({"metadata": meta, "spec": spec}, PersistentVolume)
        await self._client.for_kind(PersistentVolume).create(volume)

    async def _resize(self, claim: PersistentVolumeClaim) -> None:
        """Grant the requested size, and leave the expansion of the file system to the node."""
        status, name = claim.status, claim.spec.volumeName
        requested, has = claim.spec.resources.requests["storage"], status.capacity.get("storage", "")
        if status.phase != "Bound" or requested == has or status.allocatedResourceStatuses:
            return
        capacity = {"spec": {"capacity": {"storage": requested}}}
        await self._client.for_kind(PersistentVolume).patch(name, capacity, type=PatchType.MERGE)
        patch = {
            "allocatedResources": {"storage": requested},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
        }
        await self._client.for_kind(PersistentVolumeClaim).patch(
            claim.metadata.name, {"status": patch}, claim.metadata.namespace, type=PatchType.MERGE, subresource="status"
        )

    async def _reclaim(self, volume: PersistentVolume) -> None:
        source = volume.spec.csi
        if volume.status.phase != "Released" or source is None or volume.metadata.deletionTimestamp is not None:
            return
        if volume.spec.persistentVolumeReclaimPolicy == "Delete":
            shutil.rmtree(self._data / source.volumeHandle)
            await self._client.for_kind(PersistentVolume).delete(volume.metadata.name, options=DeleteParameters())

    async def _attach(self, attachment: VolumeAttachment) -> None:
        if attachment.spec.attacher != self._driver or attachment.status.attached:
            return
        status = {"status": {"attached": True, "attachmentMetadata": {"device": "/dev/vdx"}}}
        await self._client.for_kind(VolumeAttachment).patch(
            attachment.metadata.name, status, type=PatchType.MERGE, subresource="status"
        )
