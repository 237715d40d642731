"""SchedulingGates: keeps pods with scheduling gates out of the queue until the gates are removed."""

from __future__ import annotations

from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import Code, PluginScope, Status
from sampan.scheduler.framework.handle import Handle


class SchedulingGates:
    name = "SchedulingGates"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        gates = info.pod.spec.schedulingGates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",))

    def events_to_register(self) -> QueueingHints:
        return [(ClusterEvent(EventResource.POD, ActionType.UPDATE_GATES), None)]
