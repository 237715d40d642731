"""persistentvolume-binder-controller, which binds claims and volumes to each other.

`sampan.machinery.volumes` and `verdicts` decide; `writes`, `provisioning` and `reclaiming` act.
"""

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import StorageClass
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.storage import verdicts
from sampan.controllers.storage.plugins import HostPath, LocalPath, Plugins, VolumeError
from sampan.controllers.storage.provisioning import Provisioning
from sampan.controllers.storage.reclaiming import Reclaiming
from sampan.controllers.storage.verdicts import Word
from sampan.controllers.storage.writes import Writes
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import Key, key_of
from sampan.machinery.volumes.claims_of_pods import by_claim
from sampan.machinery.volumes.classes import (
    class_of_claim,
    class_of_volume,
    default_of,
    names_class,
    waits_for_consumer,
)
from sampan.machinery.volumes.matching import best_match
from sampan.machinery.volumes.words import (
    AVAILABLE,
    BIND_COMPLETED,
    BOUND,
    DELETE,
    FAILED,
    LOST,
    PENDING,
    RELEASED,
)

SOURCE = "persistentvolume-controller"
_ENDED = ("Succeeded", "Failed")


class ClaimKey(NamedTuple):
    claim: Key


class VolumeKey(NamedTuple):
    volume: str


class _Taken(Exception):
    """The matching volume is being bound to another claim; the sync is retried."""


def _looks_for_volume(claim: PersistentVolumeClaim) -> bool:
    return not claim.spec.volumeName and BIND_COMPLETED not in claim.metadata.annotations


def _looking_by_class(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the class of a claim that has no volume yet; an index function."""
    return (class_of_claim(claim),) if _looks_for_volume(claim) else ()


def _free_by_class(volume: PersistentVolume) -> Iterable[Hashable]:
    """Return the class of a volume that is available; an index function."""
    is_free = volume.spec.claimRef is None and volume.status.phase == AVAILABLE
    return (class_of_volume(volume),) if is_free else ()


def _by_named_claim(volume: PersistentVolume) -> Iterable[Hashable]:
    """Return the claim that a volume names; an index function."""
    ref = volume.spec.claimRef
    return (Key(ref.namespace, ref.name),) if ref is not None else ()


def _keys_of_claim(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    yield ClaimKey(key_of(claim))
    if claim.spec.volumeName:
        yield VolumeKey(claim.spec.volumeName)


class PersistentVolumeBinderController:
    name = "persistentvolume-binder-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, plugins: Plugins) -> None:
        self._claims, self._volumes = informers.of(PersistentVolumeClaim).lister, informers.of(PersistentVolume).lister
        self._classes, self._pods = informers.of(StorageClass).lister, informers.of(Pod).lister
        for index in (_free_by_class, _by_named_claim):
            self._volumes.add_index(index)
        self._claims.add_index(_looking_by_class)
        self._pods.add_index(by_claim)
        self._writes = Writes(client=client, events=events)
        nodes, activity = informers.of(Node).lister, informers.activity
        self._provisioning = Provisioning(writes=self._writes, plugins=plugins, nodes=nodes, activity=activity)
        self._reclaiming = Reclaiming(writes=self._writes, plugins=plugins, activity=activity)
        self._taken: dict[str, str] = {}
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
            self._taken.pop(volume.metadata.name, None)
        for claim_key in _by_named_claim(volume):
            yield ClaimKey(claim_key)  # type: ignore[arg-type]
        for class_name in _free_by_class(volume):
            yield from self._looking(class_name)

    def _keys_of_class(self, found: StorageClass) -> Iterable[Hashable]:
        yield from self._looking(found.metadata.name)
        yield from self._looking("")

    def _looking(self, name: Hashable) -> Iterable[Hashable]:
        return [ClaimKey(key_of(claim)) for claim in self._claims.find(_looking_by_class, name)]

    async def reconcile(self, key: Any) -> None:
        try:
            if isinstance(key, ClaimKey):
                await self._look_at_claim(key.claim)
            else:
                await self._look_at_volume(key.volume)
        except errors.NotFound:
            return
        except (VolumeError, _Taken) as error:
            raise errors.unexpected(str(error)) from error

    # -- claims ------------------------------------------------------------------------------------------------------

    async def _look_at_claim(self, key: Key) -> None:
        claim = self._claims.by_key(key)
        if claim is None:
            return
        verdict = self._judged(claim)
        match verdict:
            case verdicts.Bind(volume):
                await self._bind(volume, claim)
            case verdicts.TakeClass(name):
                changed = copy_of(claim)
                changed.spec.storageClassName = name
                await self._writes.claims.update(changed)
            case verdicts.Provision():
                await self._provisioning.provision(claim, self._classes.get(class_of_claim(claim)))
            case verdicts.Lose(word):
                if claim.status.phase != LOST:
                    self._writes.say(await self._writes.claim_in(claim, LOST), word)
            case verdicts.Wait():
                await self._wait(claim, verdict)

    def _judged(self, claim: PersistentVolumeClaim) -> verdicts.ClaimVerdict:
        volume = self._volumes.get(claim.spec.volumeName) if claim.spec.volumeName else None
        if BIND_COMPLETED in claim.metadata.annotations:
            return verdicts.on_bound_claim(claim, volume)
        if claim.spec.volumeName:
            return verdicts.on_naming_claim(claim, volume)
        waits = waits_for_consumer(self._classes.get(class_of_claim(claim)))
        default = None if names_class(claim) else default_of(self._classes)
        return verdicts.on_new_claim(claim, self._match(claim, only_named=waits), default, waits=waits)

    def _match(self, claim: PersistentVolumeClaim, *, only_named: bool) -> PersistentVolume | None:
        reserved = self._volumes.find(_by_named_claim, key_of(claim))
        free = () if only_named else self._volumes.find(_free_by_class, class_of_claim(claim))
        return best_match(
            claim, [*reserved, *(volume for volume in free if self._is_free(volume))], only_named=only_named
        )

    def _is_free(self, volume: PersistentVolume) -> bool:
        return volume.metadata.name not in self._taken

    async def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind the volume, and withhold it from other claims until the cache shows the binding."""
        name = volume.metadata.name
        if self._taken.setdefault(name, claim.metadata.uid) != claim.metadata.uid:
            raise _Taken(f"volume {name} is being bound to another claim")
        try:
            await self._writes.bind(volume, claim)
        except BaseException:
            self._taken.pop(name, None)
            raise
        shown = self._volumes.get(name)
        if shown is None or shown.spec.claimRef is not None:
            self._taken.pop(name, None)

    async def _wait(self, claim: PersistentVolumeClaim, verdict: verdicts.Wait) -> None:
        word = self._of_consumer(claim) if verdict.for_consumer else verdict.word
        if word is not None:
            self._writes.say(claim, word)
        if verdict.is_failure:
            raise _Taken(word.message if word is not None else "")
        await self._writes.claim_in(claim, PENDING)

    def _of_consumer(self, claim: PersistentVolumeClaim) -> Word:
        pods = [pod for pod in self._pods.find(by_claim, key_of(claim)) if pod.status.phase not in _ENDED]
        names = [pod.metadata.name for pod in pods if not pod.spec.nodeName]
        if not names:
            return Word(NORMAL, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        subject = f"pods {','.join(names)}" if len(names) > 1 else f"pod {names[0]}"
        return Word(NORMAL, "WaitForPodScheduled", f"waiting for {subject} to be scheduled")

    # -- volumes -----------------------------------------------------------------------------------------------------

    async def _look_at_volume(self, name: str) -> None:
        volume = self._volumes.get(name)
        if volume is None or name in self._taken:
            return
        if volume.spec.persistentVolumeReclaimPolicy != DELETE:
            volume = await self._reclaiming.let_go(volume)
        claim = await self._claim_of(volume)
        match verdicts.on_volume(volume, claim):
            case verdicts.Offer():
                await self._writes.volume_in(volume, AVAILABLE)
            case verdicts.Keep():
                await self._writes.volume_in(volume, BOUND)
            case verdicts.Reclaim():
                await self._reclaiming.reclaim(volume)
            case verdicts.Unbind():
                await self._writes.unbind(volume)
            case verdicts.LookAtClaim(mismatch=True):
                self._tell_mismatch(volume, claim)

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

    def _tell_mismatch(self, volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> None:
        if claim is None:
            return
        start, end = "Cannot bind PersistentVolume", "due to incompatible volumeMode."
        of_volume = f'{start} to requested PersistentVolumeClaim "{claim.metadata.name}" {end}'
        of_claim = f'{start} "{volume.metadata.name}" to requested PersistentVolumeClaim {end}'
        self._writes.say(volume, Word(WARNING, "VolumeMismatch", of_volume))
        self._writes.say(claim, Word(WARNING, "VolumeMismatch", of_claim))


def make(context: ControllerContext) -> PersistentVolumeBinderController:
    plugins = Plugins([LocalPath(root=context.config.local_volume_root), HostPath()])
    return context.build(PersistentVolumeBinderController, plugins=plugins)
