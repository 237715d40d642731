"""Event handlers that apply informer events to the node table and the scheduling queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.machinery.client import Selection
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.framework.contract import ActionType, ClusterEvent, EventResource
from sampan.scheduler.queue.nominator import Nominator
from sampan.scheduler.queue.scheduling_queue import SchedulingQueue

LIVING = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
"""Selects pods that are not terminated, which occupy resources or are pending."""

_TERMINATED = ("Succeeded", "Failed")


def _event(resource: EventResource, action: ActionType) -> ClusterEvent:
    return ClusterEvent(resource, action)


_POD_ADD, _POD_DELETE = (
    _event(EventResource.ASSIGNED_POD, ActionType.ADD),
    _event(EventResource.ASSIGNED_POD, ActionType.DELETE),
)
_POD_LABELS = _event(EventResource.ASSIGNED_POD, ActionType.UPDATE_LABELS)
_POD_REQUESTS = _event(EventResource.ASSIGNED_POD, ActionType.UPDATE_REQUESTS)


class Feed:
    def __init__(
        self,
        *,
        table: NodeTable,
        pods: PodInfoTable,
        queue: SchedulingQueue,
        nominator: Nominator,
        schedulers: Collection[str],
    ) -> None:
        self._table, self._pods, self._queue = table, pods, queue
        self._nominator, self._schedulers = nominator, schedulers
        self._node_of: dict[str, str] = {}
        """The node of every pod that is bound or assumed, by UID."""
        self._assumed: set[str] = set()

    async def follow(self, informers: InformerFactory) -> list[Callable[[], None]]:
        """Deliver the existing objects in batches, then every change; return functions that end the subscriptions."""
        return [
            await informers.of(Namespace).follow(self.on_namespace),
            await informers.of(Node).follow(self.node),
            await informers.of(Pod, LIVING).follow(self.pod),
        ]

    @property
    def assumed(self) -> int:
        """The number of pods that are assumed on a node but not yet known to be bound."""
        return len(self._assumed)

    # -- assumptions -------------------------------------------------------------------------------------------------

    def assume(self, info: PodInfo, node: str) -> None:
        """Count the pod on the node before it is bound."""
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

    def remove_victims(self, infos: Iterable[PodInfo], node: str) -> None:
        """Remove these pods from the node in the table until `restore_victims` is called."""
        for info in infos:
            self._table.remove_pod(info.uid, node)

    def restore_victims(self, infos: Iterable[PodInfo], node: str) -> None:
        """Restore the pods that are still on the node according to the informers."""
        for info in infos:
            if self._node_of.get(info.uid) == node and self._table.pod_on_node(info.uid, node) is None:
                self._table.add_pod(info, node)

    def resources_released(self, info: PodInfo) -> None:
        """Requeue pods that the resources released by this pod may help."""
        self._queue.on_event(_POD_DELETE, info.pod, None, except_uid=info.uid)

    # -- changes -----------------------------------------------------------------------------------------------------

    def on_namespace(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        self._table.counts.set_namespace(name, new.metadata.labels if new is not None else None)
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._queue.on_event(_event(EventResource.NAMESPACE, ActionType.UPDATE_LABELS), old, new)

    def node(self, old: Any, new: Any) -> None:
        if new is None:
            self._table.remove_node(old.metadata.name)
            self._queue.on_event(_event(EventResource.NODE, ActionType.DELETE), old, None)
            return
        actions = [ActionType.ADD] if old is None else node_changes(old, new)
        if not actions:
            self._table.replace_node(new)
            return
        self._table.put_node(new)
        for action in actions:
            self._queue.on_event(_event(EventResource.NODE, action), old, new)

    def pod(self, old: Any, new: Any) -> None:
        if new is None or new.status.phase in _TERMINATED:
            self._pod_removed(old if new is None else new)
        elif new.spec.nodeName:
            self._pod_bound(old, new)
        elif (new.spec.schedulerName or "default-scheduler") in self._schedulers:
            self._pod_pending(old, new)

    def _pod_removed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._nominator.delete(uid)
        self._assumed.discard(uid)
        node = self._node_of.pop(uid, None)
        if node is not None:
            self._table.remove_pod(uid, node)
            self._queue.on_event(_POD_DELETE, pod, None)

    def _pod_bound(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        before = self._node_of.get(uid)
        if before == node:
            self._bound_pod_updated(old, new)
            return
        if before is not None:  # assumed elsewhere, but another client bound it first
            self._table.remove_pod(uid, before)
        self._assumed.discard(uid)
        self._node_of[uid] = node
        self._table.add_pod(self._pods.info(new), node)
        self._binding_observed(new)

    def _bound_pod_updated(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        previous = self._table.pod_on_node(uid, node)
        info = self._pods.refreshed(previous, new) if previous is not None else self._pods.info(new)
        self._table.replace_pod(info, node)
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._binding_observed(new)
        elif previous is not None:
            if previous.group.labels != info.group.labels:
                self._queue.on_event(_POD_LABELS, old, new)
            if previous.signature is not info.signature:
                self._queue.on_event(_POD_REQUESTS, old, new)

    def _binding_observed(self, pod: Pod) -> None:
        """Handle a pod whose binding has been observed."""
        self._queue.remove(pod.metadata.uid)
        self._nominator.delete(pod.metadata.uid)
        self._queue.on_event(_POD_ADD, None, pod)

    def _pod_pending(self, old: Any, new: Pod) -> None:
        if new.metadata.uid in self._assumed:
            return
        queued = self._queue.get(new.metadata.uid)
        if queued is None:
            info = self._pods.info(new)
            self._nominate(info, old)
            self._queue.add(info)
            return
        info = self._pods.refreshed(queued.info, new)
        changes = [_event(EventResource.POD, action) for action in pod_changes(queued.info.pod, new)]
        before = queued.info.pod
        self._queue.update(info)
        self._nominate(info, before)
        self._queue.on_pod_change(queued, changes, before, new)

    def _nominate(self, info: PodInfo, old: Pod | None) -> None:
        """Update the pod's nomination from its status, but keep one that has not been written to the status yet."""
        node = info.pod.status.nominatedNodeName
        if not node and (old is None or not old.status.nominatedNodeName):
            node = self._nominator.node_of(info.uid)
        self._nominator.add(info, node)


def node_changes(old: Node, new: Node) -> list[ActionType]:
    actions = []
    if old.status.allocatable != new.status.allocatable:
        actions.append(ActionType.UPDATE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_LABELS)
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        actions.append(ActionType.UPDATE_TAINTS)
    if old.status.declaredFeatures != new.status.declaredFeatures:
        actions.append(ActionType.UPDATE_FEATURES)
    if old.status.images != new.status.images or old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE)
    return actions


def pod_changes(old: Pod, new: Pod) -> list[ActionType]:
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_LABELS)
    if old.metadata.generation != new.metadata.generation:
        if old.spec.tolerations != new.spec.tolerations:
            actions.append(ActionType.UPDATE_TOLERATIONS)
        if old.spec.schedulingGates and not new.spec.schedulingGates:
            actions.append(ActionType.UPDATE_GATES)
        actions += [ActionType.UPDATE_REQUESTS, ActionType.UPDATE]
    return actions
