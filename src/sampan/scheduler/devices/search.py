"""Allocation of devices to claims: every request gets its devices, no device is allocated twice, all constraints hold.

A backtracking search: devices are tried in the order of pools and slices, the alternatives of a request in the order of
its list, and the first solution for all claims is taken. The search is a generator, so that its caller can let other
tasks run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import NamedTuple

from sampan.api.quantity import Quantity
from sampan.scheduler.devices.capacity import has_room, taken_of
from sampan.scheduler.devices.constraints import Constraint, Given
from sampan.scheduler.devices.ledger import Ledger
from sampan.scheduler.devices.pools import INVALID, Candidate, DeviceId, PoolId, PoolView
from sampan.scheduler.devices.taints import is_tolerated
from sampan.scheduler.devices.wants import MOST_RESULTS, Refusal, Wanted, Wants

TOO_FEW = Refusal("cannot allocate all claims")
TOO_LONG = Refusal("timed out trying to allocate devices")
INVALID_POOLS = Refusal("invalid resource pools were encountered")
_TURN = 200
"""The number of steps between two yields."""


class Suited(NamedTuple):
    """A device that matches the selectors of a request, or may match them."""

    candidate: Candidate
    fault: Refusal | None = None
    """The error if the selectors could not be evaluated."""


class Offered(NamedTuple):
    """A pool of the node with the devices in it that match."""

    view: PoolView
    suited: Sequence[Sequence[Suited]]
    """The matching devices for each entry of `Wants.every`."""


class Taken(NamedTuple):
    """A device allocated to a request."""

    wanted: Wanted
    candidate: Candidate
    consumed: dict[str, Quantity]
    """The consumed capacity of a device that allows multiple allocations; empty for others."""


Found = list[list[Taken]]
"""The allocated devices of each claim."""


class Refused(Exception):
    def __init__(self, why: Refusal) -> None:
        super().__init__(why.text)
        self.why = why


class Search:
    def __init__(self, *, wants: Wants, offered: Sequence[Offered], ledger: Ledger, most_steps: int) -> None:
        self._wants, self._offered, self._ledger, self._most_steps = wants, offered, ledger, most_steps
        self._views = {offer.view.id: offer.view for offer in offered}
        self._constraints = [
            [Constraint(constraint) for constraint in claim.devices.constraints] for claim in wants.claims
        ]
        self._found: Found = [[] for _ in wants.claims]
        self._holders: Counter[DeviceId] = Counter()
        """Allocated devices, and how many claims hold each of them."""
        self._held: set[tuple[DeviceId, int]] = set()
        """Allocated devices, each with the index of the claim that holds it."""
        self._shares: dict[DeviceId, list[Taken]] = {}
        self._counters: dict[PoolId, dict[tuple[str, str], Quantity]] = {}
        """What is left of the counters of the pools examined so far."""
        self._steps = 0
        self._suited: dict[Wanted, Sequence[Suited]] = {}

    def run(self) -> Generator[None, None, Found | Refusal]:
        try:
            for at, (claim, request) in enumerate(self._wants.every):
                self._suited[request] = self._suiting(at, claim, request)
            self._check_sizes()
            if (yield from self._claim(0)):
                return self._found
        except Refused as error:
            return error.why
        return INVALID_POOLS if any(offer.view.fault == INVALID for offer in self._offered) else TOO_FEW

    # -- preparation -------------------------------------------------------------------------------------------------

    def _suiting(self, at: int, claim: int, wanted: Wanted) -> Sequence[Suited]:
        """Return the devices that may be allocated to a request; for the allocation mode "All", exactly those to
        allocate.
        """
        if wanted.device_class is None:
            raise Refused(Refusal(f", request {wanted.label}: could not retrieve device class", claim))
        if not wanted.takes_all:
            return [device for offer in self._offered for device in offer.suited[at]]
        devices = []
        for offer in self._offered:
            if offer.view.fault:
                what = f"asks for all devices, but resource pool {offer.view.id} is currently"
                doing = "invalid" if offer.view.fault == INVALID else "being updated"
                raise Refused(Refusal(f", request {wanted.label}: {what} {doing}", claim))
            for device in offer.suited[at]:
                if device.fault is not None:
                    raise Refused(device.fault)
                if self._part(wanted, device.candidate) is not None:
                    devices.append(device)
        return devices

    def _check_sizes(self) -> None:
        for at, claim in enumerate(self._wants.claims):
            least = sum(self._least(request) for request in claim.requests)
            if least > MOST_RESULTS:
                what = f"number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
                raise Refused(Refusal(f": {what}", at))

    def _least(self, request: Sequence[Wanted]) -> int:
        return min((self._amount(alternative) for alternative in request), default=0)

    def _amount(self, wanted: Wanted) -> int:
        return len(self._suited[wanted]) if wanted.takes_all else wanted.amount

    # -- the search --------------------------------------------------------------------------------------------------

    def _claim(self, claim: int) -> Generator[None, None, bool]:
        if claim == len(self._wants.claims):
            return True
        return (yield from self._request(claim, 0))

    def _request(self, claim: int, at: int) -> Generator[None, None, bool]:
        requests = self._wants.claims[claim].requests
        if at == len(requests):
            return (yield from self._claim(claim + 1))
        later = sum(self._least(request) for request in requests[at + 1 :])
        for alternative in requests[at]:
            amount = self._amount(alternative)
            if not amount or len(self._found[claim]) + amount + later > MOST_RESULTS:
                continue
            if (yield from self._devices(claim, at, alternative, 0, amount)):
                return True
        return False

    def _devices(self, claim: int, at: int, wanted: Wanted, start: int, left: int) -> Generator[None, None, bool]:
        if not left:
            return (yield from self._request(claim, at + 1))
        suited = self._suited[wanted]
        last = start + 1 if wanted.takes_all else len(suited) - left + 1
        for index in range(start, last):
            if self._step():
                yield
            allocation = self._take(claim, wanted, suited[index])
            if allocation is not None:
                if (yield from self._devices(claim, at, wanted, index + 1, left - 1)):
                    return True
                self._give_back(claim, allocation)
        return False

    def _step(self) -> bool:
        """Count a step, raise Refused if there were too many, and return whether to yield."""
        self._steps += 1
        if self._most_steps and self._steps > self._most_steps:
            raise Refused(TOO_LONG)
        return not self._steps % _TURN

    # -- one device --------------------------------------------------------------------------------------------------

    def _take(self, claim: int, wanted: Wanted, one: Suited) -> Taken | None:
        candidate = one.candidate
        if self._is_in_use(claim, wanted, candidate):
            return None
        if one.fault is not None:
            raise Refused(one.fault)
        part = self._part(wanted, candidate)
        if part is None or not is_tolerated(candidate.device.taints, wanted.tolerations):
            return None
        if not self._has_counters(wanted, candidate):
            return None
        if not self._constrained(claim, Given(wanted, candidate)):
            if wanted.takes_all:
                what = f"cannot add device {candidate.id} because a claim constraint would not be satisfied"
                raise Refused(Refusal(f", request {wanted.label}: {what}", claim))
            return None
        allocation = Taken(wanted, candidate, part if candidate.is_shared else {})
        self._hold(claim, allocation)
        return allocation

    def _is_in_use(self, claim: int, wanted: Wanted, candidate: Candidate) -> bool:
        if wanted.is_admin:
            return (candidate.id, claim) in self._held
        return candidate.id in self._holders or self._ledger.is_taken(candidate.id)

    def _part(self, wanted: Wanted, candidate: Candidate) -> dict[str, Quantity] | None:
        """Return how much of the device's capacity the request consumes, or None if that much is not left."""
        device = candidate.device
        if not device.capacity and not wanted.capacity:
            return {}
        part = taken_of(device, wanted.capacity)
        if part is None:
            return None
        others = [share.consumed for share in self._shares.get(candidate.id, ())]
        return part if has_room(device, part, self._ledger.consumed(candidate.id), *others) else None

    def _constrained(self, claim: int, given: Given) -> bool:
        constraints = self._constraints[claim]
        for at, constraint in enumerate(constraints):
            if not constraint.add(given):
                for other in constraints[:at]:
                    other.take_back(given)
                return False
        return True

    def _hold(self, claim: int, taken: Taken) -> None:
        id = taken.candidate.id
        self._count(taken, 1)
        if taken.candidate.is_shared:
            self._shares.setdefault(id, []).append(taken)
        else:
            self._holders[id] += 1
            self._held.add((id, claim))
        self._found[claim].append(taken)

    def _give_back(self, claim: int, taken: Taken) -> None:
        id = taken.candidate.id
        self._found[claim].pop()
        for constraint in self._constraints[claim]:
            constraint.take_back(Given(taken.wanted, taken.candidate))
        if taken.candidate.is_shared:
            self._shares[id].pop()
        else:
            self._held.discard((id, claim))
            self._holders[id] -= 1
            if not self._holders[id]:
                del self._holders[id]
        self._count(taken, -1)

    # -- counters ----------------------------------------------------------------------------------------------------

    def _has_counters(self, wanted: Wanted, candidate: Candidate) -> bool:
        """Whether the shared counters that the device consumes are available.

        Admin access consumes nothing, and a device with existing shares has consumed its counters already.
        """
        if not candidate.consumed or wanted.is_admin or self._has_shares(candidate.id):
            return True
        counters = self._left(candidate.id.pool_id)
        return all(amount <= counters[key] for key, amount in candidate.consumed)

    def _has_shares(self, id: DeviceId) -> bool:
        shares = self._shares.get(id, ())
        return self._ledger.is_shared(id) or any(not share.wanted.is_admin for share in shares)

    def _count(self, taken: Taken, by: int) -> None:
        candidate = taken.candidate
        if not candidate.consumed or taken.wanted.is_admin or self._has_shares(candidate.id):
            return
        counters = self._left(candidate.id.pool_id)
        for key, amount in candidate.consumed:
            counters[key] = counters[key] - amount * by

    def _left(self, pool: PoolId) -> dict[tuple[str, str], Quantity]:
        counters = self._counters.get(pool)
        if counters is None:
            view = self._views[pool]
            counters = self._counters[pool] = dict(view.counters)
            for name in self._ledger.used_in(pool):
                for key, amount in view.consumers.get(name, ()):
                    counters[key] = counters[key] - amount
        return counters
