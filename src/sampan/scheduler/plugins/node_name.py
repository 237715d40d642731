"""NodeName: rejects all nodes but the one in the pod's `spec.nodeName`, if it is set."""

from __future__ import annotations

import numpy as np

from sampan.scheduler.arrays import Codes, Rows, numbers_of
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

REASON = "node(s) didn't match the requested node name"


class NodeName:
    name = "NodeName"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.pod.spec.nodeName else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        row = cycle.table.rows.get(cycle.pod.spec.nodeName, -1)
        refused = cycle.refuse(self.name, REASON, is_final=True)
        return np.where(numbers_of(rows) == row, 0, refused).astype(np.int32)

    def events(self) -> Events:
        return [(ClusterEvent(Resource.NODE, Action.ADD), lambda info, old, new: True)]
