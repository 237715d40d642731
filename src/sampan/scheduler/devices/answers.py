"""Cached outcomes of allocating devices to claims with equal requests: whether the devices of a node suffice, and
which.

An outcome is kept until a relevant pool changes. Nodes with the same relevant pools share one outcome: nodes without
relevant pools, and nodes that see only pools which are offered to several nodes.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.arrays import Flags, Ints, grown
from sampan.scheduler.devices.ledger import Ledger
from sampan.scheduler.devices.pools import PoolId, PoolView
from sampan.scheduler.devices.results import rank
from sampan.scheduler.devices.search import Found, Offered, Search
from sampan.scheduler.devices.selectors import Pause, Selectors
from sampan.scheduler.devices.views import Views
from sampan.scheduler.devices.wants import Refusal, Wants

FITS, _UNKNOWN = 0, -1
_MOST_SPARE = 256


class Answers:
    def __init__(self, *, wants: Wants, views: Views, ledger: Ledger, selectors: Selectors, most_steps: int) -> None:
        self.wants = wants
        self._views, self._ledger, self._selectors, self._most_steps = views, ledger, selectors, most_steps
        self._every = list(wants.every)
        self._counts_all = any(request.takes_all for _, request in self._every)
        self._forget_all()

    def _forget_all(self) -> None:
        self.refusals: list[Refusal] = []
        """Distinct refusals; the verdict of a node is the index of its refusal plus one."""
        self._of_view: Ints = np.full(self._views.count, _UNKNOWN, dtype=np.int64)
        """The number of the outcome for each view number."""
        self._verdicts: Ints = np.full(64, _UNKNOWN, dtype=np.int64)
        self._ranks: Ints = np.zeros(64, dtype=np.int64)
        self._found: list[Found | None] = []
        """The allocated devices, indexed by the number of the outcome, like `_verdicts` and `_ranks`."""
        self._numbers: dict[tuple[PoolView, ...], int] = {}
        self._mattering: list[tuple[PoolView, ...]] = []
        """The pools that an outcome depends on, indexed by the number of the outcome."""
        self._by_pool: dict[PoolId, set[int]] = {}
        self._using: dict[PoolId, set[int]] = {}
        """Outcomes that allocate devices of the pool."""
        self._offered: dict[PoolView, Offered | None] = {}
        self._most_offered = _MOST_SPARE
        self._view_at, self._ledger_at = self._views.log.position, self._ledger.position

    # -- reading: for rows that `catch_up` has processed -------------------------------------------------------------

    def verdicts(self, rows: NDArray[np.intp]) -> Ints:
        """Return, for each row, FITS or the index of its refusal plus one."""
        verdicts: Ints = self._verdicts[self._numbered(rows)]
        return verdicts

    def ranks(self, rows: NDArray[np.intp]) -> Ints:
        """Return a rank for each row, higher for better alternatives."""
        ranks: Ints = self._ranks[self._numbered(rows)]
        return ranks

    def found(self, row: int) -> Found | None:
        """Return the devices for the claims if those of the node suffice."""
        return self._found[int(self._of_view[self._views.numbers[row]])]

    def catch_up(self, rows: NDArray[np.intp]) -> Generator[Pause, None, None]:
        """Compute the missing outcomes of these rows, yielding now and then so that other tasks can run."""
        self._forget_stale()
        yield None
        for view in self._unplaced(rows):
            yield from self._selectors.ready()
            for pool in self._views.seen(view):
                if pool not in self._offered:
                    yield from self._look_at(pool)
            self._place(view)
            yield None
        numbers = self._numbered(rows)
        for number in _distinct(numbers, self._verdicts[numbers] < 0):
            yield from self._answer(number)

    def is_known(self, rows: NDArray[np.intp]) -> bool:
        self._forget_stale()
        numbers = self._numbered(rows)
        return bool((numbers >= 0).all() and (self._verdicts[numbers] >= 0).all())

    def _numbered(self, rows: NDArray[np.intp]) -> Ints:
        numbers: Ints = self._of_view[self._views.numbers[rows]]
        return numbers

    # -- invalidation ------------------------------------------------------------------------------------------------

    def _forget_stale(self) -> None:
        self._views.refresh()
        views, changes = self._views.log.since(self._view_at), self._ledger.since(self._ledger_at)
        if views is None or changes is None or len(self._numbers) > 2 * self._views.count + _MOST_SPARE:
            self._forget_all()
            return
        self._view_at, self._ledger_at = self._views.log.position, self._ledger.position
        if len(self._of_view) < self._views.count:
            self._of_view = grown(self._of_view, 2 * self._views.count, _UNKNOWN)
        if len(views):
            self._of_view[views] = _UNKNOWN
        if len(self._offered) > self._most_offered:
            self._forget_gone()
        for change in set(changes):
            places = self._by_pool if change.is_freed or self._counts_all else self._using
            for number in list(places.get(change.pool, ())):
                self._put(number, None)

    def _forget_gone(self) -> None:
        """Drop entries of pool views that no longer exist; pools that are irrelevant to the claims may change often."""
        pools = set(self._views.pools())
        self._offered = {pool: offered for pool, offered in self._offered.items() if pool in pools}
        self._most_offered = 2 * len(self._offered) + _MOST_SPARE

    def _put(self, number: int, said: Found | Refusal | None) -> None:
        for pool in self._mattering[number]:
            self._using.get(pool.id, set()).discard(number)
        self._found[number], self._verdicts[number], self._ranks[number] = None, _UNKNOWN, 0
        if isinstance(said, Refusal):
            if said not in self.refusals:
                self.refusals.append(said)
            self._verdicts[number] = self.refusals.index(said) + 1
        elif said is not None:
            self._found[number], self._verdicts[number] = said, FITS
            parts = zip(self.wants.claims, said, strict=True)
            self._ranks[number] = sum(rank(claim, allocations) for claim, allocations in parts)
            for pool_id in {allocation.candidate.id.pool_id for claim in said for allocation in claim}:
                self._using.setdefault(pool_id, set()).add(number)

    # -- computation -------------------------------------------------------------------------------------------------

    def _unplaced(self, rows: NDArray[np.intp]) -> list[int]:
        views = self._views.numbers[rows]
        return _distinct(views, self._of_view[views] < 0)

    def _place(self, view: int) -> None:
        mattering = tuple(pool for pool in self._views.seen(view) if self._offer(pool) is not None)
        number = self._numbers.get(mattering)
        if number is None:
            number = self._numbers[mattering] = len(self._found)
            self._found.append(None)
            self._mattering.append(mattering)
            if number == len(self._verdicts):
                self._verdicts = grown(self._verdicts, 2 * number, _UNKNOWN)
                self._ranks = grown(self._ranks, 2 * number)
            for pool in mattering:
                self._by_pool.setdefault(pool.id, set()).add(number)
        self._of_view[view] = number

    def _offer(self, pool: PoolView) -> Offered | None:
        """Return None if no device of the pool can match any request."""
        if pool not in self._offered:
            finished(self._look_at(pool))
        return self._offered[pool]

    def _look_at(self, pool: PoolView) -> Generator[Pause, None, None]:
        suited = []
        for claim, request in self._every:
            suited.append((yield from self._selectors.matching(claim, request, pool.candidates)))
        self._offered[pool] = Offered(pool, suited) if pool.fault or any(suited) else None

    def _answer(self, number: int) -> Generator[Pause, None, None]:
        if not 0 <= number < len(self._mattering) or self._verdicts[number] >= 0:
            return
        began, mattering = self._ledger_at, self._mattering[number]
        offered = [offer for pool in mattering if (offer := self._offer(pool)) is not None]
        search = Search(wants=self.wants, offered=offered, ledger=self._ledger, most_steps=self._most_steps)
        outcome = yield from search.run()
        is_out_of_date = self._ledger_at != began or self._mattering[number : number + 1] != [mattering]
        if not is_out_of_date:  # another task may have invalidated or renumbered the outcome while the search yielded
            self._put(number, outcome)
        yield None


def finished(work: Generator[Pause, None, None]) -> None:
    """Run the work to its end, with its jobs."""
    for job in work:
        if job is not None:
            job()


def _distinct(numbers: Ints, flags: Flags) -> list[int]:
    distinct: list[int] = np.unique(numbers[flags]).tolist() if flags.any() else []
    return distinct
