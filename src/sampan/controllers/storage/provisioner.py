"""Provisioning of volumes for claims, by a plugin or an external provisioner, and reclaiming of released volumes."""

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.storage.binding_decisions import EventText
from sampan.controllers.storage.plugins import ProvisionerPlugins, VolumeError, VolumeOptions, VolumePlugin
from sampan.controllers.storage.writes import BindingWriter
from sampan.host.activity import Activity
from sampan.machinery import errors
from sampan.machinery.client import DeleteParameters
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING
from sampan.machinery.informer import Lister
from sampan.machinery.volumes import (
    BETA_STORAGE_PROVISIONER,
    BOUND_BY_CONTROLLER,
    DELETE,
    DELETION_FINALIZER,
    FAILED,
    PROVISIONED_BY,
    RECYCLE,
    RELEASED,
    RETAIN,
    SELECTED_NODE,
    STORAGE,
    STORAGE_PROVISIONER,
    YES,
    class_of_claim,
    reference_to,
)

PROVISIONING_FAILED = "ProvisioningFailed"
_EXTERNAL = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)
_NO_RECYCLER = EventText(WARNING, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
_UNKNOWN = EventText(WARNING, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")


def volume_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def build_volume(options: VolumeOptions, special: PersistentVolumeSpec, maker: str) -> PersistentVolume:
    """Return the PersistentVolume to create."""
    claim, policy = options.claim, options.storage_class.reclaimPolicy or DELETE
    spec = copy_of(special)
    requests = claim.spec.resources.requests if claim.spec.resources is not None else {}
    spec.capacity = {STORAGE: requests.get(STORAGE, "0")}
    spec.accessModes = list(claim.spec.accessModes)
    spec.volumeMode = claim.spec.volumeMode
    spec.persistentVolumeReclaimPolicy = policy
    spec.storageClassName = class_of_claim(claim)
    spec.claimRef = reference_to(claim)
    meta = ObjectMeta(
        name=options.name,
        annotations={BOUND_BY_CONTROLLER: YES, PROVISIONED_BY: maker},
        finalizers=[DELETION_FINALIZER] if policy == DELETE else [],
    )
    return PersistentVolume(metadata=meta, spec=spec)


class Provisioner:
    def __init__(
        self, *, writes: BindingWriter, plugins: ProvisionerPlugins, nodes: Lister[Node], activity: Activity
    ) -> None:
        self._writes, self._plugins, self._nodes, self._activity = writes, plugins, nodes, activity

    async def provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> None:
        """Provision a volume and record the outcome as an event; raise VolumeError if a retry may succeed."""
        try:
            if storage_class is None:
                raise VolumeError(f'storageclass.storage.k8s.io "{class_of_claim(claim)}" not found')
            plugin = self._plugins.provisioner(storage_class.provisioner)
        except VolumeError as error:
            return self._writes.record_event(claim, EventText(WARNING, PROVISIONING_FAILED, str(error)))
        claim = await self._annotate_provisioner(claim, storage_class.provisioner)
        if plugin is None:
            return self._writes.record_event(
                claim, EventText(NORMAL, "ExternalProvisioning", _EXTERNAL.format(storage_class.provisioner))
            )
        await self._create_volume(claim, storage_class, plugin)

    async def _annotate_provisioner(self, claim: PersistentVolumeClaim, provisioner: str) -> PersistentVolumeClaim:
        """Annotate the claim with its provisioner."""
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) == provisioner:
            return claim
        changed = copy_of(claim)
        changed.metadata.annotations |= {BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
        return await self._writes.claims.update(changed)

    async def _create_volume(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, plugin: VolumePlugin
    ) -> None:
        if await self._exists(volume_name(claim)):
            return
        try:
            request = self._options(claim, storage_class, plugin)
        except VolumeError as error:
            self._writes.record_event(claim, EventText(WARNING, PROVISIONING_FAILED, str(error)))
            raise
        try:
            with self._activity:
                source = await plugin.provision(request)
        except VolumeError as error:
            await self._clear_selected_node(claim)
            failure = f'Failed to provision volume with StorageClass "{storage_class.metadata.name}": {error}'
            self._writes.record_event(claim, EventText(WARNING, PROVISIONING_FAILED, failure))
            raise
        try:
            await self._writes.volumes.create(build_volume(request, source, plugin.name))
        except errors.AlreadyExists:
            return
        message = f"Successfully provisioned volume {request.name} using {plugin.name}"
        self._writes.record_event(claim, EventText(NORMAL, "ProvisioningSucceeded", message))

    def _options(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, plugin: VolumePlugin
    ) -> VolumeOptions:
        if claim.spec.dataSource is not None:
            reason = "is not a CSI plugin. Only CSI plugin can provision a claim with a datasource"
            raise VolumeError(f'plugin "{plugin.name}" {reason}')
        if storage_class.mountOptions:
            options = " ".join(storage_class.mountOptions)
            reason = f'StorageClass "{storage_class.metadata.name}" has mount options [{options}]'
            raise VolumeError(f"Mount options are not supported by the provisioner but {reason}")
        node = None
        if (name := claim.metadata.annotations.get(SELECTED_NODE)) is not None:
            node = self._nodes.get(name)
            if node is None:
                raise VolumeError(f'Failed to get target node: node "{name}" not found')
        return VolumeOptions(name=volume_name(claim), claim=claim, storage_class=storage_class, node=node)

    async def _exists(self, name: str) -> bool:
        try:
            await self._writes.volumes.get(name)
        except errors.NotFound:
            return False
        return True

    async def _clear_selected_node(self, claim: PersistentVolumeClaim) -> None:
        """Remove the selected-node annotation, so that the scheduler can choose another node."""
        if SELECTED_NODE in claim.metadata.annotations:
            changed = copy_of(claim)
            del changed.metadata.annotations[SELECTED_NODE]
            await self._writes.claims.update(changed)


class VolumeReclaimer:
    def __init__(self, *, writes: BindingWriter, plugins: ProvisionerPlugins, activity: Activity) -> None:
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
        await self._delete_volume_object(volume)

    async def _delete_volume_object(self, volume: PersistentVolume) -> None:
        """Delete the PersistentVolume after its storage was deleted."""
        try:
            volume = await self.remove_deletion_finalizer(volume)
            if volume.metadata.deletionTimestamp is None:
                options = DeleteParameters(uid=volume.metadata.uid)
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
