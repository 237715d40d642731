"""Cached outcomes of allocating devices to claims with equal requests: whether the devices of a node suffice, and
which.

An outcome is kept until a relevant pool changes. Nodes with the same relevant pools share one outcome: nodes without
relevant pools, and nodes that see only pools which are offered to several nodes.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.cache.arrays import Flags, Ints, grow_array
from sampan.scheduler.devices.allocated_devices import AllocatedDevices
from sampan.scheduler.devices.allocator import ClaimAllocations, DeviceAllocator, MatchedPool, rank
from sampan.scheduler.devices.claim_requests import AllocationRefusal, PodClaimRequests
from sampan.scheduler.devices.device_inventory import NodeViews
from sampan.scheduler.devices.device_selectors import DeviceSelectors, Pause
from sampan.scheduler.devices.pools import PoolId, PoolView

FITS, _UNKNOWN = 0, -1
_MAX_STALE_ENTRIES = 256


class AllocationCache:
    def __init__(
        self,
        *,
        pod_requests: PodClaimRequests,
        views: NodeViews,
        allocated_devices: AllocatedDevices,
        selectors: DeviceSelectors,
        max_steps: int,
    ) -> None:
        self.pod_requests = pod_requests
        self._views, self._allocated_devices, self._selectors, self._max_steps = (
            views,
            allocated_devices,
            selectors,
            max_steps,
        )
        self._requests = list(pod_requests.every)
        self._counts_all = any(request.takes_all for _, request in self._requests)
        self._forget_all()

    def _forget_all(self) -> None:
        self.refusals: list[AllocationRefusal] = []
        """Distinct refusals; the outcome of a node is the index of its refusal plus one."""
        self._of_view: Ints = np.full(self._views.count, _UNKNOWN, dtype=np.int64)
        """The number of the outcome of each view of the pools, indexed by the view number."""
        self._outcomes: Ints = np.full(64, _UNKNOWN, dtype=np.int64)
        self._ranks: Ints = np.zeros(64, dtype=np.int64)
        self._allocations: list[ClaimAllocations | None] = []
        """The allocated devices, indexed by the number of the outcome, like `_outcomes` and `_ranks`."""
        self._numbers: dict[tuple[PoolView, ...], int] = {}
        self._relevant_pools: list[tuple[PoolView, ...]] = []
        """The pools that an outcome depends on, indexed by the number of the outcome."""
        self._by_pool: dict[PoolId, set[int]] = {}
        self._using: dict[PoolId, set[int]] = {}
        """The numbers of the outcomes that allocate devices of a pool, by pool."""
        self._matched_pools: dict[PoolView, MatchedPool | None] = {}
        self._max_matched_pools = _MAX_STALE_ENTRIES
        self._view_at, self._allocated_at = self._views.log.position, self._allocated_devices.position

    # -- reading: for rows that `catch_up` has processed -------------------------------------------------------------

    def outcomes(self, rows: NDArray[np.intp]) -> Ints:
        """Return, for each row, FITS or the index of its refusal plus one."""
        outcomes: Ints = self._outcomes[self._look_up_numbers(rows)]
        return outcomes

    def ranks(self, rows: NDArray[np.intp]) -> Ints:
        """Return a rank for each row, higher for better alternatives."""
        ranks: Ints = self._ranks[self._look_up_numbers(rows)]
        return ranks

    def allocations(self, row: int) -> ClaimAllocations | None:
        """Return the devices allocated to the claims if the devices of the node suffice."""
        return self._allocations[int(self._of_view[self._views.numbers[row]])]

    def catch_up(self, rows: NDArray[np.intp]) -> Generator[Pause, None, None]:
        """Compute the missing outcomes of these rows, yielding now and then so that other tasks can run."""
        self._forget_stale()
        yield None
        for view in self._views_without_number(rows):
            yield from self._selectors.ready()
            for pool in self._views.pools_of(view):
                if pool not in self._matched_pools:
                    yield from self._match_devices(pool)
            self._number_view(view)
            yield None
        numbers = self._look_up_numbers(rows)
        for number in _distinct(numbers, self._outcomes[numbers] < 0):
            yield from self._allocate(number)

    def is_known(self, rows: NDArray[np.intp]) -> bool:
        self._forget_stale()
        numbers = self._look_up_numbers(rows)
        return bool((numbers >= 0).all() and (self._outcomes[numbers] >= 0).all())

    def _look_up_numbers(self, rows: NDArray[np.intp]) -> Ints:
        numbers: Ints = self._of_view[self._views.numbers[rows]]
        return numbers

    # -- invalidation ------------------------------------------------------------------------------------------------

    def _forget_stale(self) -> None:
        self._views.refresh()
        views, changes = (
            self._views.log.list_changes_since(self._view_at),
            self._allocated_devices.list_changes_since(self._allocated_at),
        )
        if views is None or changes is None or len(self._numbers) > 2 * self._views.count + _MAX_STALE_ENTRIES:
            self._forget_all()
            return
        self._view_at, self._allocated_at = self._views.log.position, self._allocated_devices.position
        if len(self._of_view) < self._views.count:
            self._of_view = grow_array(self._of_view, 2 * self._views.count, _UNKNOWN)
        if len(views):
            self._of_view[views] = _UNKNOWN
        if len(self._matched_pools) > self._max_matched_pools:
            self._forget_removed_pools()
        for change in set(changes):
            places = self._by_pool if change.is_freed or self._counts_all else self._using
            for number in list(places.get(change.pool, ())):
                self._store(number, None)

    def _forget_removed_pools(self) -> None:
        """Drop entries of pool views that no longer exist; pools that are irrelevant to the claims may change often."""
        pools = set(self._views.pools())
        self._matched_pools = {pool: matches for pool, matches in self._matched_pools.items() if pool in pools}
        self._max_matched_pools = 2 * len(self._matched_pools) + _MAX_STALE_ENTRIES

    def _store(self, number: int, outcome: ClaimAllocations | AllocationRefusal | None) -> None:
        for pool in self._relevant_pools[number]:
            self._using.get(pool.id, set()).discard(number)
        self._allocations[number], self._outcomes[number], self._ranks[number] = None, _UNKNOWN, 0
        if isinstance(outcome, AllocationRefusal):
            if outcome not in self.refusals:
                self.refusals.append(outcome)
            self._outcomes[number] = self.refusals.index(outcome) + 1
        elif outcome is not None:
            self._allocations[number], self._outcomes[number] = outcome, FITS
            parts = zip(self.pod_requests.claims, outcome, strict=True)
            self._ranks[number] = sum(rank(claim, allocations) for claim, allocations in parts)
            for pool_id in {allocation.candidate.id.pool_id for claim in outcome for allocation in claim}:
                self._using.setdefault(pool_id, set()).add(number)

    # -- computation -------------------------------------------------------------------------------------------------

    def _views_without_number(self, rows: NDArray[np.intp]) -> list[int]:
        views = self._views.numbers[rows]
        return _distinct(views, self._of_view[views] < 0)

    def _number_view(self, view: int) -> None:
        relevant_pools = tuple(pool for pool in self._views.pools_of(view) if self._match_pool(pool) is not None)
        number = self._numbers.get(relevant_pools)
        if number is None:
            number = self._numbers[relevant_pools] = len(self._allocations)
            self._allocations.append(None)
            self._relevant_pools.append(relevant_pools)
            if number == len(self._outcomes):
                self._outcomes = grow_array(self._outcomes, 2 * number, _UNKNOWN)
                self._ranks = grow_array(self._ranks, 2 * number)
            for pool in relevant_pools:
                self._by_pool.setdefault(pool.id, set()).add(number)
        self._of_view[view] = number

    def _match_pool(self, pool: PoolView) -> MatchedPool | None:
        """Return the pool with its devices that match a request, or None if no device of the pool can match any
        request."""
        if pool not in self._matched_pools:
            run_to_end(self._match_devices(pool))
        return self._matched_pools[pool]

    def _match_devices(self, pool: PoolView) -> Generator[Pause, None, None]:
        matched = []
        for claim, request in self._requests:
            matched.append((yield from self._selectors.match_devices(claim, request, pool.candidates)))
        self._matched_pools[pool] = MatchedPool(pool, matched) if pool.error or any(matched) else None

    def _allocate(self, number: int) -> Generator[Pause, None, None]:
        if not 0 <= number < len(self._relevant_pools) or self._outcomes[number] >= 0:
            return
        began, relevant_pools = self._allocated_at, self._relevant_pools[number]
        matches = [pool_matches for pool in relevant_pools if (pool_matches := self._match_pool(pool)) is not None]
        search = DeviceAllocator(
            pod_requests=self.pod_requests,
            pools=matches,
            allocated_devices=self._allocated_devices,
            max_steps=self._max_steps,
        )
        outcome = yield from search.run()
        is_out_of_date = self._allocated_at != began or self._relevant_pools[number : number + 1] != [relevant_pools]
        if not is_out_of_date:  # another task may have invalidated or renumbered the outcome while the search yielded
            self._store(number, outcome)
        yield None


def run_to_end(work: Generator[Pause, None, None]) -> None:
    """Run the work to its end, with its jobs."""
    for job in work:
        if job is not None:
            job()


def _distinct(numbers: Ints, flags: Flags) -> list[int]:
    distinct: list[int] = np.unique(numbers[flags]).tolist() if flags.any() else []
    return distinct
