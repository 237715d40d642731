"""persistentvolumeclaim-protection-controller, which keeps a claim until no pod on a node uses it.

The key is a namespace: before finalizers are removed, its pods are listed live, once for all its claims, as the cache
may lack a pod that has just started to use a claim.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.controllers.descriptor import Parts
from sampan.controllers.storage.protection import concerns, is_candidate, lacks, protect, release
from sampan.machinery.client import Client, Selection, resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import key_of
from sampan.machinery.volumes.claims_of_pods import by_claim, claim_names_of, ephemeral_claim_name, is_made_for

FINALIZER = "kubernetes.io/pvc-protection"


def is_shut_down(pod: Pod) -> bool:
    """Whether the kubelet has finished with the pod or it was force-deleted, so that only finalizers keep it."""
    return pod.metadata.deletionTimestamp is not None and pod.metadata.deletionGracePeriodSeconds == 0


def uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod uses the claim. Unscheduled pods do not: no kubelet starts a pod whose claim is being deleted."""
    if not pod.spec.nodeName:
        return False
    return any(_is_behind(claim, volume, pod) for volume in pod.spec.volumes)


def _is_behind(claim: PersistentVolumeClaim, volume: Any, pod: Pod) -> bool:
    name = claim.metadata.name
    if volume.persistentVolumeClaim is not None:
        return bool(volume.persistentVolumeClaim.claimName == name)
    if volume.ephemeral is None or is_shut_down(pod):
        return False
    return ephemeral_claim_name(pod, volume) == name and is_made_for(claim, pod)


def _waiting(claim: PersistentVolumeClaim) -> Iterable[Hashable]:
    """Return the namespace of a claim that needs its finalizer added or removed; an index function."""
    return (claim.metadata.namespace,) if concerns(claim, FINALIZER) else ()


class ClaimProtection:
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, *, client: Client, informers: InformerFactory) -> None:
        self._client, self._claims = client, client.of(PersistentVolumeClaim)
        self._known = informers.of(PersistentVolumeClaim).lister
        self._pods = informers.of(Pod).lister
        self._known.add_index(_waiting)
        self._pods.add_index(by_claim)
        self.watches = (
            Watch(resource_of(PersistentVolumeClaim), _waiting),
            Watch(resource_of(Pod), self._namespace_if_it_waits),
        )

    def _namespace_if_it_waits(self, pod: Pod) -> Iterable[Hashable]:
        if next(claim_names_of(pod), None) is None:
            return ()
        namespace = pod.metadata.namespace
        return (namespace,) if self._known.find(_waiting, namespace) else ()

    async def reconcile(self, key: str) -> None:
        claims = self._known.find(_waiting, key)
        for claim in claims:
            if lacks(claim, FINALIZER):
                await protect(self._claims, claim, FINALIZER)
        await self._release([claim for claim in claims if is_candidate(claim, FINALIZER)], key)

    async def _release(self, claims: Sequence[PersistentVolumeClaim], namespace: str) -> None:
        unused = [claim for claim in claims if not self._is_known_used(claim)]
        if not unused:
            return
        pods = (await self._client.of(Pod).list(Selection(namespace=namespace))).items
        pods = [pod for pod in pods if pod.spec.nodeName and pod.spec.volumes]
        for claim in unused:
            if not any(uses(pod, claim) for pod in pods):
                await release(self._claims, claim, FINALIZER)

    def _is_known_used(self, claim: PersistentVolumeClaim) -> bool:
        return any(uses(pod, claim) for pod in self._pods.find(by_claim, key_of(claim)))


def make(parts: Parts) -> ClaimProtection:
    return ClaimProtection(client=parts.client_for(ClaimProtection.name), informers=parts.informers)
