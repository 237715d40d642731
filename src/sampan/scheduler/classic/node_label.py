"""NodeLabel: filters and scores nodes by the presence or absence of labels, regardless of their values.

It implements CheckNodeLabelPresence and labelPreference of the legacy policy; no default profile enables it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from sampan.scheduler.cache.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.config.plugin_args import read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import MAX_SCORE, CycleState, PluginScope
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) didn't have the requested labels"


class NodeLabelArgs(msgspec.Struct, forbid_unknown_fields=True):
    labels: list[str] = []
    presence: bool = True
    """Whether nodes must have all of the labels, or none of them."""


class NodeLabel:
    name = "NodeLabel"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        self._args = read_args(handle.args, NodeLabelArgs)

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[~self._fits(cycle, rows)] = cycle.reject(self.name, REASON, is_final=True)
        return codes

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        return np.where(self._fits(cycle, rows), MAX_SCORE, 0).astype(np.int64)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
        ]

    def _fits(self, cycle: CycleState, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        fits = np.ones(count_of(rows), dtype=np.bool_)
        for label in self._args.labels:
            fits &= cycle.table.column(label).exists(rows) == self._args.presence
        return fits
