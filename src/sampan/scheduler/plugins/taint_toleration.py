"""TaintToleration: rejects nodes with untolerated taints, and prefers nodes without untolerated PreferNoSchedule
taints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.scheduler.cache.arrays import Codes, Ints, Rows
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.taints import (
    count_untolerated_preferences_by_set,
    has_untolerated_taint,
    have_untolerated_taints,
)
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import CycleState, PluginScope
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.scores import normalize_to_highest

REASON = "node(s) had untolerated taint(s)"


class TaintToleration:
    name = "TaintToleration"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        table = cycle.table
        by_set = have_untolerated_taints(table.taints.sets, cycle.signature.spec.tolerations)
        codes = np.where(by_set, cycle.reject(self.name, REASON, is_final=True), 0).astype(np.int32)
        return codes[table.taints.codes[rows]]

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Return the number of untolerated PreferNoSchedule taints."""
        table: NodeTable = cycle.table
        return count_untolerated_preferences_by_set(table.taints.sets, cycle.signature.spec.tolerations)[
            table.taints.codes[rows]
        ]

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        return normalize_to_highest(scores, reverse=True)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), _may_help),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_TAINTS), _may_help),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_TOLERATIONS), None),
        ]


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    tolerations = info.signature.spec.tolerations
    return not _keeps_off(new, tolerations) and (old is None or _keeps_off(old, tolerations))


def _keeps_off(node: Any, tolerations: Any) -> bool:
    return has_untolerated_taint(node.spec.taints, tolerations)
