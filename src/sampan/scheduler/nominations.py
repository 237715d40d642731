"""Pods for which a node is meant although they are not on it: preemption makes room there, or somebody else says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sampan.scheduler.pod_info import PodInfo


@dataclass(slots=True)
class Nominations:
    by_node: dict[str, dict[str, PodInfo]] = field(default_factory=dict)
    """By node and uid."""
    evicting: set[str] = field(default_factory=set)
    """Pods whose victims are being told to go: they look for no others meanwhile."""
    _node_of: dict[str, str] = field(default_factory=dict)

    def put(self, info: PodInfo, node: str) -> None:
        self.drop(info.uid)
        if node:
            self.by_node.setdefault(node, {})[info.uid] = info
            self._node_of[info.uid] = node

    def drop(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            pods = self.by_node[node]
            del pods[uid]
            if not pods:
                del self.by_node[node]

    def node_of(self, uid: str) -> str:
        return self._node_of.get(uid, "")

    def ahead_of(self, info: PodInfo, rows: Mapping[str, int]) -> list[tuple[int, list[PodInfo]]]:
        """By row, the nominated pods that this one must leave room for."""
        found = []
        for node, pods in self.by_node.items():
            before = [other for other in pods.values() if other.uid != info.uid and other.priority >= info.priority]
            if before and node in rows:
                found.append((rows[node], before))
        return found

    def behind(self, info: PodInfo, node: str) -> list[PodInfo]:
        """Nominated pods that give way to this one on the node."""
        return [other for other in self.by_node.get(node, {}).values() if other.priority < info.priority]


__all__ = ["Nominations"]
