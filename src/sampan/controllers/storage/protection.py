"""The controllers that keep PersistentVolumeClaims, PersistentVolumes and VolumeAttributesClasses while they are in use
(`pkg/controller/volume/pvcprotection`, `pvprotection` and `vacprotection`)."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from sampan.api.semantics.owners import is_controlled_by
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import VolumeAttributesClass
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.storage.claim_usage import has_usage, lacks_usage, with_usage
from sampan.host.clock import Clock
from sampan.host.time_slice import TimeSlice
from sampan.machinery import errors
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.client.client import ResourceClient
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import by_claim, claim_name_of, claim_names_of, ephemeral_claim_name


def is_deletion_candidate(obj: Any, finalizer: str) -> bool:
    """Whether the object is being deleted and has this finalizer."""
    return obj.metadata.deletionTimestamp is not None and finalizer in obj.metadata.finalizers


def needs_finalizer(obj: Any, finalizer: str) -> bool:
    """Whether the object is not being deleted and lacks the finalizer, as if created before admission added it."""
    return obj.metadata.deletionTimestamp is None and finalizer not in obj.metadata.finalizers


def needs_finalizer_change(obj: Any, finalizer: str) -> bool:
    return is_deletion_candidate(obj, finalizer) or needs_finalizer(obj, finalizer)


async def protect(objects: ResourceClient[Any], obj: Any, finalizer: str) -> None:
    await _write(objects, obj, [*obj.metadata.finalizers, finalizer])


async def release(objects: ResourceClient[Any], obj: Any, finalizer: str) -> None:
    await _write(objects, obj, [name for name in obj.metadata.finalizers if name != finalizer])


async def _write(objects: ResourceClient[Any], obj: Any, finalizers: list[str]) -> None:
    changed = copy_of(obj)
    changed.metadata.finalizers = finalizers
    try:
        await objects.update(changed)
    except errors.NotFound:
        return


CLAIM_FINALIZER = "kubernetes.io/pvc-protection"


def is_shut_down(pod: Pod) -> bool:
    """Whether the kubelet has finished with the pod or it was force-deleted, so that only finalizers keep it."""
    return pod.metadata.deletionTimestamp is not None and pod.metadata.deletionGracePeriodSeconds == 0


async def find_used_claims(pods: Iterable[Pod], claims: Sequence[PersistentVolumeClaim]) -> set[str]:
    """Return the names of the claims that the pods use. All are in one namespace. Unscheduled pods use no claim: no
    kubelet starts a pod whose claim is being deleted."""
    by_name = {claim.metadata.name: claim for claim in claims}
    used: set[str] = set()
    async for pod in TimeSlice().iterate(pod for pod in pods if pod.spec.nodeName):
        for volume in pod.spec.volumes:
            claim = by_name.get(claim_name_of(pod, volume))
            if claim is not None and _is_claim_of_volume(claim, volume, pod):
                used.add(claim.metadata.name)
    return used


def _is_claim_of_volume(claim: PersistentVolumeClaim, volume: Any, pod: Pod) -> bool:
    name = claim.metadata.name
    if volume.persistentVolumeClaim is not None:
        return bool(volume.persistentVolumeClaim.claimName == name)
    if volume.ephemeral is None or is_shut_down(pod):
        return False
    return ephemeral_claim_name(pod, volume) == name and is_controlled_by(claim, pod)


def _unsynced_claims_by_namespace(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the namespace of a claim that needs its finalizer added or removed; an index function."""
    return (claim.metadata.namespace,) if needs_finalizer_change(claim, CLAIM_FINALIZER) else ()


class ClaimProtectionController:
    """Keeps the finalizers of claims, with a namespace as key, and their condition Unused, with a claim as key."""

    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, config: ControllerConfig) -> None:
        self._clock = clock
        self._reports_usage = config.feature_gates.is_enabled("PersistentVolumeClaimUnusedSinceTime")
        self._writes = OwnWrites()
        if self._reports_usage:
            self._writes.follow(informers.for_kind(PersistentVolumeClaim))
        self._client, self._claims = client, client.for_kind(PersistentVolumeClaim)
        self._known = informers.for_kind(PersistentVolumeClaim).lister
        self._pods = informers.for_kind(Pod).lister
        self._known.add_index(_unsynced_claims_by_namespace)
        self._pods.add_index(by_claim)
        self.watches = (
            Watch(resource_of(PersistentVolumeClaim), self._claim_keys),
            Watch(resource_of(Pod), self._pod_keys),
        )

    def _claim_keys(self, claim: PersistentVolumeClaim) -> Iterable[Hashable]:
        yield from _unsynced_claims_by_namespace(claim)
        if self._reports_usage and lacks_usage(claim):
            yield key_of(claim)

    def _pod_keys(self, pod: Pod) -> Iterable[Hashable]:
        yield from self._unsynced_namespace_keys(pod)
        if self._reports_usage:
            yield from by_claim(pod)

    def _unsynced_namespace_keys(self, pod: Pod) -> Iterable[Hashable]:
        if next(claim_names_of(pod), None) is None:
            return ()
        namespace = pod.metadata.namespace
        return (namespace,) if self._known.find(_unsynced_claims_by_namespace, namespace) else ()

    async def reconcile(self, key: str | NamespacedName) -> None:
        if isinstance(key, NamespacedName):
            await self._report_usage(key)
            return
        claims = self._known.find(_unsynced_claims_by_namespace, key)
        for claim in claims:
            if needs_finalizer(claim, CLAIM_FINALIZER):
                await protect(self._claims, claim, CLAIM_FINALIZER)
        await self._release([claim for claim in claims if is_deletion_candidate(claim, CLAIM_FINALIZER)], key)

    async def _report_usage(self, key: NamespacedName) -> None:
        claim = self._known.get_by_key(key)
        if claim is None or not has_usage(claim) or self._writes.is_stale(claim):
            return
        changed = with_usage(claim, self._pods.find(by_claim, key), self._clock.now())
        if changed is None:
            return
        try:
            self._writes.record_write(await self._claims.update_status(changed))
        except errors.NotFound:
            return

    async def _release(self, claims: Sequence[PersistentVolumeClaim], namespace: str) -> None:
        used = await find_used_claims(self._find_pods(claims), claims)
        unused = [claim for claim in claims if claim.metadata.name not in used]
        if not unused:
            return
        pods = (await self._client.for_kind(Pod).list(Selection(namespace=namespace))).items
        used = await find_used_claims(pods, unused)
        for claim in unused:
            if claim.metadata.name not in used:
                await release(self._claims, claim, CLAIM_FINALIZER)

    def _find_pods(self, claims: Iterable[PersistentVolumeClaim]) -> Iterable[Pod]:
        """Return the pods in the cache that name one of the claims."""
        return {pod.metadata.name: pod for claim in claims for pod in self._pods.find(by_claim, key_of(claim))}.values()


CLASS_FINALIZER = "kubernetes.io/vac-protection"


def claims_by_class(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the requested class, the current one, and the target of a modification in progress."""
    names = {claim.spec.volumeAttributesClassName, claim.status.currentVolumeAttributesClassName}
    if claim.status.modifyVolumeStatus is not None:
        names.add(claim.status.modifyVolumeStatus.targetVolumeAttributesClassName)
    return [name for name in names if name]


def volumes_by_class(volume: PersistentVolume) -> Iterable[Hashable]:
    return (volume.spec.volumeAttributesClassName,) if volume.spec.volumeAttributesClassName else ()


def _unsynced_class_keys(obj: Any) -> Iterable[Hashable]:
    return (obj.metadata.name,) if needs_finalizer_change(obj, CLASS_FINALIZER) else ()


class ClassProtectionController:
    name = "volumeattributesclass-protection-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._classes, self._known = (
            client.for_kind(VolumeAttributesClass),
            informers.for_kind(VolumeAttributesClass).lister,
        )
        self._claims = informers.for_kind(PersistentVolumeClaim).lister
        self._volumes = informers.for_kind(PersistentVolume).lister
        self._claims.add_index(claims_by_class)
        self._volumes.add_index(volumes_by_class)
        self.watches = (
            Watch(resource_of(VolumeAttributesClass), _unsynced_class_keys),
            Watch(resource_of(PersistentVolumeClaim), claims_by_class),
            Watch(resource_of(PersistentVolume), volumes_by_class),
        )

    async def reconcile(self, key: str) -> None:
        attributes_class = self._known.get(key)
        if attributes_class is None:
            return
        if needs_finalizer(attributes_class, CLASS_FINALIZER):
            await protect(self._classes, attributes_class, CLASS_FINALIZER)
        elif is_deletion_candidate(attributes_class, CLASS_FINALIZER) and not self._is_used(key):
            await release(self._classes, attributes_class, CLASS_FINALIZER)

    def _is_used(self, name: str) -> bool:
        return bool(self._claims.find(claims_by_class, name) or self._volumes.find(volumes_by_class, name))


VOLUME_FINALIZER = "kubernetes.io/pv-protection"
_BOUND = "Bound"


def _unsynced_volume_keys(volume: PersistentVolume) -> Iterable[Hashable]:
    return (volume.metadata.name,) if needs_finalizer_change(volume, VOLUME_FINALIZER) else ()


class VolumeProtectionController:
    name = "persistentvolume-protection-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._volumes, self._known = client.for_kind(PersistentVolume), informers.for_kind(PersistentVolume).lister
        self.watches = (Watch(resource_of(PersistentVolume), _unsynced_volume_keys),)

    async def reconcile(self, key: str) -> None:
        volume = self._known.get(key)
        if volume is None:
            return
        if needs_finalizer(volume, VOLUME_FINALIZER):
            await protect(self._volumes, volume, VOLUME_FINALIZER)
        elif is_deletion_candidate(volume, VOLUME_FINALIZER) and volume.status.phase != _BOUND:
            await release(self._volumes, volume, VOLUME_FINALIZER)
