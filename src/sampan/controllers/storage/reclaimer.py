"""Reclaiming of released volumes according to their reclaim policy."""

from sampan.api.types.core_v1 import PersistentVolume
from sampan.controllers.storage.binding_decisions import EventText
from sampan.controllers.storage.plugins import Plugins, VolumeError
from sampan.controllers.storage.writes import Writes
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import Delete
from sampan.machinery.copies import copy_of
from sampan.machinery.events import WARNING
from sampan.machinery.volumes.volume_annotations import DELETE, DELETION_FINALIZER, FAILED, RECYCLE, RELEASED, RETAIN

_NO_RECYCLER = EventText(WARNING, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
_UNKNOWN = EventText(WARNING, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")


class VolumeReclaimer:
    def __init__(self, *, writes: Writes, plugins: Plugins, activity: Activity) -> None:
        self._writes, self._plugins, self._activity = writes, plugins, activity

    async def reclaim(self, volume: PersistentVolume) -> None:
        if volume.status.phase not in (RELEASED, FAILED):
            volume = await self._writes.volume_in(volume, RELEASED)
        policy = volume.spec.persistentVolumeReclaimPolicy
        if policy == DELETE:
            await self._delete(volume)
        elif policy == RECYCLE:
            await self._writes.volume_in(volume, FAILED, _NO_RECYCLER)
        elif policy != RETAIN:
            await self._writes.volume_in(volume, FAILED, _UNKNOWN)

    async def _delete(self, volume: PersistentVolume) -> None:
        try:
            plugin = self._plugins.remover(volume)
        except VolumeError as error:
            await self._writes.volume_in(volume, FAILED, EventText(WARNING, "VolumeFailedDelete", str(error)))
            return
        if plugin is None:
            return
        try:
            with self._activity:
                await plugin.remove(volume)
        except VolumeError as error:
            await self._writes.volume_in(volume, FAILED, EventText(WARNING, "VolumeFailedDelete", str(error)))
            raise
        await self._forget(volume)

    async def _forget(self, volume: PersistentVolume) -> None:
        """Delete the PersistentVolume after its storage was deleted."""
        try:
            volume = await self.remove_deletion_finalizer(volume)
            if volume.metadata.deletionTimestamp is None:
                options = Delete(uid=volume.metadata.uid)
                await self._writes.volumes.delete(volume.metadata.name, options=options)
        except errors.NotFound:
            return

    async def remove_deletion_finalizer(self, volume: PersistentVolume) -> PersistentVolume:
        """Remove the finalizer that delays the deletion of the PersistentVolume until its storage is deleted."""
        if DELETION_FINALIZER not in volume.metadata.finalizers:
            return volume
        changed = copy_of(volume)
        changed.metadata.finalizers.remove(DELETION_FINALIZER)
        return await self._writes.volumes.update(changed)
