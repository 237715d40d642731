"""NodeName: rejects all nodes but the one in the pod's `spec.nodeName`, if it is set."""

from __future__ import annotations

import numpy as np

from sampan.scheduler.cache.arrays import Codes, Rows, numbers_of
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) didn't match the requested node name"


class NodeName:
    name = "NodeName"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: CycleState) -> Status | None:
        return None if cycle.pod.spec.nodeName else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        row = cycle.table.rows.get(cycle.pod.spec.nodeName, -1)
        rejected = cycle.reject(self.name, REASON, is_final=True)
        return np.where(numbers_of(rows) == row, 0, rejected).astype(np.int32)

    def events_to_register(self) -> QueueingHints:
        return [(ClusterEvent(EventResource.NODE, ActionType.ADD), lambda info, old, new: True)]
