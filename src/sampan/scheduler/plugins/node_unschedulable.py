"""NodeUnschedulable: rejects cordoned nodes for pods that do not tolerate the unschedulable taint."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.api.semantics.taints import is_tolerated
from sampan.scheduler.cache.arrays import Codes, Rows, count_of
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.taints import UNSCHEDULABLE_TAINT
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    name = "NodeUnschedulable"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: CycleState) -> Status | None:
        return SKIP if is_tolerated(UNSCHEDULABLE_TAINT, cycle.signature.spec.tolerations) else None

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[cycle.table.unschedulable[rows]] = cycle.reject(self.name, REASON, is_final=True)
        return codes

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), _may_help),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_TAINTS), _may_help),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_TOLERATIONS), None),
        ]


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)
