"""InterPodAffinity: pod affinity and anti-affinity, by the terms of the incoming pod and of existing pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.cache.label_columns import MISSING
from sampan.scheduler.cache.label_groups import AffinityTerm, AffinityTermKind, PodClass, select_terms
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_counts import PodTally
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.config.plugin_args import check_range, raise_if_invalid, read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.scores import normalize_min_max

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class InterPodAffinityArgs(msgspec.Struct, forbid_unknown_fields=True):
    hardPodAffinityWeight: int = 1
    ignorePreferredTermsOfExistingPods: bool = False


class PodTerms(NamedTuple):
    """The terms of a pod with the counts of the pods that they select."""

    required: tuple[AffinityTerm, ...]
    together: PodTally | None
    """Counts of the pods that match all required terms."""
    anti: tuple[tuple[AffinityTerm, PodTally], ...]
    preferred: tuple[tuple[AffinityTerm, PodTally, int], ...]
    """Preferred terms with their weights, which are negative for anti-affinity."""


class InterPodAffinity:
    name = "InterPodAffinity"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, InterPodAffinityArgs)
        raise_if_invalid(check_range("hardPodAffinityWeight", args.hardPodAffinityWeight, 0, 100))
        self._hard_weight = args.hardPodAffinityWeight
        self._ignores_others = args.ignorePreferredTermsOfExistingPods
        self._table = handle.table

    def pre_filter(self, cycle: CycleState) -> Status | None:
        own, existing = self._terms_of(cycle.info), self._list_existing_anti_terms(cycle.info)
        return None if own.required or own.anti or existing else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        own, table = self._terms_of(cycle.info), cycle.table
        for term in self._list_existing_anti_terms(cycle.info):
            assert term.carriers is not None
            codes[_has_counted_pods(table, term, term.carriers, rows)] = cycle.reject(self.name, REASON_EXISTING)
        for term, tally in own.anti:
            codes[_has_counted_pods(table, term, tally, rows)] = cycle.reject(self.name, REASON_ANTI)
        if own.required:
            codes[~self._satisfies_affinity(cycle.info, own, rows)] = cycle.reject(
                self.name, REASON_AFFINITY, is_final=True
            )
        return codes

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        weighted = [
            (term, tally, weight) for term, tally, weight in self._terms_of(cycle.info).preferred if tally.total
        ]
        weighted += self._terms_of_others(cycle.info, has_own=bool(self._terms_of(cycle.info).preferred))
        cycle.memo[self.name] = weighted
        return None if weighted else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        table = cycle.table
        total = np.zeros(count_of(rows), dtype=np.int64)
        for term, tally, weight in cycle.memo[self.name]:
            column = table.column(term.topology_key)
            total += weight * tally.sum_by_domain(column, table.shape).look_up_counts(column.codes[rows])
        return total

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        return normalize_min_max(scores)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD), self._matches_required_term),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), None),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.NAMESPACE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_LABELS), None),
        ]

    def _matches_required_term(self, info: PodInfo, old: Any, new: Any) -> bool:
        """Whether the new pod matches a required affinity term; a new pod cannot help with anti-affinity."""
        labels = new.metadata.labels
        return any(term.pods.selector.matches(labels) for term in select_terms(info.terms, AffinityTermKind.REQUIRED))

    def _satisfies_affinity(self, info: PodInfo, own: PodTerms, rows: Rows) -> Flags:
        """Return the rows in the same topology domains as pods that match all required terms.

        If there are no such pods at all and the pod matches its own terms, every row with the topology labels
        qualifies, because otherwise the first pod of a group could never be scheduled.
        """
        assert own.together is not None
        table = self._table
        labelled = np.ones(count_of(rows), dtype=np.bool_)
        near = np.ones(count_of(rows), dtype=np.bool_)
        any_counted = False
        for term in own.required:
            column = table.column(term.topology_key)
            codes = column.codes[rows]
            sums = own.together.sum_by_domain(column, table.shape)
            labelled &= codes != MISSING
            near &= sums.look_up_counts(codes) > 0
            any_counted = any_counted or bool(sums.values.any())
        if not any_counted and all(
            term.pods.matches(info.group, table.counts.namespace_labels) for term in own.required
        ):
            return labelled
        return labelled & near

    def _list_existing_anti_terms(self, info: PodInfo) -> list[AffinityTerm]:
        terms = self._table.counts.terms_about(info.group)
        return [term for term in terms if term.kind is AffinityTermKind.REQUIRED_ANTI]

    def _terms_of_others(self, info: PodInfo, *, has_own: bool) -> list[tuple[AffinityTerm, PodTally, int]]:
        if self._ignores_others and not has_own:
            return []
        weights = {AffinityTermKind.PREFERRED: 1, AffinityTermKind.PREFERRED_ANTI: -1}
        weighted = []
        for term in self._table.counts.terms_about(info.group):
            weight = (
                self._hard_weight if term.kind is AffinityTermKind.REQUIRED else weights.get(term.kind, 0) * term.weight
            )
            if weight and term.carriers is not None:
                weighted.append((term, term.carriers, weight))
        return weighted

    def _terms_of(self, info: PodInfo) -> PodTerms:
        if not info.terms:
            return _EMPTY_TERMS
        by_namespace: dict[str, PodTerms] = info.signature.parse_once(self.name, lambda spec: {})
        own = by_namespace.get(info.namespace)
        if own is None:
            own = by_namespace[info.namespace] = self._read(info.terms)
        return own

    def _read(self, terms: Sequence[AffinityTerm]) -> PodTerms:
        tally = self._table.counts.tally
        required = select_terms(terms, AffinityTermKind.REQUIRED)
        return PodTerms(
            required=required,
            together=tally(PodClass(tuple(term.pods for term in required))) if required else None,
            anti=tuple(
                (term, tally(PodClass((term.pods,)))) for term in select_terms(terms, AffinityTermKind.REQUIRED_ANTI)
            ),
            preferred=tuple(
                (
                    term,
                    tally(PodClass((term.pods,))),
                    term.weight if kind is AffinityTermKind.PREFERRED else -term.weight,
                )
                for kind in (AffinityTermKind.PREFERRED, AffinityTermKind.PREFERRED_ANTI)
                for term in select_terms(terms, kind)
            ),
        )


_EMPTY_TERMS = PodTerms((), None, (), ())


def _has_counted_pods(table: NodeTable, term: AffinityTerm, tally: PodTally, rows: Rows) -> Flags:
    """Return the rows that are in a topology domain with counted pods."""
    column = table.column(term.topology_key)
    return tally.sum_by_domain(column, table.shape).look_up_counts(column.codes[rows]) > 0
