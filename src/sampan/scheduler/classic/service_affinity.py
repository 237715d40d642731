"""ServiceAffinity: keeps the pods of one service on nodes with equal label values, or spreads them over the values.

It implements CheckServiceAffinity and serviceAntiAffinity of the legacy policy; no default profile enables it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from sampan.api.selectors.labels import from_labels
from sampan.scheduler.cache.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.cache.label_columns import MISSING
from sampan.scheduler.cache.label_groups import PodClass, PodSelector
from sampan.scheduler.cache.pod_counts import RetainedTallies
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.workload_selectors import ServiceSelectors
from sampan.scheduler.config.plugin_args import ArgumentError, read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) didn't match service affinity"


class ServiceAffinityArgs(msgspec.Struct, forbid_unknown_fields=True):
    labels: list[str] = []
    """Labels whose values must be equal on all nodes of one service's pods."""
    antiAffinityLabel: str = ""
    """The label over whose values the pods of a service are spread."""


class ServiceAffinity:
    name = "ServiceAffinity"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._args = read_args(handle.args, ServiceAffinityArgs)
        if not self._args.labels and not self._args.antiAffinityLabel:
            raise ArgumentError("labels: Required value: at least one label is needed")
        self._services = ServiceSelectors(handle.informers)
        self._table = handle.table
        self._tallies = RetainedTallies(handle.table.counts)

    # -- affinity ----------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: CycleState) -> Status | None:
        labels = self._required_labels(cycle)
        cycle.memo[self.name] = labels
        return None if labels else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        fits = np.ones(count_of(rows), dtype=np.bool_)
        for label, value in cycle.memo[self.name].items():
            fits &= cycle.table.column(label).is_one_of((value,), rows)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[~fits] = cycle.reject(self.name, REASON)
        return codes

    def _required_labels(self, cycle: CycleState) -> dict[str, str]:
        """Return the required label values: those in the pod's nodeSelector, the others from a node that runs such a
        pod.
        """
        labels, own = self._args.labels, cycle.signature.spec.nodeSelector
        required = {label: own[label] for label in labels if label in own}
        if len(required) == len(labels) or not self._services.selectors(cycle.info):
            return required
        row = self._first_row(cycle.info)
        node_labels = self._table.node_of(row).metadata.labels if row >= 0 else {}
        return {label: node_labels[label] for label in labels if label in node_labels} | required

    def _first_row(self, info: PodInfo) -> int:
        """Return the first row with a pod that has all labels of this pod, or -1."""
        pods = PodSelector(from_labels(info.group.labels), frozenset((info.namespace,)))
        tally = self._tallies.get(PodClass((pods,)))
        rows = np.flatnonzero(tally.per_node)
        return int(rows[0]) if len(rows) else -1

    # -- anti-affinity -----------------------------------------------------------------------------------------------

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        return None if self._args.antiAffinityLabel else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Score higher the fewer pods of the pod's first service run on nodes with the same value of the label."""
        column = self._table.column(self._args.antiAffinityLabel)
        codes = column.codes[rows]
        selectors = self._services.selectors(cycle.info)
        if not selectors:
            return np.where(codes == MISSING, 0, MAX_SCORE).astype(np.int64)
        pods = PodSelector(selectors[0], frozenset((cycle.info.namespace,)))
        tally = self._tallies.get(PodClass((pods,), with_terminating=False))
        total = max(tally.total, 1)
        near = tally.sum_by_domain(column, self._table.shape).look_up_counts(codes)
        return np.where(codes == MISSING, 0, MAX_SCORE * (total - near) // total).astype(np.int64)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), None),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_LABELS), None),
        ]
