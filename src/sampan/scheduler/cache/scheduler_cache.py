"""The pods on nodes, bound or assumed, and the pods that are nominated to nodes.

The counterparts are `pkg/scheduler/backend/cache` and the nominator of `pkg/scheduler/backend/queue`. A pod is assumed
as soon as its node is selected, so that the next scheduling cycle counts it. It stays assumed until the informer shows
its binding, or until the binding fails and it is forgotten. A nominated pod is not on its node: preemption makes room
there, or another component set `status.nominatedNodeName`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sampan.scheduler.cache.node_table import NodeTable
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

    def list_higher_priority_pods(self, info: PodInfo, rows: Mapping[str, int]) -> list[tuple[int, list[PodInfo]]]:
        """Return, by row, the nominated pods of equal or higher priority, for which this pod has to leave room."""
        nominated = []
        for node, pods in self.by_node.items():
            higher = [other for other in pods.values() if other.uid != info.uid and other.priority >= info.priority]
            if higher and node in rows:
                nominated.append((rows[node], higher))
        return nominated

    def list_lower_priority_pods(self, info: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated to the node whose priority is lower than that of this pod."""
        return [other for other in self.by_node.get(node, {}).values() if other.priority < info.priority]


class SchedulerCache:
    def __init__(self, *, table: NodeTable, nominator: Nominator) -> None:
        self._table, self._nominator = table, nominator
        self._node_of: dict[str, str] = {}
        """The node of every pod that is bound or assumed, by UID."""
        self._assumed: set[str] = set()

    @property
    def assumed_count(self) -> int:
        """The number of pods that are assumed on a node but not yet known to be bound."""
        return len(self._assumed)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def node_of(self, uid: str) -> str | None:
        """Return the node that the pod is bound to or assumed on."""
        return self._node_of.get(uid)

    # -- assumed pods ------------------------------------------------------------------------------------------------

    def assume(self, info: PodInfo, node: str) -> None:
        """Count the pod on the node before it is bound; its nomination is obsolete then."""
        self._table.add_pod(info, node)
        self._node_of[info.uid] = node
        self._assumed.add(info.uid)
        self._nominator.delete(info.uid)

    def forget(self, uid: str) -> bool:
        """Undo `assume`; return whether the pod was still assumed."""
        if uid not in self._assumed:
            return False
        self._assumed.discard(uid)
        self._table.remove_pod(uid, self._node_of.pop(uid))
        return True

    def confirm(self, uid: str) -> bool:
        """Note that the informer shows the binding; return whether the pod was assumed until then."""
        is_assumed = uid in self._assumed
        self._assumed.discard(uid)
        return is_assumed

    # -- bound pods --------------------------------------------------------------------------------------------------

    def add_pod(self, info: PodInfo, node: str) -> None:
        """Count a pod that is bound to the node; it may have been assumed on another one."""
        uid = info.uid
        previous = self._node_of.get(uid)
        if previous is not None:
            self._table.remove_pod(uid, previous)
        self._assumed.discard(uid)
        self._node_of[uid] = node
        self._table.add_pod(info, node)

    def remove_pod(self, uid: str) -> bool:
        """Remove a pod that is deleted or terminated; return whether it was on a node."""
        self._assumed.discard(uid)
        node = self._node_of.pop(uid, None)
        if node is None:
            return False
        self._table.remove_pod(uid, node)
        return True

    # -- victims of preemption ---------------------------------------------------------------------------------------

    def remove_victims(self, infos: Iterable[PodInfo], node: str) -> None:
        """Remove these pods from the node in the table until `restore_victims` is called."""
        for info in infos:
            self._table.remove_pod(info.uid, node)

    def restore_victims(self, infos: Iterable[PodInfo], node: str) -> None:
        """Restore the pods that are still on the node according to the informers."""
        for info in infos:
            if self._node_of.get(info.uid) == node and self._table.pod_on_node(info.uid, node) is None:
                self._table.add_pod(info, node)
