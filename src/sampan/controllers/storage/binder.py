"""persistentvolume-binder-controller, which binds claims and volumes to each other.

`sampan.machinery.volumes` and `binding_decisions` decide; `writes` and `provisioner` act.
"""

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.storage import binding_decisions
from sampan.controllers.storage.binding_decisions import EventText
from sampan.controllers.storage.plugins import HostPath, LocalPath, ProvisionerPlugins, VolumeError
from sampan.controllers.storage.provisioner import Provisioner, VolumeReclaimer
from sampan.controllers.storage.writes import BindingWriter
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import (
    AVAILABLE,
    BIND_COMPLETED,
    BOUND,
    DELETE,
    FAILED,
    LOST,
    PENDING,
    RELEASED,
    best_match,
    by_claim,
    class_of_claim,
    class_of_volume,
    default_of,
    names_class,
    waits_for_consumer,
)

_TERMINAL_PHASES = ("Succeeded", "Failed")


class ClaimKey(NamedTuple):
    claim: NamespacedName


class VolumeKey(NamedTuple):
    volume: str


class _VolumeUnavailable(Exception):
    """The matching volume is being bound to another claim; the sync is retried."""


def _looks_for_volume(claim: PersistentVolumeClaim) -> bool:
    return not claim.spec.volumeName and BIND_COMPLETED not in claim.metadata.annotations


def _unbound_by_class(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the class of a claim that has no volume yet; an index function."""
    return (class_of_claim(claim),) if _looks_for_volume(claim) else ()


def _free_by_class(volume: PersistentVolume) -> Iterable[Hashable]:
    """Return the class of a volume that is available; an index function."""
    is_free = volume.spec.claimRef is None and volume.status.phase == AVAILABLE
    return (class_of_volume(volume),) if is_free else ()


def _by_claim_ref(volume: PersistentVolume) -> Iterable[Hashable]:
    """Return the claim that a volume names; an index function."""
    ref = volume.spec.claimRef
    return (NamespacedName(ref.namespace, ref.name),) if ref is not None else ()


def _keys_of_claim(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    yield ClaimKey(key_of(claim))
    if claim.spec.volumeName:
        yield VolumeKey(claim.spec.volumeName)


class PersistentVolumeBinderController:
    name = "persistentvolume-binder-controller"

    def __init__(
        self, *, client: Client, informers: InformerFactory, events: EventRecorder, plugins: ProvisionerPlugins
    ) -> None:
        self._claims, self._volumes = (
            informers.for_kind(PersistentVolumeClaim).lister,
            informers.for_kind(PersistentVolume).lister,
        )
        self._classes, self._pods = informers.for_kind(StorageClass).lister, informers.for_kind(Pod).lister
        for index in (_free_by_class, _by_claim_ref):
            self._volumes.add_index(index)
        self._claims.add_index(_unbound_by_class)
        self._pods.add_index(by_claim)
        self._writes = BindingWriter(client=client, events=events)
        nodes, activity = informers.for_kind(Node).lister, informers.activity
        self._provisioning = Provisioner(writes=self._writes, plugins=plugins, nodes=nodes, activity=activity)
        self._reclaiming = VolumeReclaimer(writes=self._writes, plugins=plugins, activity=activity)
        self._unavailable: dict[str, str] = {}
        """UIDs of the claims to which volumes are being bound while the cache does not show it, by volume name."""
        self.watches = (
            Watch(resource_of(PersistentVolumeClaim), _keys_of_claim),
            Watch(resource_of(PersistentVolume), self._keys_of_volume),
            Watch(resource_of(StorageClass), self._keys_of_class),
            Watch(resource_of(Pod)),
            Watch(resource_of(Node)),
        )

    def _keys_of_volume(self, volume: PersistentVolume) -> Iterable[Hashable]:
        yield VolumeKey(volume.metadata.name)
        if volume.spec.claimRef is not None:
            self._unavailable.pop(volume.metadata.name, None)
        for claim_key in _by_claim_ref(volume):
            yield ClaimKey(claim_key)  # type: ignore[arg-type]
        for class_name in _free_by_class(volume):
            yield from self._unbound_claim_keys(class_name)

    def _keys_of_class(self, storage_class: StorageClass) -> Iterable[Hashable]:
        yield from self._unbound_claim_keys(storage_class.metadata.name)
        yield from self._unbound_claim_keys("")

    def _unbound_claim_keys(self, name: Hashable) -> Iterable[Hashable]:
        return [ClaimKey(key_of(claim)) for claim in self._claims.find(_unbound_by_class, name)]

    async def reconcile(self, key: Any) -> None:
        try:
            if isinstance(key, ClaimKey):
                await self._sync_claim(key.claim)
            else:
                await self._sync_volume(key.volume)
        except errors.NotFound:
            return
        except (VolumeError, _VolumeUnavailable) as error:
            raise errors.unexpected_error(str(error)) from error

    # -- claims ------------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: NamespacedName) -> None:
        claim = self._claims.get_by_key(key)
        if claim is None:
            return
        decision = self._decide_claim(claim)
        match decision:
            case binding_decisions.BindDecision(volume):
                await self._bind(volume, claim)
            case binding_decisions.AssignClassDecision(name):
                changed = copy_of(claim)
                changed.spec.storageClassName = name
                await self._writes.claims.update(changed)
            case binding_decisions.ProvisionDecision():
                await self._provisioning.provision(claim, self._classes.get(class_of_claim(claim)))
            case binding_decisions.LoseDecision(word):
                if claim.status.phase != LOST:
                    self._writes.record_event(await self._writes.claim_in(claim, LOST), word)
            case binding_decisions.WaitDecision():
                await self._wait(claim, decision)

    def _decide_claim(self, claim: PersistentVolumeClaim) -> binding_decisions.ClaimDecision:
        volume = self._volumes.get(claim.spec.volumeName) if claim.spec.volumeName else None
        if BIND_COMPLETED in claim.metadata.annotations:
            return binding_decisions.on_bound_claim(claim, volume)
        if claim.spec.volumeName:
            return binding_decisions.on_naming_claim(claim, volume)
        waits = waits_for_consumer(self._classes.get(class_of_claim(claim)))
        default = None if names_class(claim) else default_of(self._classes)
        return binding_decisions.on_new_claim(claim, self._match(claim, only_named=waits), default, waits=waits)

    def _match(self, claim: PersistentVolumeClaim, *, only_named: bool) -> PersistentVolume | None:
        reserved = self._volumes.find(_by_claim_ref, key_of(claim))
        free = () if only_named else self._volumes.find(_free_by_class, class_of_claim(claim))
        return best_match(
            claim, [*reserved, *(volume for volume in free if self._is_free(volume))], only_named=only_named
        )

    def _is_free(self, volume: PersistentVolume) -> bool:
        return volume.metadata.name not in self._unavailable

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind the volume, and withhold it from other claims until the cache shows the binding."""
        name = volume.metadata.name
        if self._unavailable.setdefault(name, claim.metadata.uid) != claim.metadata.uid:
            raise _VolumeUnavailable(f"volume {name} is being bound to another claim")
        try:
            await self._writes.bind(volume, claim)
        except BaseException:
            self._unavailable.pop(name, None)
            raise
        shown = self._volumes.get(name)
        if shown is None or shown.spec.claimRef is not None:
            self._unavailable.pop(name, None)

    async def _wait(self, claim: PersistentVolumeClaim, decision: binding_decisions.WaitDecision) -> None:
        word = self._make_consumer_event(claim) if decision.for_consumer else decision.word
        if word is not None:
            self._writes.record_event(claim, word)
        if decision.is_failure:
            raise _VolumeUnavailable(word.message if word is not None else "")
        await self._writes.claim_in(claim, PENDING)

    def _make_consumer_event(self, claim: PersistentVolumeClaim) -> EventText:
        pods = [pod for pod in self._pods.find(by_claim, key_of(claim)) if pod.status.phase not in _TERMINAL_PHASES]
        names = [pod.metadata.name for pod in pods if not pod.spec.nodeName]
        if not names:
            return EventText(NORMAL, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        subject = f"pods {','.join(names)}" if len(names) > 1 else f"pod {names[0]}"
        return EventText(NORMAL, "WaitForPodScheduled", f"waiting for {subject} to be scheduled")

    # -- volumes -----------------------------------------------------------------------------------------------------

    async def _sync_volume(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None or name in self._unavailable:
            return
        if volume.spec.persistentVolumeReclaimPolicy != DELETE:
            volume = await self._reclaiming.remove_deletion_finalizer(volume)
        claim = await self._claim_of(volume)
        match binding_decisions.on_volume(volume, claim):
            case binding_decisions.OfferDecision():
                await self._writes.volume_in(volume, AVAILABLE)
            case binding_decisions.KeepDecision():
                await self._writes.volume_in(volume, BOUND)
            case binding_decisions.ReclaimDecision():
                await self._reclaiming.reclaim(volume)
            case binding_decisions.UnbindDecision():
                await self._writes.unbind(volume)
            case binding_decisions.SyncClaimDecision(mismatch=True):
                self._record_mismatch(volume, claim)

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """Return the claim with the UID that the volume names, checking live before it is considered deleted."""
        ref = volume.spec.claimRef
        if ref is None or not ref.uid:
            return None
        claim = self._claims.get(ref.name, ref.namespace)
        if claim is not None and claim.metadata.uid == ref.uid:
            return claim
        if claim is None and volume.status.phase in (RELEASED, FAILED):
            return None
        try:
            claim = await self._writes.claims.get(ref.name, ref.namespace)
        except errors.NotFound:
            return None
        return claim if claim.metadata.uid == ref.uid else None

    def _record_mismatch(self, volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> None:
        if claim is None:
            return
        start, end = "Cannot bind PersistentVolume", "due to incompatible volumeMode."
        of_volume = f'{start} to requested PersistentVolumeClaim "{claim.metadata.name}" {end}'
        of_claim = f'{start} "{volume.metadata.name}" to requested PersistentVolumeClaim {end}'
        self._writes.record_event(volume, EventText(WARNING, "VolumeMismatch", of_volume))
        self._writes.record_event(claim, EventText(WARNING, "VolumeMismatch", of_claim))


def make(context: ControllerContext) -> PersistentVolumeBinderController:
    config = context.config
    host_path = HostPath(provisions=config.enable_hostpath_provisioner)
    plugins = ProvisionerPlugins([LocalPath(root=config.local_volume_root), host_path])
    return context.build(PersistentVolumeBinderController, plugins=plugins)
