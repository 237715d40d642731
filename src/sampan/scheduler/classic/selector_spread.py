"""SelectorSpread: spreads the pods of one service or controller over nodes and zones.

It implements SelectorSpreadPriority and ServiceSpreadingPriority of the legacy policy; in the default profile
PodTopologySpread takes its place.
"""

from __future__ import annotations

import msgspec
import numpy as np

from sampan.api.selectors.labels import NOTHING, Selector
from sampan.scheduler.cache.arrays import Ints, Rows
from sampan.scheduler.cache.label_columns import MISSING
from sampan.scheduler.cache.label_groups import PodClass, PodSelector
from sampan.scheduler.cache.pod_counts import PodTally, RetainedTallies
from sampan.scheduler.cache.workload_selectors import DefaultSelectors, ServiceSelectors
from sampan.scheduler.config.plugin_args import read_args
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

ZONE = "topology.kubernetes.io/zone"
_ZONE_SHARE = 2 / 3
"""The share of the zone in the score of a node that has one."""


class SelectorSpreadArgs(msgspec.Struct, forbid_unknown_fields=True):
    servicesOnly: bool = False
    """Whether to consider services only and ignore controllers."""


class SelectorSpread:
    name = "SelectorSpread"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        only = read_args(handle.args, SelectorSpreadArgs).servicesOnly
        self._services = ServiceSelectors(handle.informers) if only else None
        self._selectors = None if only else DefaultSelectors(handle.informers)
        self._table = handle.table
        self._tallies = RetainedTallies(handle.table.counts)

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        selector = self._selector(cycle)
        if selector.is_nothing or cycle.signature.spec.topologySpreadConstraints:
            return SKIP
        cycle.memo[self.name] = self._tallies.get(
            PodClass((PodSelector(selector, frozenset((cycle.info.namespace,))),), with_terminating=False)
        )
        return None

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        tally: PodTally = cycle.memo[self.name]
        cycle.memo[_ZONES] = self._table.column(ZONE).codes[rows]
        return tally.per_node[rows].copy()

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        """Normalize by the counts of the feasible nodes and of their zones."""
        zones = cycle.memo[_ZONES]
        on_node = _inverse_scores(scores)
        zoned = zones != MISSING
        if not zoned.any():
            return on_node.astype(np.int64)
        sums = np.bincount(zones[zoned], weights=scores[zoned])
        in_zone = np.zeros(len(scores))
        in_zone[zoned] = _inverse_scores(sums)[zones[zoned]]
        mixed = on_node * (1 - _ZONE_SHARE) + _ZONE_SHARE * in_zone
        return np.where(zoned, mixed, on_node).astype(np.int64)

    def _selector(self, cycle: CycleState) -> Selector:
        if self._selectors is not None:
            return self._selectors.get_selector(cycle.info)
        assert self._services is not None
        selectors = self._services.selectors(cycle.info)
        every = [requirement for selector in selectors for requirement in selector.requirements]
        return selectors[0].with_requirements(*every) if selectors else NOTHING


_ZONES = "SelectorSpread/zones"


def _inverse_scores(
    counts: np.ndarray[tuple[int], np.dtype[np.int64 | np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return 100 for no pods down to 0 for the highest count."""
    maximum = counts.max() if len(counts) else 0
    return MAX_SCORE * ((maximum - counts) / maximum) if maximum > 0 else np.full(len(counts), float(MAX_SCORE))
