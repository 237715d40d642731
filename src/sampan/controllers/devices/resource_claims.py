"""resourceclaim-controller, which creates claims from templates and releases claims that are no longer used.

It removes the reservations of finished pods, deallocates claims without reservations, and deletes generated claims
whose pod has finished.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import msgspec

from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.resource_claims import consumer_reference
from sampan.api.types.core_v1 import Pod, PodResourceClaim
from sampan.api.types.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from sampan.controllers.devices import pod_claims
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType, WriteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory, by_owner
from sampan.machinery.object_key import NamespacedName, key_of

FIELD_MANAGER = "ResourceClaimController"
FINALIZER = "resource.kubernetes.io/delete-protection"
_MAX_DELETED_PODS = 500
"""The maximum number of deleted pods whose UIDs are kept. For any other pod that is not in the cache, the API server is
queried."""


class PodWork(NamedTuple):
    key: NamespacedName


class ClaimWork(NamedTuple):
    key: NamespacedName


class ResourceClaimController:
    name = "resourceclaim-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder) -> None:
        self._pods_client, self._claims_client, self._events = (
            client.for_kind(Pod),
            client.for_kind(ResourceClaim),
            events,
        )
        self._informers = informers
        self._pods, self._claims = informers.for_kind(Pod).lister, informers.for_kind(ResourceClaim).lister
        self._templates = informers.for_kind(ResourceClaimTemplate).lister
        self._pods.add_index(pod_claims.by_claim)
        self._pods.add_index(pod_claims.by_template)
        self._claims.add_index(by_owner)
        self._add: Callable[[Hashable], None] = lambda key: None
        self._deleted_pods: dict[str, None] = {}
        """UIDs of deleted pods, most recent last."""
        self._created_claims: dict[str, ResourceClaim] = {}
        """Claims that were created but are not in the cache yet, by UID. If the pod's status could not be written, the
        retry must find them here, or it would create a second claim."""
        self.watches = (
            Watch(resource_of(Pod)),
            Watch(resource_of(ResourceClaim)),
            Watch(resource_of(ResourceClaimTemplate)),
        )

    # -- change handlers ---------------------------------------------------------------------------------------------

    def feed(self, add: Callable[[Hashable], None]) -> None:
        self._add = add
        self._informers.for_kind(ResourceClaim).subscribe(self._on_claim)
        self._informers.for_kind(ResourceClaimTemplate).subscribe(self._on_template)
        self._informers.for_kind(Pod).subscribe(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod: Any = new if new is not None else old
        if not pod_claims.has_claims(pod):
            return
        if new is None:
            self._remember_gone(pod.metadata.uid)
        if new is None or pod_claims.is_done(pod):
            for name in pod_claims.claim_names(pod):
                self._add(ClaimWork(NamespacedName(pod.metadata.namespace, name)))
        if new is not None and new.metadata.deletionTimestamp is None:
            self._add(PodWork(key_of(new)))

    def _on_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim: Any = new if new is not None else old
        self._created_claims.pop(claim.metadata.uid, None)
        if new is not None:
            self._add(ClaimWork(key_of(new)))
        for pod in self._pods.find(pod_claims.by_claim, key_of(claim)):
            self._on_pod(pod, pod)

    def _on_template(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if new is not None:
            for pod in self._pods.find(pod_claims.by_template, key_of(new)):
                self._on_pod(pod, pod)

    def _remember_gone(self, uid: str) -> None:
        self._deleted_pods[uid] = None
        if len(self._deleted_pods) > _MAX_DELETED_PODS:
            del self._deleted_pods[next(iter(self._deleted_pods))]

    # -- pods --------------------------------------------------------------------------------------------------------

    async def reconcile(self, work: PodWork | ClaimWork) -> None:
        if isinstance(work, ClaimWork):
            claim = self._claims.get_by_key(work.key)
            if claim is not None:
                await self._sync_claim(claim)
            return
        pod = self._pods.get_by_key(work.key)
        if pod is not None and pod.metadata.deletionTimestamp is None and not pod_claims.is_done(pod):
            await self._sync_pod(pod)

    async def _sync_pod(self, pod: Pod) -> None:
        claim_names: dict[str, str] = {}
        for pod_claim in pod.spec.resourceClaims:
            try:
                name = await self._claim_for(pod, pod_claim)
            except errors.ApiError as error:
                message = f"PodResourceClaim {pod_claim.name}: {error}"
                self._events.event(pod, WARNING, "FailedResourceClaimCreation", message)
                raise
            if name:
                claim_names[pod_claim.name] = name
        if claim_names:
            await self._write_claim_statuses(pod, claim_names)
        if pod.spec.nodeName:
            await self._reserve_all(pod)

    async def _claim_for(self, pod: Pod, pod_claim: PodResourceClaim) -> str:
        """Return the name of a claim that is yet to be recorded in the pod's status, or an empty string."""
        name = pod_claims.claim_name(pod, pod_claim)
        if name is None or pod_claim.resourceClaimTemplateName is None:
            return ""
        if name and await self._has_claim(pod, name):
            return ""
        claim = self._orphan(pod, pod_claim) or await self._create_claim(
            pod, pod_claim, pod_claim.resourceClaimTemplateName
        )
        return claim.metadata.name

    async def _has_claim(self, pod: Pod, name: str) -> bool:
        """Whether the claim that the pod's status names exists and is its own. The cache may lack a new claim."""
        claim = self._claims.get(name, pod.metadata.namespace)
        if claim is None:
            try:
                claim = await self._claims_client.get(name, pod.metadata.namespace)
            except errors.NotFound:
                return False
        return is_controlled_by(claim, pod)

    def _orphan(self, pod: Pod, pod_claim: PodResourceClaim) -> ResourceClaim | None:
        """Return a claim that was created for the pod but not recorded in its status."""
        claims = [*self._claims.find(by_owner, pod.metadata.uid), *self._created_claims.values()]
        for claim in claims:
            is_this = claim.metadata.annotations.get(pod_claims.ANNOTATION) == pod_claim.name
            if is_this and is_controlled_by(claim, pod):
                return claim
        return None

    async def _create_claim(self, pod: Pod, pod_claim: PodResourceClaim, template_name: str) -> ResourceClaim:
        template = self._templates.get(template_name, pod.metadata.namespace)
        if template is None:
            kind = "resourceclaimtemplate.resource.k8s.io"
            raise errors.unexpected_error(
                f'resource claim template "{template_name}": {kind} "{template_name}" not found'
            )
        try:
            claim = await self._claims_client.create(pod_claims.claim_from(template, pod, pod_claim))
        except errors.ApiError as error:
            raise errors.unexpected_error(f"create ResourceClaim : {error}") from error
        if self._claims.get_by_key(key_of(claim)) is None:
            self._created_claims[claim.metadata.uid] = claim
        return claim

    async def _write_claim_statuses(self, pod: Pod, claim_names: dict[str, str]) -> None:
        present = {
            status.name: name for status in pod.status.resourceClaimStatuses if (name := status.resourceClaimName)
        }
        merged = sorted((present | claim_names).items())
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in merged]
        patch = {"apiVersion": "v1", "kind": "Pod", "status": {"resourceClaimStatuses": statuses}}
        await self._pods_client.patch(
            pod.metadata.name,
            patch,
            pod.metadata.namespace,
            type=PatchType.APPLY,
            subresource="status",
            options=WriteParameters(field_manager=FIELD_MANAGER, force=True),
        )

    async def _reserve_all(self, pod: Pod) -> None:
        """Reserve the claims of a pod that was assigned to a node without the scheduler, which otherwise reserves
        them."""
        for pod_claim in pod.spec.resourceClaims:
            name = pod_claims.claim_name(pod, pod_claim)
            claim = self._claims.get(name, pod.metadata.namespace) if name else None
            if claim is None:
                continue
            is_own = pod_claim.resourceClaimTemplateName is None or is_controlled_by(claim, pod)
            if is_own and pod_claims.needs_reservation(claim, pod):
                await self._update_status(claim, reservedFor=[*claim.status.reservedFor, consumer_reference(pod)])

    # -- claims ------------------------------------------------------------------------------------------------------

    async def _sync_claim(self, claim: ResourceClaim) -> None:
        reserved_for = claim.status.reservedFor
        consumers = [consumer for consumer in reserved_for if await self._is_needed_by(claim, consumer)]
        if len(consumers) < len(reserved_for):
            claim = await self._release(claim, consumers)
        elif not consumers and claim.metadata.deletionTimestamp is not None and FINALIZER in claim.metadata.finalizers:
            claim = await self._deallocate(claim)
        if not consumers and self._has_done_owner(claim):
            try:
                await self._claims_client.delete(claim.metadata.name, claim.metadata.namespace)
            except errors.NotFound:
                return

    async def _is_needed_by(self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.apiGroup or consumer.resource != "pods":
            return True
        if consumer.uid in self._deleted_pods:
            return False
        pod = self._pods.get(consumer.name, claim.metadata.namespace)
        if pod is not None:
            return pod.metadata.uid == consumer.uid and not pod_claims.is_done(pod)
        try:  # The cache may lag behind the scheduler.
            live = await self._pods_client.get(consumer.name, claim.metadata.namespace)
        except errors.NotFound:
            return False
        return live.metadata.uid == consumer.uid

    async def _release(self, claim: ResourceClaim, consumers: list[ResourceClaimConsumerReference]) -> ResourceClaim:
        """Remove reservations. The last one deallocates the claim, as the next consumer may run on another node."""
        is_free = not consumers and FINALIZER in claim.metadata.finalizers
        allocation = None if is_free else claim.status.allocation
        claim = await self._update_status(claim, reservedFor=consumers, allocation=allocation)
        if FINALIZER in claim.metadata.finalizers and claim.status.allocation is None:
            claim = await self._remove_finalizer(claim)
        return claim

    async def _deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        if claim.status.allocation is not None:
            claim = await self._update_status(claim, allocation=None)
        return await self._remove_finalizer(claim)

    def _has_done_owner(self, claim: ResourceClaim) -> bool:
        """Whether the claim was generated for a finished pod. If the pod is unknown, garbage collection decides."""
        for owner in claim.metadata.ownerReferences:
            if owner.controller and (owner.apiVersion, owner.kind) == ("v1", "Pod"):
                pod = self._pods.get(owner.name, claim.metadata.namespace)
                return pod is not None and (pod.metadata.uid != owner.uid or pod_claims.is_done(pod))
        return False

    async def _update_status(self, claim: ResourceClaim, **changed: Any) -> ResourceClaim:
        """Write the status; raise Conflict if the claim was changed concurrently."""
        status = msgspec.structs.replace(claim.status, **changed)
        return await self._claims_client.update_status(msgspec.structs.replace(claim, status=status))

    async def _remove_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        finalizers = [finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER]
        meta = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
        return await self._claims_client.update(msgspec.structs.replace(claim, metadata=meta))
