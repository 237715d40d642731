"""InterPodAffinity: pod affinity and anti-affinity, by the terms of the incoming pod and of existing pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sampan.scheduler.affinity_terms import Term, TermKind, of_kind
from sampan.scheduler.arg_faults import in_range, refuse
from sampan.scheduler.arrays import Codes, Flags, Ints, Rows, count_of
from sampan.scheduler.framework.contract import (
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
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.normalizing import stretched
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.pod_sorts import Sort
from sampan.scheduler.tally import Tally

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class AffinityArgs(msgspec.Struct, forbid_unknown_fields=True):
    hardPodAffinityWeight: int = 1
    ignorePreferredTermsOfExistingPods: bool = False


class Own(NamedTuple):
    """The terms of a pod with the counts of the pods that they select."""

    required: tuple[Term, ...]
    together: Tally | None
    """Counts of the pods that match all required terms."""
    anti: tuple[tuple[Term, Tally], ...]
    preferred: tuple[tuple[Term, Tally, int], ...]
    """Preferred terms with their weights, which are negative for anti-affinity."""


class InterPodAffinity:
    name = "InterPodAffinity"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, AffinityArgs)
        refuse(in_range("hardPodAffinityWeight", args.hardPodAffinityWeight, 0, 100))
        self._hard_weight = args.hardPodAffinityWeight
        self._ignores_others = args.ignorePreferredTermsOfExistingPods
        self._table = handle.table

    def pre_filter(self, cycle: Cycle) -> Status | None:
        own, existing = self._own(cycle.info), self._existing_anti(cycle.info)
        return None if own.required or own.anti or existing else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        own, table = self._own(cycle.info), cycle.table
        for term in self._existing_anti(cycle.info):
            assert term.carriers is not None
            codes[_near(table, term, term.carriers, rows)] = cycle.refuse(self.name, REASON_EXISTING)
        for term, tally in own.anti:
            codes[_near(table, term, tally, rows)] = cycle.refuse(self.name, REASON_ANTI)
        if own.required:
            codes[~self._affine(cycle.info, own, rows)] = cycle.refuse(self.name, REASON_AFFINITY, is_final=True)
        return codes

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        weighted = [(term, tally, weight) for term, tally, weight in self._own(cycle.info).preferred if tally.total]
        weighted += self._others(cycle.info, has_own=bool(self._own(cycle.info).preferred))
        cycle.memo[self.name] = weighted
        return None if weighted else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        table = cycle.table
        total = np.zeros(count_of(rows), dtype=np.int64)
        for term, tally, weight in cycle.memo[self.name]:
            column = table.column(term.topology_key)
            total += weight * tally.by_domain(column, table.shape).of_nodes(column.codes[rows])
        return total

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return stretched(scores)

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), self._may_help_by_coming),
            (ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), None),
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.NAMESPACE, Action.UPDATE_LABELS), None),
            (ClusterEvent(Resource.POD, Action.UPDATE_LABELS), None),
        ]

    def _may_help_by_coming(self, info: PodInfo, old: Any, new: Any) -> bool:
        """Whether the new pod matches a required affinity term; a new pod cannot help with anti-affinity."""
        labels = new.metadata.labels
        return any(term.pods.selector.matches(labels) for term in of_kind(info.terms, TermKind.REQUIRED))

    def _affine(self, info: PodInfo, own: Own, rows: Rows) -> Flags:
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
            sums = own.together.by_domain(column, table.shape)
            labelled &= codes != MISSING
            near &= sums.of_nodes(codes) > 0
            any_counted = any_counted or bool(sums.values.any())
        if not any_counted and all(
            term.pods.matches(info.group, table.counts.namespace_labels) for term in own.required
        ):
            return labelled
        return labelled & near

    def _existing_anti(self, info: PodInfo) -> list[Term]:
        terms = self._table.counts.terms_about(info.group)
        return [term for term in terms if term.kind is TermKind.REQUIRED_ANTI]

    def _others(self, info: PodInfo, *, has_own: bool) -> list[tuple[Term, Tally, int]]:
        if self._ignores_others and not has_own:
            return []
        weights = {TermKind.PREFERRED: 1, TermKind.PREFERRED_ANTI: -1}
        weighted = []
        for term in self._table.counts.terms_about(info.group):
            weight = self._hard_weight if term.kind is TermKind.REQUIRED else weights.get(term.kind, 0) * term.weight
            if weight and term.carriers is not None:
                weighted.append((term, term.carriers, weight))
        return weighted

    def _own(self, info: PodInfo) -> Own:
        if not info.terms:
            return _NOTHING
        kept: dict[str, Own] = info.needs.parsed(self.name, lambda spec: {})
        own = kept.get(info.namespace)
        if own is None:
            own = kept[info.namespace] = self._read(info.terms)
        return own

    def _read(self, terms: Sequence[Term]) -> Own:
        tally = self._table.counts.tally
        required = of_kind(terms, TermKind.REQUIRED)
        return Own(
            required=required,
            together=tally(Sort(tuple(term.pods for term in required))) if required else None,
            anti=tuple((term, tally(Sort((term.pods,)))) for term in of_kind(terms, TermKind.REQUIRED_ANTI)),
            preferred=tuple(
                (term, tally(Sort((term.pods,))), term.weight if kind is TermKind.PREFERRED else -term.weight)
                for kind in (TermKind.PREFERRED, TermKind.PREFERRED_ANTI)
                for term in of_kind(terms, kind)
            ),
        )


_NOTHING = Own((), None, (), ())


def _near(table: NodeTable, term: Term, tally: Tally, rows: Rows) -> Flags:
    """Return the rows that are in a topology domain with counted pods."""
    column = table.column(term.topology_key)
    return tally.by_domain(column, table.shape).of_nodes(column.codes[rows]) > 0
