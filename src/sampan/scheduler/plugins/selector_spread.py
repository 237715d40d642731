"""SelectorSpread: spreads the pods of one service or controller over nodes and zones.

It implements SelectorSpreadPriority and ServiceSpreadingPriority of the legacy policy; in the default profile
PodTopologySpread takes its place.
"""

from __future__ import annotations

import msgspec
import numpy as np

from sampan.api.labels import NOTHING, Selector
from sampan.scheduler.arrays import Ints, Rows
from sampan.scheduler.default_selectors import DefaultSelectors
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, Cycle, Handle, Scope, Status
from sampan.scheduler.label_columns import MISSING
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.pod_sorts import PodSelector, Sort
from sampan.scheduler.service_lookup import ServiceLookup
from sampan.scheduler.tally import Tally

ZONE = "topology.kubernetes.io/zone"
_ZONE_SHARE = 2 / 3
"""The share of the zone in the score of a node that has one."""
_MOST = 1024


class SpreadArgs(msgspec.Struct, forbid_unknown_fields=True):
    servicesOnly: bool = False
    """Whether to consider services only and ignore controllers."""


class SelectorSpread:
    name = "SelectorSpread"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        only = read_args(handle.args, SpreadArgs).servicesOnly
        self._services = ServiceLookup(handle.informers) if only else None
        self._selectors = None if only else DefaultSelectors(handle.informers)
        self._table = handle.table
        self._tallies: dict[Sort, Tally] = {}

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        selector = self._selector(cycle)
        if selector.is_nothing or cycle.needs.spec.topologySpreadConstraints:
            return SKIP
        cycle.memo[self.name] = self._tally(
            Sort((PodSelector(selector, frozenset((cycle.info.namespace,))),), with_terminating=False)
        )
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        tally: Tally = cycle.memo[self.name]
        cycle.memo[_ZONES] = self._table.column(ZONE).codes[rows]
        return tally.per_node[rows].copy()

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """Normalize by the counts of the feasible nodes and of their zones."""
        zones = cycle.memo[_ZONES]
        on_node = _emptiness(scores)
        zoned = zones != MISSING
        if not zoned.any():
            return on_node.astype(np.int64)
        sums = np.bincount(zones[zoned], weights=scores[zoned])
        in_zone = np.zeros(len(scores))
        in_zone[zoned] = _emptiness(sums)[zones[zoned]]
        mixed = on_node * (1 - _ZONE_SHARE) + _ZONE_SHARE * in_zone
        return np.where(zoned, mixed, on_node).astype(np.int64)

    def _selector(self, cycle: Cycle) -> Selector:
        if self._selectors is not None:
            return self._selectors.of(cycle.info)
        assert self._services is not None
        selectors = self._services.selectors(cycle.info)
        every = [requirement for selector in selectors for requirement in selector.requirements]
        return selectors[0].narrowed(*every) if selectors else NOTHING

    def _tally(self, sort: Sort) -> Tally:
        tally = self._tallies.get(sort)
        if tally is None:
            if len(self._tallies) >= _MOST:
                self._tallies.clear()
            tally = self._tallies[sort] = self._table.counts.tally(sort)
        return tally


_ZONES = "SelectorSpread/zones"


def _emptiness(
    counts: np.ndarray[tuple[int], np.dtype[np.int64 | np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return 100 for no pods down to 0 for the highest count."""
    most = counts.max() if len(counts) else 0
    return MAX_SCORE * ((most - counts) / most) if most > 0 else np.full(len(counts), float(MAX_SCORE))
