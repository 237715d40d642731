"""Allocation of devices to claims: every request gets its devices, no device is allocated twice, all constraints hold.

A backtracking search: devices are tried in the order of pools and slices, the alternatives of a request in the order of
its list, and the first solution for all claims is taken. The search is a generator, so that its caller can let other
tasks run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import NamedTuple

from sampan.api.values.quantity import Quantity
from sampan.scheduler.devices.allocated_devices import AllocatedDevices
from sampan.scheduler.devices.claim_requests import (
    MAX_ALTERNATIVES,
    MAX_RESULTS,
    AllocationRefusal,
    ClaimRequests,
    PodClaimRequests,
    RequestAlternative,
)
from sampan.scheduler.devices.device_constraints import (
    ClaimConstraint,
    RequestedDevice,
    consumed_capacity,
    has_capacity,
    tolerates_taints,
)
from sampan.scheduler.devices.pools import INVALID, CandidateDevice, DeviceId, PoolId, PoolView

NOT_ALLOCATABLE = AllocationRefusal("cannot allocate all claims")
ALLOCATION_TIMED_OUT = AllocationRefusal("timed out trying to allocate devices")
INVALID_POOLS = AllocationRefusal("invalid resource pools were encountered")
_STEPS_PER_YIELD = 200
"""The number of steps between two yields."""


class MatchedDevice(NamedTuple):
    """A device that matches the selectors of a request, or may match them."""

    candidate: CandidateDevice
    error: AllocationRefusal | None = None
    """The error if the selectors could not be evaluated."""


class MatchedPool(NamedTuple):
    """A pool of the node with the devices in it that match."""

    view: PoolView
    matched: Sequence[Sequence[MatchedDevice]]
    """The matching devices for each entry of `PodClaimRequests.every`."""


class AllocatedDevice(NamedTuple):
    """A device allocated to a request."""

    request: RequestAlternative
    candidate: CandidateDevice
    consumed: dict[str, Quantity]
    """The consumed capacity of a device that allows multiple allocations; empty for others."""


ClaimAllocations = list[list[AllocatedDevice]]
"""The allocated devices of each claim."""


class AllocationFailed(Exception):
    def __init__(self, why: AllocationRefusal) -> None:
        super().__init__(why.text)
        self.why = why


class DeviceAllocator:
    def __init__(
        self,
        *,
        pod_requests: PodClaimRequests,
        pools: Sequence[MatchedPool],
        allocated_devices: AllocatedDevices,
        max_steps: int,
    ) -> None:
        self._pod_requests, self._pools, self._allocated_devices, self._max_steps = (
            pod_requests,
            pools,
            allocated_devices,
            max_steps,
        )
        self._views = {pool.view.id: pool.view for pool in pools}
        self._constraints = [
            [ClaimConstraint(constraint) for constraint in claim.devices.constraints] for claim in pod_requests.claims
        ]
        self._allocated: ClaimAllocations = [[] for _ in pod_requests.claims]
        self._holders: Counter[DeviceId] = Counter()
        """Allocated devices, and how many claims hold each of them."""
        self._held: set[tuple[DeviceId, int]] = set()
        """Allocated devices, each with the index of the claim that holds it."""
        self._shares: dict[DeviceId, list[AllocatedDevice]] = {}
        self._counters: dict[PoolId, dict[tuple[str, str], Quantity]] = {}
        """The remaining amounts of the shared counters of the pools examined so far."""
        self._steps = 0
        self._matched: dict[RequestAlternative, Sequence[MatchedDevice]] = {}

    def run(self) -> Generator[None, None, ClaimAllocations | AllocationRefusal]:
        try:
            for index, (claim, request) in enumerate(self._pod_requests.every):
                self._matched[request] = self._matching_devices(index, claim, request)
            self._check_sizes()
            if (yield from self._claim(0)):
                return self._allocated
        except AllocationFailed as error:
            return error.why
        return INVALID_POOLS if any(pool.view.error == INVALID for pool in self._pools) else NOT_ALLOCATABLE

    # -- preparation -------------------------------------------------------------------------------------------------

    def _matching_devices(self, index: int, claim: int, request: RequestAlternative) -> Sequence[MatchedDevice]:
        """Return the devices that may be allocated to a request; for the allocation mode "All", exactly those to
        allocate.
        """
        if request.device_class is None:
            raise AllocationFailed(
                AllocationRefusal(f", request {request.label}: could not retrieve device class", claim)
            )
        if not request.takes_all:
            return [device for pool in self._pools for device in pool.matched[index]]
        devices = []
        for pool in self._pools:
            if pool.view.error:
                problem = f"asks for all devices, but resource pool {pool.view.id} is currently"
                doing = "invalid" if pool.view.error == INVALID else "being updated"
                raise AllocationFailed(AllocationRefusal(f", request {request.label}: {problem} {doing}", claim))
            for device in pool.matched[index]:
                if device.error is not None:
                    raise AllocationFailed(device.error)
                if self._consumed_share(request, device.candidate) is not None:
                    devices.append(device)
        return devices

    def _check_sizes(self) -> None:
        for index, claim in enumerate(self._pod_requests.claims):
            minimum = sum(self._count_min_devices(request) for request in claim.requests)
            if minimum > MAX_RESULTS:
                problem = f"number of requested devices {minimum} exceeds the claim limit of {MAX_RESULTS}"
                raise AllocationFailed(AllocationRefusal(f": {problem}", index))

    def _count_min_devices(self, request: Sequence[RequestAlternative]) -> int:
        return min((self._amount(alternative) for alternative in request), default=0)

    def _amount(self, request: RequestAlternative) -> int:
        return len(self._matched[request]) if request.takes_all else request.amount

    # -- the search --------------------------------------------------------------------------------------------------

    def _claim(self, claim: int) -> Generator[None, None, bool]:
        if claim == len(self._pod_requests.claims):
            return True
        return (yield from self._request(claim, 0))

    def _request(self, claim: int, index: int) -> Generator[None, None, bool]:
        requests = self._pod_requests.claims[claim].requests
        if index == len(requests):
            return (yield from self._claim(claim + 1))
        later = sum(self._count_min_devices(request) for request in requests[index + 1 :])
        for alternative in requests[index]:
            amount = self._amount(alternative)
            if not amount or len(self._allocated[claim]) + amount + later > MAX_RESULTS:
                continue
            if (yield from self._devices(claim, index, alternative, 0, amount)):
                return True
        return False

    def _devices(
        self, claim: int, position: int, request: RequestAlternative, start: int, remaining_count: int
    ) -> Generator[None, None, bool]:
        if not remaining_count:
            return (yield from self._request(claim, position + 1))
        matched = self._matched[request]
        last = start + 1 if request.takes_all else len(matched) - remaining_count + 1
        for index in range(start, last):
            if self._step():
                yield
            allocation = self._take(claim, request, matched[index])
            if allocation is not None:
                if (yield from self._devices(claim, position, request, index + 1, remaining_count - 1)):
                    return True
                self._release(claim, allocation)
        return False

    def _step(self) -> bool:
        """Count a step, raise AllocationFailed if there were too many, and return whether to yield."""
        self._steps += 1
        if self._max_steps and self._steps > self._max_steps:
            raise AllocationFailed(ALLOCATION_TIMED_OUT)
        return not self._steps % _STEPS_PER_YIELD

    # -- one device --------------------------------------------------------------------------------------------------

    def _take(self, claim: int, request: RequestAlternative, matched: MatchedDevice) -> AllocatedDevice | None:
        candidate = matched.candidate
        if self._is_in_use(claim, request, candidate):
            return None
        if matched.error is not None:
            raise AllocationFailed(matched.error)
        consumed = self._consumed_share(request, candidate)
        if consumed is None or not tolerates_taints(candidate.device.taints, request.tolerations):
            return None
        if not self._has_counters(request, candidate):
            return None
        if not self._satisfies_constraints(claim, RequestedDevice(request, candidate)):
            if request.takes_all:
                problem = f"cannot add device {candidate.id} because a claim constraint would not be satisfied"
                raise AllocationFailed(AllocationRefusal(f", request {request.label}: {problem}", claim))
            return None
        allocation = AllocatedDevice(request, candidate, consumed if candidate.is_shared else {})
        self._hold(claim, allocation)
        return allocation

    def _is_in_use(self, claim: int, request: RequestAlternative, candidate: CandidateDevice) -> bool:
        if request.is_admin:
            return (candidate.id, claim) in self._held
        return candidate.id in self._holders or self._allocated_devices.is_taken(candidate.id)

    def _consumed_share(self, request: RequestAlternative, candidate: CandidateDevice) -> dict[str, Quantity] | None:
        """Return how much of the device's capacity the request consumes, or None if that much is not left."""
        device = candidate.device
        if not device.capacity and not request.capacity:
            return {}
        consumed = consumed_capacity(device, request.capacity)
        if consumed is None:
            return None
        others = [share.consumed for share in self._shares.get(candidate.id, ())]
        return (
            consumed
            if has_capacity(device, consumed, self._allocated_devices.get_consumed_capacity(candidate.id), *others)
            else None
        )

    def _satisfies_constraints(self, claim: int, device: RequestedDevice) -> bool:
        constraints = self._constraints[claim]
        for index, constraint in enumerate(constraints):
            if not constraint.add(device):
                for other in constraints[:index]:
                    other.remove(device)
                return False
        return True

    def _hold(self, claim: int, device: AllocatedDevice) -> None:
        id = device.candidate.id
        self._count(device, 1)
        if device.candidate.is_shared:
            self._shares.setdefault(id, []).append(device)
        else:
            self._holders[id] += 1
            self._held.add((id, claim))
        self._allocated[claim].append(device)

    def _release(self, claim: int, device: AllocatedDevice) -> None:
        id = device.candidate.id
        self._allocated[claim].pop()
        for constraint in self._constraints[claim]:
            constraint.remove(RequestedDevice(device.request, device.candidate))
        if device.candidate.is_shared:
            self._shares[id].pop()
        else:
            self._held.discard((id, claim))
            self._holders[id] -= 1
            if not self._holders[id]:
                del self._holders[id]
        self._count(device, -1)

    # -- counters ----------------------------------------------------------------------------------------------------

    def _has_counters(self, request: RequestAlternative, candidate: CandidateDevice) -> bool:
        """Whether the shared counters that the device consumes are available.

        Admin access consumes nothing, and a device with existing shares has consumed its counters already.
        """
        if not candidate.consumed or request.is_admin or self._has_shares(candidate.id):
            return True
        counters = self._remaining_counters(candidate.id.pool_id)
        return all(amount <= counters[key] for key, amount in candidate.consumed)

    def _has_shares(self, id: DeviceId) -> bool:
        shares = self._shares.get(id, ())
        return self._allocated_devices.is_shared(id) or any(not share.request.is_admin for share in shares)

    def _count(self, device: AllocatedDevice, by: int) -> None:
        candidate = device.candidate
        if not candidate.consumed or device.request.is_admin or self._has_shares(candidate.id):
            return
        counters = self._remaining_counters(candidate.id.pool_id)
        for key, amount in candidate.consumed:
            counters[key] = counters[key] - amount * by

    def _remaining_counters(self, pool: PoolId) -> dict[tuple[str, str], Quantity]:
        counters = self._counters.get(pool)
        if counters is None:
            view = self._views[pool]
            counters = self._counters[pool] = dict(view.counters)
            for name in self._allocated_devices.get_pool_use(pool):
                for key, amount in view.consumers.get(name, ()):
                    counters[key] = counters[key] - amount
        return counters


def rank(claim: ClaimRequests, allocated: Sequence[AllocatedDevice]) -> int:
    """Return a rank that is higher the earlier the chosen alternatives are in their `firstAvailable` lists."""
    chosen = {device.request for device in allocated}
    return sum(
        MAX_ALTERNATIVES - index
        for request, spec in zip(claim.requests, claim.devices.requests or (), strict=True)
        for index, alternative in enumerate(request)
        if spec.firstAvailable and alternative in chosen
    )
