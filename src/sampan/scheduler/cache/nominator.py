"""Pods with a nominated node, to which they are not bound: preemption makes room there, or another component set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sampan.scheduler.cache.pod_info import PodInfo


@dataclass(slots=True)
class Nominator:
    by_node: dict[str, dict[str, PodInfo]] = field(default_factory=dict)
    """Nominated pods by node and UID."""
    evicting: set[str] = field(default_factory=set)
    """UIDs of pods whose victims are being evicted; they are not eligible for another preemption meanwhile."""
    _node_of: dict[str, str] = field(default_factory=dict)

    def add(self, info: PodInfo, node: str) -> None:
        self.delete(info.uid)
        if node:
            self.by_node.setdefault(node, {})[info.uid] = info
            self._node_of[info.uid] = node

    def delete(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            pods = self.by_node[node]
            del pods[uid]
            if not pods:
                del self.by_node[node]

    def node_of(self, uid: str) -> str:
        return self._node_of.get(uid, "")

    def of_higher_priority(self, info: PodInfo, rows: Mapping[str, int]) -> list[tuple[int, list[PodInfo]]]:
        """Return, by row, the nominated pods of equal or higher priority, for which this pod has to leave room."""
        nominated = []
        for node, pods in self.by_node.items():
            higher = [other for other in pods.values() if other.uid != info.uid and other.priority >= info.priority]
            if higher and node in rows:
                nominated.append((rows[node], higher))
        return nominated

    def of_lower_priority(self, info: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated to the node whose priority is lower than that of this pod."""
        return [other for other in self.by_node.get(node, {}).values() if other.priority < info.priority]
