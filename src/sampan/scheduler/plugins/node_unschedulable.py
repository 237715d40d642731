"""NodeUnschedulable: rejects cordoned nodes for pods that do not tolerate the unschedulable taint."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.scheduler.arrays import Codes, Rows, count_of
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
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.tolerations import UNSCHEDULABLE_TAINT, is_tolerated

REASON = "node(s) were unschedulable"


class NodeUnschedulable:
    name = "NodeUnschedulable"
    scope = Scope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return SKIP if is_tolerated(UNSCHEDULABLE_TAINT, cycle.needs.spec.tolerations) else None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        codes[cycle.table.unschedulable[rows]] = cycle.refuse(self.name, REASON, is_final=True)
        return codes

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), _may_help),
            (ClusterEvent(Resource.NODE, Action.UPDATE_TAINTS), _may_help),
            (ClusterEvent(Resource.POD, Action.UPDATE_TOLERATIONS), None),
        ]


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)
