"""PodTopologySpread: spreads the pods that a selector matches evenly over zones, hosts or other topology domains."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from sampan.api.labels import NOTHING
from sampan.api.types.core_v1 import TopologySpreadConstraint
from sampan.scheduler import arg_faults, spread_constraints
from sampan.scheduler.arg_faults import refuse
from sampan.scheduler.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.default_selectors import DefaultSelectors
from sampan.scheduler.framework.contract import (
    MAX_SCORE,
    SKIP,
    Action,
    ClusterEvent,
    Cycle,
    Events,
    Handle,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.label_columns import MISSING
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.spread_constraints import HARD, HOSTNAME, SOFT, Constraint, Spread

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"

SYSTEM_DEFAULT = (
    TopologySpreadConstraint(topologyKey=HOSTNAME, whenUnsatisfiable=SOFT, maxSkew=3),
    TopologySpreadConstraint(topologyKey="topology.kubernetes.io/zone", whenUnsatisfiable=SOFT, maxSkew=5),
)


class SpreadArgs(msgspec.Struct, forbid_unknown_fields=True):
    defaultConstraints: list[TopologySpreadConstraint] = []
    defaultingType: str = "System"


class PodTopologySpread:
    name = "PodTopologySpread"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, SpreadArgs)
        refuse(arg_faults.spread(args.defaultingType, args.defaultConstraints))
        self._table, self._profile = handle.table, handle.scheduler_name
        self._is_system = args.defaultingType == "System"
        self._defaults = SYSTEM_DEFAULT if self._is_system else tuple(args.defaultConstraints)
        self._selectors = DefaultSelectors(handle.informers) if self._defaults else None

    def pre_filter(self, cycle: Cycle) -> Status | None:
        spreads = self._spreads(cycle.info, HARD)
        cycle.memo[self.name] = spreads
        return None if spreads else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        verdicts = np.zeros(count_of(rows), dtype=np.int32)
        labels = cycle.info.group.labels
        for spread in reversed(cycle.memo[self.name]):
            constraint = spread.constraint
            codes = spread.column.codes[rows]
            itself = int(constraint.selector.matches(labels))
            most = constraint.max_skew + spread.smallest() - itself
            verdicts[spread.of_nodes(codes) > most] = cycle.refuse(self.name, REASON)
            verdicts[codes == MISSING] = cycle.refuse(self.name, REASON_LABEL, is_final=True)
        return verdicts

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        spreads = self._spreads(cycle.info, SOFT)
        cycle.memo[_SCORING] = spreads
        return None if spreads else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        spreads: list[Spread] = cycle.memo[_SCORING]
        ignored = self._ignored(cycle.info, spreads, rows)
        cycle.memo[_IGNORED] = ignored
        total = np.zeros(count_of(rows), dtype=np.float64)
        for spread in spreads:
            total += self._one(spread, rows, ignored)
        total[ignored] = 0
        return np.floor(total + 0.5).astype(np.int64)

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        """Normalize so that fewer pods score higher; nodes that lack a required topology label get 0."""
        ignored: Flags = cycle.memo[_IGNORED]
        counted = scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        least, most = int(counted.min()), max(0, int(counted.max()))
        normalized = np.full_like(scores, MAX_SCORE) if most == 0 else MAX_SCORE * (most + least - scores) // most
        normalized[ignored] = 0
        return normalized

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), _is_counted),
            (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_LABELS), _is_counted),
            (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _is_counted),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.DELETE), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_TAINTS), None),
            (ClusterEvent(Resource.POD, Action.UPDATE_LABELS), None),
        ]

    def _one(self, spread: Spread, rows: Rows, ignored: Flags) -> np.ndarray[Any, np.dtype[np.float64]]:
        codes = spread.column.codes[rows]
        if spread.constraint.topology_key == HOSTNAME:
            counts = spread.tally.per_node[rows]
            domains = int(len(codes) - ignored.sum())
        else:
            counts = spread.of_nodes(codes)
            domains = len(np.unique(codes[~ignored]))
        scores = counts * np.log(domains + 2) + (spread.constraint.max_skew - 1)
        return np.where(codes == MISSING, 0.0, scores)

    def _ignored(self, info: PodInfo, spreads: list[Spread], rows: Rows) -> Flags:
        """Return the rows that lack a topology label; the system default constraints ignore no rows."""
        ignored = np.zeros(count_of(rows), dtype=np.bool_)
        if self._needs_all_labels(info):
            for spread in spreads:
                ignored |= spread.column.codes[rows] == MISSING
        return ignored

    def _needs_all_labels(self, info: PodInfo) -> bool:
        return bool(info.needs.spec.topologySpreadConstraints) or not self._is_system

    def _spreads(self, info: PodInfo, action: str) -> list[Spread]:
        own = info.needs.spec.topologySpreadConstraints
        if own:
            keys = tuple(key for constraint in own for key in constraint.matchLabelKeys)
            variant = tuple(info.group.labels.get(key) for key in keys)
            constraints: Any = own
            selector = None
        else:
            selector = self._selectors.of(info) if self._selectors is not None else NOTHING
            if selector.is_nothing:
                return []
            constraints, variant = self._defaults, (str(selector),)
        kept: dict[object, list[Spread]] = info.needs.parsed(self.name, lambda spec: {})
        key = (self._profile, action, info.namespace, variant)
        spreads = kept.get(key)
        if spreads is None:
            read = spread_constraints.read(constraints, action, info.group.labels)
            if selector is not None:
                read = tuple(constraint._replace(selector=selector) for constraint in read)
            spreads = kept[key] = self._made(info, read)
        return spreads

    def _made(self, info: PodInfo, read: tuple[Constraint, ...]) -> list[Spread]:
        keys = tuple(constraint.topology_key for constraint in read) if self._needs_all_labels(info) else ()
        return [Spread(self._table, info.needs.spec, info.namespace, constraint, keys) for constraint in read]


_SCORING, _IGNORED = "PodTopologySpread/score", "PodTopologySpread/ignored"


def _is_counted(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the changed pod matches a hard constraint of the pending pod, or the pod uses default constraints."""
    own = info.needs.spec.topologySpreadConstraints
    hard = spread_constraints.read(own, HARD, info.group.labels)
    return not own or any(
        pod.metadata.namespace == info.namespace and constraint.selector.matches(pod.metadata.labels)
        for pod in (old, new)
        if pod is not None
        for constraint in hard
    )
