"""The ResourceClaims of a pod: which they are, whether their devices are ready, and their writes.

Allocations and reservations are written before a pod is bound and rolled back if it is not bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.resource_claims import consumer_reference, is_reserved_for
from sampan.api.types.core_v1 import ContainerExtendedResourceRequest, Pod, PodExtendedResourceClaimStatus
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.resource_v1 import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from sampan.api.values import times
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.allocated_devices import AllocatedDevices

FINALIZER = "resource.kubernetes.io/delete-protection"

Find = Callable[[str, str], ResourceClaim | None]
"""Returns the claim with this name and namespace, or None."""


class UnusableResourceClaim(Exception):
    """A pod cannot be scheduled because of a claim. The message becomes the text of the event."""


def resource_claims_of(pod: Pod, find: Find) -> list[ResourceClaim]:
    """Return the pod's claims in the order of the spec, without those that turned out not to be needed.

    Raise UnusableResourceClaim if a claim is missing, is being deleted, or belongs to another pod.
    """
    claims = []
    for name, is_generated in _names(pod):
        claim = find(name, pod.metadata.namespace)
        if claim is None:
            raise UnusableResourceClaim(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletionTimestamp is not None:
            raise UnusableResourceClaim(f'resourceclaim "{name}" is being deleted')
        if is_generated and not is_controlled_by(claim, pod):
            space = pod.metadata.namespace
            mismatch = f"ResourceClaim {space}/{name} was not created for pod {space}/{pod.metadata.name}"
            raise UnusableResourceClaim(f"{mismatch} (pod is not owner)")
        claims.append(claim)
    return claims


def _names(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Yield the name of each claim, and whether the claim was generated for the pod."""
    for pod_claim in pod.spec.resourceClaims:
        if pod_claim.resourceClaimName:
            yield pod_claim.resourceClaimName, False
            continue
        claim_status = next(
            (status for status in pod.status.resourceClaimStatuses if status.name == pod_claim.name), None
        )
        if claim_status is None:
            raise UnusableResourceClaim(
                f'pod "{pod.metadata.namespace}/{pod.metadata.name}": ResourceClaim not created yet'
            )
        if claim_status.resourceClaimName:
            yield claim_status.resourceClaimName, True


class DeviceNotReady(Exception):
    """The devices can never become ready. The message becomes the text of the event."""


def has_binding_conditions(claim: ResourceClaim) -> bool:
    return any(result.bindingConditions for result in _results(claim))


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all binding conditions are true; raise DeviceNotReady if a binding failure condition is."""
    for result in _results(claim):
        if not result.bindingConditions:
            continue
        status = _status(claim, result)
        if status is None:
            return False
        conditions = status.conditions or ()
        if (failed := _find_true_condition(conditions, result.bindingFailureConditions)) is not None:
            why = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
            raise DeviceNotReady(f"device binding failed: {why}")
        if any(_find_true_condition(conditions, [name]) is None for name in result.bindingConditions):
            return False
    return claim.status.allocation is not None


def is_timed_out(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    allocation = claim.status.allocation
    if allocation is None or allocation.allocationTimestamp is None or not has_binding_conditions(claim):
        return False
    return times.parse_time(allocation.allocationTimestamp) + timeout_s < now


def has_failed(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    """Whether the binding conditions failed or timed out, so that other devices should be tried."""
    try:
        return not is_ready(claim) and is_timed_out(claim, now, timeout_s)
    except DeviceNotReady:
        return True


def _results(claim: ResourceClaim) -> Sequence[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def _status(claim: ResourceClaim, of: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    return next(
        (
            status
            for status in claim.status.devices
            if (status.driver, status.pool, status.device) == (of.driver, of.pool, of.device)
        ),
        None,
    )


def _find_true_condition(conditions: Sequence[Condition], names: Sequence[str]) -> Condition | None:
    return next(
        (
            condition
            for name in names
            for condition in conditions
            if condition.type == name and condition.status == "True"
        ),
        None,
    )


T = TypeVar("T")

_TRIES = 5
_DEADLINE = "device binding timeout: context deadline exceeded"


class ClaimBindingFailed(Exception):
    """A claim cannot be bound. The message becomes the text of the event."""


class ClaimWriter:
    def __init__(
        self, *, client: Client, clock: Clock, claims: Informer[ResourceClaim], allocated_devices: AllocatedDevices
    ) -> None:
        self._client, self._pods, self._clock, self._allocated_devices = (
            client.for_kind(ResourceClaim),
            client.for_kind(Pod),
            clock,
            allocated_devices,
        )
        self._claims = claims.lister
        self._waiting: set[asyncio.Event] = set()
        claims.subscribe(self._on_claim_changed)

    # -- before a pod is bound ---------------------------------------------------------------------------------------

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create the in-memory claim for extended resources on the server and return it."""
        fresh = copy_of(claim)
        fresh.metadata.name = fresh.metadata.uid = ""
        namespace = fresh.metadata.namespace
        created = await _describe_errors(
            f"create claim for extended resources {namespace}/", self._client.create(fresh)
        )
        self._allocated_devices.replace_uid(claim.metadata.uid, created.metadata.uid)
        return created

    async def bind(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
        """Write the allocation, if the claim has none yet, and reserve the claim for the pod."""
        written = await self._retry_on_conflict(claim, lambda fresh: self._reserve(fresh, allocation, pod))
        self._allocated_devices.note_written(written.metadata.uid, written.metadata.resourceVersion)
        return written

    async def _reserve(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
        whole = _full_name(claim)
        if claim.metadata.deletionTimestamp is not None:
            raise ClaimBindingFailed(f"claim {whole} got deleted in the meantime")
        changed = copy_of(claim)
        if allocation is not None:
            if claim.status.allocation is not None:
                raise ClaimBindingFailed(f"claim {whole} got allocated elsewhere in the meantime")
            if FINALIZER not in changed.metadata.finalizers:
                changed.metadata.finalizers = [*changed.metadata.finalizers, FINALIZER]
                changed = copy_of(
                    await _describe_errors(f"add finalizer to claim {whole}", self._client.update(changed))
                )
            changed.status.allocation = copy_of(allocation)
        if changed.status.allocation is None:
            raise ClaimBindingFailed(f"claim {whole} got deallocated elsewhere in the meantime")
        changed.status.allocation.allocationTimestamp = (
            changed.status.allocation.allocationTimestamp or self._format_now()
        )
        changed.status.reservedFor = [*changed.status.reservedFor, consumer_reference(pod)]
        action = "add allocation and reservation" if allocation is not None else "add reservation"
        return await _describe_errors(f"{action} to claim {whole}", self._client.update_status(changed))

    async def write_pod_status(
        self, pod: Pod, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Write the claim that provides the pod's extended resources to the pod's status."""
        status = PodExtendedResourceClaimStatus(requestMappings=list(mappings), resourceClaimName=claim.metadata.name)
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"extendedResourceClaimStatus": status}}
        action = f"update pod {meta.namespace}/{meta.name} ExtendedResourceClaimStatus"
        await _describe_errors(
            action,
            self._pods.patch(meta.name, patch, meta.namespace, type=PatchType.STRATEGIC, subresource="status"),
        )

    async def wait(self, claims: Sequence[ResourceClaim], timeout_s: float) -> None:
        """Wait until the devices of all claims are ready; raise ClaimBindingFailed on failure or timeout."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        is_over = False
        try:
            async with asyncio.TaskGroup() as group:
                timer = group.create_task(self._clock.sleep(timeout_s))
                timer.add_done_callback(lambda _: changed.set())
                while (message := self._readiness(claims, timeout_s)) is None and not is_over:
                    changed.clear()
                    is_over = timer.done() or (await changed.wait() and timer.done())
                timer.cancel()
        finally:
            self._waiting.discard(changed)
        if message != "":
            raise ClaimBindingFailed(message or _DEADLINE)

    def _readiness(self, claims: Sequence[ResourceClaim], timeout_s: float) -> str | None:
        """Return an error message, an empty string if all devices are ready, or None while they are not."""
        for claim in claims:
            cached = self._claims.get(claim.metadata.name, claim.metadata.namespace)
            if cached is None or int(cached.metadata.resourceVersion) < int(claim.metadata.resourceVersion):
                return None
            try:
                if is_ready(cached):
                    continue
            except DeviceNotReady as error:
                return str(error)
            is_too_late = is_timed_out(cached, self._clock.now(), timeout_s)
            return f"device binding timeout: claim={claim.metadata.name}" if is_too_late else None
        return ""

    # -- when a pod is not bound -------------------------------------------------------------------------------------

    async def release(self, claim: ResourceClaim, pod: Pod) -> None:
        """Remove the reservation for the pod; the claim stays allocated until it is deallocated."""
        if claim.status.allocation is None or not is_reserved_for(claim, pod):
            return
        entry = {"$patch": "delete", "uid": pod.metadata.uid}
        patch = {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": [entry]}}
        await self._client.patch(
            claim.metadata.name, patch, claim.metadata.namespace, type=PatchType.STRATEGIC, subresource="status"
        )

    async def deallocate(self, claim: ResourceClaim) -> None:
        changed = copy_of(claim)
        changed.status.reservedFor, changed.status.allocation, changed.status.devices = [], None, []
        await self._client.update_status(changed)

    async def remove(self, claim: ResourceClaim) -> None:
        """Delete the claim together with its allocation, after removing the finalizer that protects it."""
        await self._retry_on_conflict(claim, self._unprotect)
        await self._client.delete(claim.metadata.name, claim.metadata.namespace)

    async def _unprotect(self, claim: ResourceClaim) -> ResourceClaim:
        changed = copy_of(claim)
        changed.metadata.finalizers = [finalizer for finalizer in changed.metadata.finalizers if finalizer != FINALIZER]
        return await self._client.update(changed)

    # -- parts -------------------------------------------------------------------------------------------------------

    async def _retry_on_conflict(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        for _ in range(_TRIES - 1):
            try:
                return await write(claim)
            except errors.Conflict:
                claim = await self._client.get(claim.metadata.name, claim.metadata.namespace)
        return await write(claim)

    def _on_claim_changed(self, old: Any, new: Any) -> None:
        for event in self._waiting:
            event.set()

    def _format_now(self) -> str:
        return times.format_time(self._clock.now())


async def _describe_errors(action: str, write: Awaitable[T]) -> T:
    try:
        return await write
    except errors.Conflict:
        raise
    except (errors.ApiError, ConnectionFailed) as error:
        raise ClaimBindingFailed(f"{action}: {error}") from error


def _full_name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
