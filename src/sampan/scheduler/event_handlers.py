"""Event handlers that apply informer events to cache and queue (compare `pkg/scheduler/eventhandlers.go`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.machinery.client import Selection
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import DEFAULT_SCHEDULER, PodInfo, PodInfoTable
from sampan.scheduler.cache.scheduler_cache import Nominator, SchedulerCache
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource
from sampan.scheduler.scheduling_queue import SchedulingQueue

LIVING = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
"""Selects pods that are not terminated, which occupy resources or are pending."""

_TERMINATED = ("Succeeded", "Failed")


_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
_POD_LABELS = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_LABELS)
_POD_REQUESTS = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_REQUESTS)


class EventHandlers:
    def __init__(
        self,
        *,
        cache: SchedulerCache,
        table: NodeTable,
        pods: PodInfoTable,
        queue: SchedulingQueue,
        nominator: Nominator,
        scheduler_names: Collection[str],
    ) -> None:
        """Create the handlers; pending pods of other schedulers than `scheduler_names` are ignored."""
        self._cache, self._table, self._pods, self._queue = cache, table, pods, queue
        self._nominator, self._scheduler_names = nominator, scheduler_names

    async def follow(self, informers: InformerFactory) -> list[Callable[[], None]]:
        """Deliver the existing objects in batches, then every change; return functions that end the subscriptions."""
        return [
            await informers.for_kind(Namespace).follow(self.on_namespace),
            await informers.for_kind(Node).follow(self.on_node),
            await informers.for_kind(Pod, LIVING).follow(self.on_pod),
        ]

    def on_namespace(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        self._table.counts.set_namespace(name, new.metadata.labels if new is not None else None)
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._queue.on_event(ClusterEvent(EventResource.NAMESPACE, ActionType.UPDATE_LABELS), old, new)

    def on_node(self, old: Any, new: Any) -> None:
        if new is None:
            self._table.remove_node(old.metadata.name)
            self._queue.on_event(ClusterEvent(EventResource.NODE, ActionType.DELETE), old, None)
            return
        actions = [ActionType.ADD] if old is None else node_changes(old, new)
        if not actions:
            self._table.replace_node(new)
            return
        self._table.put_node(new)
        for action in actions:
            self._queue.on_event(ClusterEvent(EventResource.NODE, action), old, new)

    def on_pod(self, old: Any, new: Any) -> None:
        if new is None or new.status.phase in _TERMINATED:
            self._on_pod_removed(old if new is None else new)
        elif new.spec.nodeName:
            self._on_pod_bound(old, new)
        elif (new.spec.schedulerName or DEFAULT_SCHEDULER) in self._scheduler_names:
            self._on_pod_pending(old, new)

    def _on_pod_removed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._nominator.delete(uid)
        if self._cache.remove_pod(uid):
            self._queue.on_event(_POD_DELETE, pod, None)

    def _on_pod_bound(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        if self._cache.node_of(uid) == node:
            self._on_bound_pod_updated(old, new)
            return
        self._cache.add_pod(self._pods.info(new), node)
        self._on_binding_observed(new)

    def _on_bound_pod_updated(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        previous = self._table.pod_on_node(uid, node)
        info = self._pods.refresh_info(previous, new) if previous is not None else self._pods.info(new)
        self._table.replace_pod(info, node)
        if self._cache.confirm(uid):
            self._on_binding_observed(new)
        elif previous is not None:
            if previous.group.labels != info.group.labels:
                self._queue.on_event(_POD_LABELS, old, new)
            if previous.signature is not info.signature:
                self._queue.on_event(_POD_REQUESTS, old, new)

    def _on_binding_observed(self, pod: Pod) -> None:
        """Handle a pod whose binding has been observed."""
        self._queue.remove(pod.metadata.uid)
        self._nominator.delete(pod.metadata.uid)
        self._queue.on_event(_POD_ADD, None, pod)

    def _on_pod_pending(self, old: Any, new: Pod) -> None:
        if self._cache.is_assumed(new.metadata.uid):
            return
        queued = self._queue.get(new.metadata.uid)
        if queued is None:
            info = self._pods.info(new)
            self._nominate(info, old)
            self._queue.add(info)
            return
        info = self._pods.refresh_info(queued.info, new)
        changes = [ClusterEvent(EventResource.POD, action) for action in pod_changes(queued.info.pod, new)]
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
