"""Actions on single pods of a StatefulSet and their claims, with the events that report them."""

from sampan.api.types.apps_v1 import StatefulSet
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.workloads.statefulset.identity import (
    claim_name,
    correct_pod,
    has_identity,
    has_storage,
    ordinal_of,
)
from sampan.controllers.workloads.statefulset.replica_plan import ReplicaAction, ReplicaStep
from sampan.controllers.workloads.statefulset.volume_claims import (
    has_other_controller,
    has_right_owners,
    new_claims,
    with_owners,
)
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import Lister

_CONFLICTING = "ConflictingController"


class StatefulPodControl:
    def __init__(self, *, client: Client, known_claims: Lister[PersistentVolumeClaim], events: EventRecorder) -> None:
        self._pods, self._claims = client.for_kind(Pod), client.for_kind(PersistentVolumeClaim)
        self._known_claims, self._events = known_claims, events

    async def carry_out(self, step: ReplicaStep, sset: StatefulSet) -> None:
        match step.action:
            case ReplicaAction.CREATE:
                await self._create(sset, step.pod)
            case ReplicaAction.DELETE:
                await self._delete(sset, step.pod)
            case ReplicaAction.ADD_CLAIMS:
                await self._add_claims(sset, step.pod)
            case ReplicaAction.OWN_CLAIMS:
                await self._correct_claim_owners(sset, step.pod)
            case ReplicaAction.CORRECT:
                await self._correct(sset, step.pod)

    def claim(self, name: str, namespace: str) -> PersistentVolumeClaim | None:
        return self._known_claims.get(name, namespace)

    async def _create(self, sset: StatefulSet, pod: Pod) -> None:
        try:
            await self._add_claims(sset, pod)
            await self._pods.create(pod)
        except errors.AlreadyExists:
            raise  # No event: the cache is stale, or another object has the name.
        except errors.ApiError as error:
            self._record_pod_event("create", sset, pod, error)
            raise
        self._record_pod_event("create", sset, pod)

    async def _delete(self, sset: StatefulSet, pod: Pod) -> None:
        """Delete the pod by UID, as a successor may already have the name."""
        meta = pod.metadata
        try:
            await self._pods.delete(meta.name, meta.namespace, options=DeleteParameters(uid=meta.uid))
        except errors.Conflict:
            return
        except errors.NotFound:
            pass
        except errors.ApiError as error:
            self._record_pod_event("delete", sset, pod, error)
            raise
        self._record_pod_event("delete", sset, pod)

    async def _correct(self, sset: StatefulSet, pod: Pod) -> None:
        try:
            if not has_storage(sset, pod):
                await self._add_claims(sset, pod)
            await self._correct_claim_owners(sset, pod)
            if not (has_identity(sset, pod) and has_storage(sset, pod)):
                await self._pods.update(correct_pod(sset, pod))
        except errors.ApiError as error:
            self._record_pod_event("update", sset, pod, error)
            raise
        self._record_pod_event("update", sset, pod)

    async def _add_claims(self, sset: StatefulSet, pod: Pod) -> None:
        for claim in new_claims(sset, pod):
            present = self.claim(claim.metadata.name, claim.metadata.namespace)
            if present is None:
                await self._create_claim(sset, pod, claim)
            elif present.metadata.deletionTimestamp is not None:
                raise errors.Conflict(f"pvc {claim.metadata.name} is being deleted")

    async def _create_claim(self, sset: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> None:
        try:
            await self._claims.create(claim)
        except errors.AlreadyExists:
            return
        except errors.ApiError as error:
            if not is_namespace_terminating(error):
                self._record_claim_event(sset, pod, claim, error)
            raise
        self._record_claim_event(sset, pod, claim)

    async def _correct_claim_owners(self, sset: StatefulSet, pod: Pod) -> None:
        for template in sset.spec.volumeClaimTemplates:
            claim = self.claim(claim_name(sset, template, ordinal_of(pod)), sset.metadata.namespace)
            if claim is None:
                continue
            if has_other_controller(claim, sset, pod):
                self._events.event(sset, WARNING, _CONFLICTING, _conflict(claim))
            if not has_right_owners(claim, sset, pod):
                await self._claims.update(with_owners(claim, sset, pod))

    def _record_pod_event(self, verb: str, sset: StatefulSet, pod: Pod, error: errors.ApiError | None = None) -> None:
        done, message = verb.title(), f"{verb.title()} Pod {pod.metadata.name} in StatefulSet {sset.metadata.name}"
        if error is None:
            self._events.event(sset, NORMAL, f"Successful{done}", f"{message} successful")
        elif not is_namespace_terminating(error):
            self._events.event(sset, WARNING, f"Failed{done}", f"{message} failed error: {error}")

    def _record_claim_event(
        self, sset: StatefulSet, pod: Pod, claim: PersistentVolumeClaim, error: errors.ApiError | None = None
    ) -> None:
        name, owner = claim.metadata.name, f"Pod {pod.metadata.name} in StatefulSet {sset.metadata.name}"
        if error is None:
            self._events.event(sset, NORMAL, "SuccessfulCreate", f"Create Claim {name} {owner} success")
        else:
            message = f"Create Claim {name} for {owner} failed error: {error}"
            self._events.event(sset, WARNING, "FailedCreate", message)


def _conflict(claim: PersistentVolumeClaim) -> str:
    return (
        f"PersistentVolumeClaim {claim.metadata.name} has a conflicting OwnerReference that acts as a manging "
        "controller, the retention policy is ignored for this claim"
    )
