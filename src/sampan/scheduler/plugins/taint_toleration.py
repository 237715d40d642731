"""TaintToleration: rejects nodes with untolerated taints, and prefers nodes without untolerated PreferNoSchedule
taints.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.scheduler.arrays import Codes, Ints, Rows
from sampan.scheduler.framework.contract import Action, ClusterEvent, Cycle, Events, Handle, Resource, Scope
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.normalizing import proportional
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.tolerations import dislikes, keeps_off, kept_off

REASON = "node(s) had untolerated taint(s)"


class TaintToleration:
    name = "TaintToleration"
    scope = Scope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        table = cycle.table
        by_set = kept_off(table.taints.sets, cycle.needs.spec.tolerations)
        codes = np.where(by_set, cycle.refuse(self.name, REASON, is_final=True), 0).astype(np.int32)
        return codes[table.taints.codes[rows]]

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Return the number of untolerated PreferNoSchedule taints."""
        table: NodeTable = cycle.table
        return dislikes(table.taints.sets, cycle.needs.spec.tolerations)[table.taints.codes[rows]]

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return proportional(scores, reverse=True)

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), _may_help),
            (ClusterEvent(Resource.NODE, Action.UPDATE_TAINTS), _may_help),
            (ClusterEvent(Resource.POD, Action.UPDATE_TOLERATIONS), None),
        ]


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    tolerations = info.needs.spec.tolerations
    return not _keeps_off(new, tolerations) and (old is None or _keeps_off(old, tolerations))


def _keeps_off(node: Any, tolerations: Any) -> bool:
    return keeps_off([(taint.key, taint.value, taint.effect) for taint in node.spec.taints], tolerations)
