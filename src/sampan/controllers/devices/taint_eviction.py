"""device-taint-eviction-controller, which evicts pods from devices with NoExecute taints that they do not tolerate."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from sampan.api.semantics.conditions import TRUE
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.resource_claims import is_reserved_for
from sampan.api.semantics.taints import NO_EXECUTE, tolerates
from sampan.api.types.core_v1 import ObjectReference, Pod
from sampan.api.types.resource_v1 import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from sampan.api.values import times
from sampan.controllers.devices import pod_claims
from sampan.controllers.nodes.pods import DISRUPTION_TARGET, pod_condition_patch
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.events import NORMAL, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of


def has_no_execute_taint(slice: ResourceSlice) -> bool:
    return any(taint.effect == NO_EXECUTE for device in slice.spec.devices for taint in device.taints)


def device_of(slices: Sequence[ResourceSlice], name: str) -> Device | None:
    """Return a device of a pool. Only the slices of the latest pool generation count."""
    latest = max((slice.spec.pool.generation for slice in slices), default=0)
    current = [slice for slice in slices if slice.spec.pool.generation == latest]
    return next((device for slice in current for device in slice.spec.devices if device.name == name), None)


def is_tolerated(taint: DeviceTaint, toleration: DeviceToleration) -> bool:
    return toleration.effect == NO_EXECUTE and tolerates(toleration, taint)


def compute_eviction_time(device: Device, allocated: DeviceRequestAllocationResult) -> float | None:
    """Return when consumers of the device must be evicted, or None if all NoExecute taints are tolerated."""
    return min_time(_compute_taint_eviction_time(taint, allocated.tolerations) for taint in device.taints)


def _compute_taint_eviction_time(taint: DeviceTaint, tolerations: Sequence[DeviceToleration]) -> float | None:
    if taint.effect != NO_EXECUTE or taint.timeAdded is None:
        return None
    allowed = [entry.tolerationSeconds for entry in tolerations if is_tolerated(taint, entry)]
    if None in allowed:
        return None
    seconds = [max(entry, 0) for entry in allowed if entry is not None]
    return times.parse_time(taint.timeAdded) + min(seconds, default=0)


def min_time(moments: Iterable[float | None]) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)


EVICTION = "DeviceTaintManagerEviction"


class _PlannedEviction(NamedTuple):
    uid: str
    is_done: bool


def by_pool(obj: ResourceClaim | ResourceSlice) -> Iterable[Hashable]:
    """Return the pools, as (driver, name), of the devices allocated to a claim, or the pool of a slice."""
    if isinstance(obj, ResourceSlice):
        return ((obj.spec.driver, obj.spec.pool.name),)
    if obj.status.allocation is None:
        return ()
    return {(device.driver, device.pool) for device in obj.status.allocation.devices.results}


def _pod_key(pod: Pod) -> Iterable[Hashable]:
    return (key_of(pod),) if pod.spec.resourceClaims and pod.spec.nodeName else ()


def _consumer_pod_keys(claim: ResourceClaim) -> Iterable[Hashable]:
    pods = [consumer for consumer in claim.status.reservedFor if consumer.resource == "pods" and not consumer.apiGroup]
    return [NamespacedName(claim.metadata.namespace, consumer.name) for consumer in pods]


class DeviceTaintEvictionController:
    name = "device-taint-eviction-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, clock: Clock) -> None:
        self._client, self._events, self._clock = client.for_kind(Pod), events, clock
        self._pods, self._claims = informers.for_kind(Pod).lister, informers.for_kind(ResourceClaim).lister
        self._slices = informers.for_kind(ResourceSlice).lister
        self._claims.add_index(by_pool)
        self._slices.add_index(by_pool)
        self._planned: dict[NamespacedName, _PlannedEviction] = {}
        self.watches = (
            Watch(resource_of(Pod), _pod_key),
            Watch(resource_of(ResourceClaim), _consumer_pod_keys),
            Watch(resource_of(ResourceSlice), self._slice_user_keys),
        )

    def _slice_user_keys(self, slice: ResourceSlice) -> Iterable[Hashable]:
        if not has_no_execute_taint(slice):
            return ()
        claims = self._claims.find(by_pool, (slice.spec.driver, slice.spec.pool.name))
        return [key for claim in claims for key in _consumer_pod_keys(claim)]

    async def reconcile(self, key: NamespacedName) -> float | None:
        pod, planned = self._pods.get_by_key(key), self._planned.get(key)
        if pod is None:
            self._planned.pop(key, None)
            return None
        if planned is not None and planned.uid == pod.metadata.uid and planned.is_done:
            return None
        due_at, now = self._compute_pod_eviction_time(pod), self._clock.now()
        if due_at is None:
            if self._planned.pop(key, None) is not None:
                self._record_event(pod, "Cancelling deletion")
            return None
        self._planned[key] = _PlannedEviction(
            pod.metadata.uid, is_done=due_at <= now and await self._evict(key, pod.metadata.uid)
        )
        return due_at - now if due_at > now else None

    def _compute_pod_eviction_time(self, pod: Pod) -> float | None:
        if not pod.spec.nodeName:
            return None
        return min_time(self._compute_claim_eviction_time(claim) for claim in self._claims_of(pod))

    def _claims_of(self, pod: Pod) -> Iterable[ResourceClaim]:
        for pod_claim in pod.spec.resourceClaims:
            name = pod_claims.claim_name(pod, pod_claim)
            claim = self._claims.get(name, pod.metadata.namespace) if name else None
            if claim is None or not is_reserved_for(claim, pod):
                continue
            if pod_claim.resourceClaimTemplateName is None or is_controlled_by(claim, pod):
                yield claim

    def _compute_claim_eviction_time(self, claim: ResourceClaim) -> float | None:
        if claim.status.allocation is None:
            return None
        moments = []
        for allocated in claim.status.allocation.devices.results:
            device = device_of(self._slices.find(by_pool, (allocated.driver, allocated.pool)), allocated.device)
            if device is not None:
                moments.append(compute_eviction_time(device, allocated))
        return min_time(moments)

    async def _evict(self, key: NamespacedName, uid: str) -> bool:
        try:
            pod = await self._client.get(key.name, key.namespace)
            if pod.metadata.uid != uid or pod.metadata.deletionTimestamp is not None:
                return True
            self._record_event(pod, "Marking for deletion")
            patch = pod_condition_patch(
                pod,
                DISRUPTION_TARGET,
                self._clock.now(),
                status=TRUE,
                reason="DeletionByDeviceTaintManager",
                message="Device Taint manager: deleting due to NoExecute taint",
            )
            if patch is not None:
                await self._client.patch(key.name, patch, key.namespace, subresource="status")
            await self._client.delete(key.name, key.namespace, options=DeleteParameters(uid=uid))
        except errors.NotFound:
            return True
        return True

    def _record_event(self, pod: Pod, message: str) -> None:
        meta = pod.metadata
        reference = ObjectReference(apiVersion="v1", kind="Pod", name=meta.name, namespace=meta.namespace, uid=meta.uid)
        self._events.event(reference, NORMAL, EVICTION, message)
