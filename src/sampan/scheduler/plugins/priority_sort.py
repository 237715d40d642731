"""PrioritySort: orders the queue by priority, then by time in the queue."""

from __future__ import annotations

from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.contract import PluginScope
from sampan.scheduler.framework.handle import Handle


class PrioritySort:
    name = "PrioritySort"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def sort_key(self, info: PodInfo, since: float) -> tuple[float, ...]:
        return (-info.priority, since)
