"""PodTopologySpread: spreads the pods that a selector matches evenly over zones, hosts or other topology domains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import NOTHING, Operator, Requirement, Selector
from sampan.api.types.core_v1 import PodSpec, TopologySpreadConstraint
from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.cache.label_columns import MISSING
from sampan.scheduler.cache.label_groups import PodClass, PodSelector
from sampan.scheduler.cache.node_selectors import has_requirements, satisfies_requirements
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_counts import DomainSums
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.taints import have_untolerated_taints
from sampan.scheduler.cache.workload_selectors import DefaultSelectors
from sampan.scheduler.config.plugin_args import check_topology_spread, raise_if_invalid, read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
_NO_DOMAIN = 2**31 - 1


class SpreadConstraint(NamedTuple):
    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


def read_constraints(
    constraints: Iterable[TopologySpreadConstraint], action: str, labels: Mapping[str, str]
) -> tuple[SpreadConstraint, ...]:
    """Return the constraints whose `whenUnsatisfiable` is `action`."""
    return tuple(
        SpreadConstraint(
            max_skew=constraint.maxSkew,
            topology_key=constraint.topologyKey,
            selector=_with_match_label_keys(selector_of(constraint.labelSelector), constraint.matchLabelKeys, labels),
            min_domains=constraint.minDomains if constraint.minDomains is not None else 1,
            honors_affinity=constraint.nodeAffinityPolicy != "Ignore",
            honors_taints=constraint.nodeTaintsPolicy == "Honor",
        )
        for constraint in constraints
        if constraint.whenUnsatisfiable == action
    )


def _with_match_label_keys(selector: Selector, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    requirements = [Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels]
    missing = [requirement for requirement in requirements if requirement not in selector.requirements]
    return selector.with_requirements(*missing) if missing and not selector.is_nothing else selector


class DomainSpread:
    """A constraint over the nodes: the eligible domains, and how many matching pods each of them has."""

    def __init__(
        self, table: NodeTable, spec: PodSpec, namespace: str, constraint: SpreadConstraint, keys: tuple[str, ...]
    ) -> None:
        """Create the evaluation of a constraint; `keys` are the labels that an eligible node must have."""
        self.constraint = constraint
        self._table, self._spec, self._keys = table, spec, keys
        self.column = table.column(constraint.topology_key)
        counted = NOTHING if constraint.selector.is_everything else constraint.selector
        """A selector that matches everything counts nothing, as in Kubernetes."""
        pod_class = PodClass((PodSelector(counted, frozenset((namespace,))),), with_terminating=False)
        self.tally = table.counts.tally(pod_class)
        self._sums: DomainSums | None = None
        self._present: Flags = np.zeros(0, dtype=np.bool_)

    def counts(self) -> Ints:
        """Return the matching pods per domain, over eligible nodes."""
        return self._refresh_sums().values

    def global_minimum(self) -> int:
        """Return the smallest number of matching pods in an eligible domain (the global minimum)."""
        values = self._refresh_sums().values[self._present]
        if len(values) < self.constraint.min_domains:
            return 0
        return int(values.min()) if len(values) else _NO_DOMAIN

    def look_up_counts(self, codes: Codes) -> Ints:
        return self._refresh_sums().look_up_counts(codes)

    def _refresh_sums(self) -> DomainSums:
        shape = self._table.shape
        if self._sums is None or self._sums.shape != shape:
            mask = self._mask()
            if self._sums is None:
                self._sums = DomainSums(self.tally, self.column, mask, shape)
            else:
                self._sums.rebuild(mask, shape)
            codes = self.column.codes[: len(mask)][mask]
            self._present = np.bincount(codes, minlength=len(self._sums.values)) > 0
        return self._sums

    def _mask(self) -> Flags:
        table, rows = self._table, self._table.every_row
        mask: Flags = table.valid[rows].copy()
        for key in (*self._keys, self.constraint.topology_key):
            mask &= table.column(key).exists(rows)
        if self.constraint.honors_affinity and has_requirements(self._spec):
            mask &= satisfies_requirements(table, self._spec, rows)
        if self.constraint.honors_taints:
            mask &= ~have_untolerated_taints(table.taints.sets, self._spec.tolerations)[table.taints.codes[rows]]
        return mask


REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"

SYSTEM_DEFAULT = (
    TopologySpreadConstraint(topologyKey=HOSTNAME, whenUnsatisfiable=SOFT, maxSkew=3),
    TopologySpreadConstraint(topologyKey="topology.kubernetes.io/zone", whenUnsatisfiable=SOFT, maxSkew=5),
)


class PodTopologySpreadArgs(msgspec.Struct, forbid_unknown_fields=True):
    defaultConstraints: list[TopologySpreadConstraint] = []
    defaultingType: str = "System"


class PodTopologySpread:
    name = "PodTopologySpread"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, PodTopologySpreadArgs)
        raise_if_invalid(check_topology_spread(args.defaultingType, args.defaultConstraints))
        self._table, self._profile = handle.table, handle.scheduler_name
        self._is_system = args.defaultingType == "System"
        self._defaults = SYSTEM_DEFAULT if self._is_system else tuple(args.defaultConstraints)
        self._selectors = DefaultSelectors(handle.informers) if self._defaults else None

    def pre_filter(self, cycle: CycleState) -> Status | None:
        spreads = self._spreads(cycle.info, HARD)
        cycle.memo[self.name] = spreads
        return None if spreads else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        row_codes = np.zeros(count_of(rows), dtype=np.int32)
        labels = cycle.info.group.labels
        for spread in reversed(cycle.memo[self.name]):
            constraint = spread.constraint
            codes = spread.column.codes[rows]
            itself = int(constraint.selector.matches(labels))
            maximum = constraint.max_skew + spread.global_minimum() - itself
            row_codes[spread.look_up_counts(codes) > maximum] = cycle.reject(self.name, REASON)
            row_codes[codes == MISSING] = cycle.reject(self.name, REASON_LABEL, is_final=True)
        return row_codes

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        spreads = self._spreads(cycle.info, SOFT)
        cycle.memo[_SCORING] = spreads
        return None if spreads else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        spreads: list[DomainSpread] = cycle.memo[_SCORING]
        ignored = self._flag_ignored_rows(cycle.info, spreads, rows)
        cycle.memo[_IGNORED] = ignored
        total = np.zeros(count_of(rows), dtype=np.float64)
        for spread in spreads:
            total += self._score_constraint(spread, rows, ignored)
        total[ignored] = 0
        return np.floor(total + 0.5).astype(np.int64)

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        """Normalize so that fewer pods score higher; nodes that lack a required topology label get 0."""
        ignored: Flags = cycle.memo[_IGNORED]
        counted = scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        minimum, maximum = int(counted.min()), max(0, int(counted.max()))
        normalized = (
            np.full_like(scores, MAX_SCORE) if maximum == 0 else MAX_SCORE * (maximum + minimum - scores) // maximum
        )
        normalized[ignored] = 0
        return normalized

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD), _matches_hard_constraint),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_LABELS), _matches_hard_constraint),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), _matches_hard_constraint),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.DELETE), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_TAINTS), None),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_LABELS), None),
        ]

    def _score_constraint(
        self, spread: DomainSpread, rows: Rows, ignored: Flags
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        codes = spread.column.codes[rows]
        if spread.constraint.topology_key == HOSTNAME:
            counts = spread.tally.per_node[rows]
            domains = int(len(codes) - ignored.sum())
        else:
            counts = spread.look_up_counts(codes)
            domains = len(np.unique(codes[~ignored]))
        scores = counts * np.log(domains + 2) + (spread.constraint.max_skew - 1)
        return np.where(codes == MISSING, 0.0, scores)

    def _flag_ignored_rows(self, info: PodInfo, spreads: list[DomainSpread], rows: Rows) -> Flags:
        """Return the rows that lack a topology label; the system default constraints ignore no rows."""
        ignored = np.zeros(count_of(rows), dtype=np.bool_)
        if self._needs_all_labels(info):
            for spread in spreads:
                ignored |= spread.column.codes[rows] == MISSING
        return ignored

    def _needs_all_labels(self, info: PodInfo) -> bool:
        return bool(info.signature.spec.topologySpreadConstraints) or not self._is_system

    def _spreads(self, info: PodInfo, action: str) -> list[DomainSpread]:
        own = info.signature.spec.topologySpreadConstraints
        if own:
            keys = tuple(key for constraint in own for key in constraint.matchLabelKeys)
            variant = tuple(info.group.labels.get(key) for key in keys)
            constraints: Any = own
            selector = None
        else:
            selector = self._selectors.get_selector(info) if self._selectors is not None else NOTHING
            if selector.is_nothing:
                return []
            constraints, variant = self._defaults, (str(selector),)
        by_variant: dict[object, list[DomainSpread]] = info.signature.parse_once(self.name, lambda spec: {})
        key = (self._profile, action, info.namespace, variant)
        spreads = by_variant.get(key)
        if spreads is None:
            read = read_constraints(constraints, action, info.group.labels)
            if selector is not None:
                read = tuple(constraint._replace(selector=selector) for constraint in read)
            spreads = by_variant[key] = self._make_spreads(info, read)
        return spreads

    def _make_spreads(self, info: PodInfo, read: tuple[SpreadConstraint, ...]) -> list[DomainSpread]:
        keys = tuple(constraint.topology_key for constraint in read) if self._needs_all_labels(info) else ()
        return [DomainSpread(self._table, info.signature.spec, info.namespace, constraint, keys) for constraint in read]


_SCORING, _IGNORED = "PodTopologySpread/score", "PodTopologySpread/ignored"


def _matches_hard_constraint(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the changed pod matches a hard constraint of the pending pod, or the pod uses default constraints."""
    own = info.signature.spec.topologySpreadConstraints
    hard = read_constraints(own, HARD, info.group.labels)
    return not own or any(
        pod.metadata.namespace == info.namespace and constraint.selector.matches(pod.metadata.labels)
        for pod in (old, new)
        if pod is not None
        for constraint in hard
    )
