"""Writes of ResourceClaims: allocations are written before a pod is bound and rolled back if it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sampan.api import times
from sampan.api.types.core_v1 import ContainerExtendedResourceRequest, Pod, PodExtendedResourceClaimStatus
from sampan.api.types.resource_v1 import AllocationResult, ResourceClaim
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.clock import Clock
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Informer
from sampan.scheduler.devices.claims import FINALIZER, is_reserved_for, reference_to
from sampan.scheduler.devices.ledger import Ledger
from sampan.scheduler.devices.readiness import NotReady, is_late, is_ready

T = TypeVar("T")

_TRIES = 5
_DEADLINE = "device binding timeout: context deadline exceeded"


class BindingFailed(Exception):
    """A claim cannot be bound. The message becomes the text of the event."""


class ClaimWrites:
    def __init__(self, *, client: Client, clock: Clock, claims: Informer[ResourceClaim], ledger: Ledger) -> None:
        self._client, self._pods, self._clock, self._ledger = client.of(ResourceClaim), client.of(Pod), clock, ledger
        self._claims = claims.lister
        self._waiting: set[asyncio.Event] = set()
        claims.subscribe(self._changed)

    # -- before a pod is bound ---------------------------------------------------------------------------------------

    async def make(self, claim: ResourceClaim) -> ResourceClaim:
        """Create the in-memory claim for extended resources on the server and return it."""
        fresh = copy_of(claim)
        fresh.metadata.name = fresh.metadata.uid = ""
        namespace = fresh.metadata.namespace
        created = await _saying(f"create claim for extended resources {namespace}/", self._client.create(fresh))
        self._ledger.rename(claim.metadata.uid, created.metadata.uid)
        return created

    async def bind(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
        """Write the allocation, if the claim has none yet, and reserve the claim for the pod."""
        written = await self._again_on_conflict(claim, lambda fresh: self._reserve(fresh, allocation, pod))
        self._ledger.wrote(written.metadata.uid, written.metadata.resourceVersion)
        return written

    async def _reserve(self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
        whole = _full_name(claim)
        if claim.metadata.deletionTimestamp is not None:
            raise BindingFailed(f"claim {whole} got deleted in the meantime")
        changed = copy_of(claim)
        if allocation is not None:
            if claim.status.allocation is not None:
                raise BindingFailed(f"claim {whole} got allocated elsewhere in the meantime")
            if FINALIZER not in changed.metadata.finalizers:
                changed.metadata.finalizers = [*changed.metadata.finalizers, FINALIZER]
                changed = copy_of(await _saying(f"add finalizer to claim {whole}", self._client.update(changed)))
            changed.status.allocation = copy_of(allocation)
        if changed.status.allocation is None:
            raise BindingFailed(f"claim {whole} got deallocated elsewhere in the meantime")
        changed.status.allocation.allocationTimestamp = changed.status.allocation.allocationTimestamp or self._now()
        changed.status.reservedFor = [*changed.status.reservedFor, reference_to(pod)]
        doing = "add allocation and reservation" if allocation is not None else "add reservation"
        return await _saying(f"{doing} to claim {whole}", self._client.update_status(changed))

    async def tell(self, pod: Pod, claim: ResourceClaim, mappings: Sequence[ContainerExtendedResourceRequest]) -> None:
        """Write the claim that provides the pod's extended resources to the pod's status."""
        status = PodExtendedResourceClaimStatus(requestMappings=list(mappings), resourceClaimName=claim.metadata.name)
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"extendedResourceClaimStatus": status}}
        doing = f"update pod {meta.namespace}/{meta.name} ExtendedResourceClaimStatus"
        await _saying(
            doing,
            self._pods.patch(meta.name, patch, meta.namespace, type=PatchType.STRATEGIC, subresource="status"),
        )

    async def wait(self, claims: Sequence[ResourceClaim], timeout_s: float) -> None:
        """Wait until the devices of all claims are ready; raise BindingFailed on failure or timeout."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        is_over = False
        try:
            async with asyncio.TaskGroup() as group:
                timer = group.create_task(self._clock.sleep(timeout_s))
                timer.add_done_callback(lambda _: changed.set())
                while (message := self._judged(claims, timeout_s)) is None and not is_over:
                    changed.clear()
                    is_over = timer.done() or (await changed.wait() and timer.done())
                timer.cancel()
        finally:
            self._waiting.discard(changed)
        if message != "":
            raise BindingFailed(message or _DEADLINE)

    def _judged(self, claims: Sequence[ResourceClaim], timeout_s: float) -> str | None:
        """Return an error message, an empty string if all devices are ready, or None while they are not."""
        for claim in claims:
            cached = self._claims.get(claim.metadata.name, claim.metadata.namespace)
            if cached is None or int(cached.metadata.resourceVersion) < int(claim.metadata.resourceVersion):
                return None
            try:
                if is_ready(cached):
                    continue
            except NotReady as error:
                return str(error)
            is_too_late = is_late(cached, self._clock.now(), timeout_s)
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
        await self._again_on_conflict(claim, self._unprotect)
        await self._client.delete(claim.metadata.name, claim.metadata.namespace)

    async def _unprotect(self, claim: ResourceClaim) -> ResourceClaim:
        changed = copy_of(claim)
        changed.metadata.finalizers = [finalizer for finalizer in changed.metadata.finalizers if finalizer != FINALIZER]
        return await self._client.update(changed)

    # -- parts -------------------------------------------------------------------------------------------------------

    async def _again_on_conflict(
        self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[ResourceClaim]]
    ) -> ResourceClaim:
        for _ in range(_TRIES - 1):
            try:
                return await write(claim)
            except errors.Conflict:
                claim = await self._client.get(claim.metadata.name, claim.metadata.namespace)
        return await write(claim)

    def _changed(self, old: Any, new: Any) -> None:
        for event in self._waiting:
            event.set()

    def _now(self) -> str:
        return times.format_time(self._clock.now())


async def _saying(doing: str, write: Awaitable[T]) -> T:
    try:
        return await write
    except errors.Conflict:
        raise
    except (errors.ApiError, ConnectionFailed) as error:
        raise BindingFailed(f"{doing}: {error}") from error


def _full_name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
