"""ephemeral-volume-controller, which creates the claims of generic ephemeral volumes; pods own them."""

from collections.abc import Hashable, Iterable
from typing import Any

from sampan.api.semantics.owners import is_controlled_by
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import ephemeral_claim_name


def wants_claims(pod: Pod) -> bool:
    return pod.metadata.deletionTimestamp is None and any(volume.ephemeral is not None for volume in pod.spec.volumes)


def claim_for(pod: Pod, volume: Any) -> PersistentVolumeClaim:
    template, meta = volume.ephemeral.volumeClaimTemplate, pod.metadata
    owner = OwnerReference(
        apiVersion="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True, blockOwnerDeletion=True
    )
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=ephemeral_claim_name(pod, volume),
            namespace=meta.namespace,
            ownerReferences=[owner],
            annotations=template.metadata.annotations,
            labels=template.metadata.labels,
        ),
        spec=template.spec,
    )


def format_owner_mismatch(claim: NamespacedName, pod: NamespacedName) -> str:
    return f"PVC {claim} was not created for pod {pod} (pod is not owner)"


def _ephemeral_pod_keys(pod: Pod) -> Iterable[Hashable]:
    return (key_of(pod),) if wants_claims(pod) else ()


def _by_ephemeral_claim(pod: Pod) -> Iterable[Hashable]:
    """Index pods that are not being deleted by the claims of their ephemeral volumes."""
    if not wants_claims(pod):
        return ()
    return [
        NamespacedName(pod.metadata.namespace, ephemeral_claim_name(pod, volume))
        for volume in pod.spec.volumes
        if volume.ephemeral is not None
    ]


class EphemeralVolumeController:
    name = "ephemeral-volume-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder) -> None:
        self._claims, self._events = client.for_kind(PersistentVolumeClaim), events
        self._pods, self._known = informers.for_kind(Pod).lister, informers.for_kind(PersistentVolumeClaim).lister
        self._pods.add_index(_by_ephemeral_claim)
        self.watches = (
            Watch(resource_of(Pod), _ephemeral_pod_keys),
            Watch(resource_of(PersistentVolumeClaim), self._pod_keys_of_claim),
        )

    def _pod_keys_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Hashable]:
        return [key_of(pod) for pod in self._pods.find(_by_ephemeral_claim, key_of(claim))]

    async def reconcile(self, key: NamespacedName) -> None:
        pod = self._pods.get_by_key(key)
        if pod is None or not wants_claims(pod):
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                await self._ensure_claim(pod, volume)

    async def _ensure_claim(self, pod: Pod, volume: Any) -> None:
        name = NamespacedName(pod.metadata.namespace, ephemeral_claim_name(pod, volume))
        claim = self._known.get_by_key(name)
        reason = ""
        if claim is not None:
            reason = "" if is_controlled_by(claim, pod) else format_owner_mismatch(name, key_of(pod))
        else:
            try:
                await self._claims.create(claim_for(pod, volume))
            except errors.ApiError as error:
                reason = f"create PVC {name.name}: {error}"
        if reason:
            self._events.event(pod, WARNING, "FailedBinding", f"ephemeral volume {volume.name}: {reason}")
            raise errors.unexpected_error(f"ephemeral volume {volume.name}: {reason}")
