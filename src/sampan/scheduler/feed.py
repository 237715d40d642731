"""Event handlers that apply informer events to the node table and the scheduling queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from sampan.api.types.core_v1 import Namespace, Node, Pod
from sampan.machinery.client import Selection
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.framework.contract import Action, ClusterEvent, Resource
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.nominations import Nominations
from sampan.scheduler.pod_info import PodInfo, PodTable
from sampan.scheduler.queue import SchedulingQueue

LIVING = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
"""Selects pods that are not terminated, which occupy resources or are pending."""

_DONE = ("Succeeded", "Failed")


def _event(resource: Resource, action: Action) -> ClusterEvent:
    return ClusterEvent(resource, action)


_POD_ADD, _POD_DELETE = _event(Resource.ASSIGNED_POD, Action.ADD), _event(Resource.ASSIGNED_POD, Action.DELETE)
_POD_LABELS = _event(Resource.ASSIGNED_POD, Action.UPDATE_LABELS)
_POD_REQUESTS = _event(Resource.ASSIGNED_POD, Action.UPDATE_REQUESTS)


class Feed:
    def __init__(
        self,
        *,
        table: NodeTable,
        pods: PodTable,
        queue: SchedulingQueue,
        nominations: Nominations,
        schedulers: Collection[str],
    ) -> None:
        self._table, self._pods, self._queue = table, pods, queue
        self._nominations, self._schedulers = nominations, schedulers
        self._node_of: dict[str, str] = {}
        """The node of every pod that is bound or assumed, by UID."""
        self._assumed: set[str] = set()

    async def follow(self, informers: InformerFactory) -> list[Callable[[], None]]:
        """Deliver the existing objects in batches, then every change; return functions that end the subscriptions."""
        return [
            await informers.of(Namespace).follow(self.namespace),
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
        self._nominations.drop(info.uid)

    def forget(self, uid: str) -> bool:
        """Undo `assume`; return whether the pod was still assumed."""
        if uid not in self._assumed:
            return False
        self._assumed.discard(uid)
        self._table.remove_pod(uid, self._node_of.pop(uid))
        return True

    def take_off(self, infos: Iterable[PodInfo], node: str) -> None:
        """Remove these pods from the node in the table until `put_back` is called."""
        for info in infos:
            self._table.remove_pod(info.uid, node)

    def put_back(self, infos: Iterable[PodInfo], node: str) -> None:
        """Restore the pods that are still on the node according to the informers."""
        for info in infos:
            if self._node_of.get(info.uid) == node and self._table.pod_on(info.uid, node) is None:
                self._table.add_pod(info, node)

    def freed(self, info: PodInfo) -> None:
        """Requeue pods that the resources released by this pod may help."""
        self._queue.on_event(_POD_DELETE, info.pod, None, but=info.uid)

    # -- changes -----------------------------------------------------------------------------------------------------

    def namespace(self, old: Any, new: Any) -> None:
        name = (new or old).metadata.name
        self._table.counts.set_namespace(name, new.metadata.labels if new is not None else None)
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._queue.on_event(_event(Resource.NAMESPACE, Action.UPDATE_LABELS), old, new)

    def node(self, old: Any, new: Any) -> None:
        if new is None:
            self._table.remove_node(old.metadata.name)
            self._queue.on_event(_event(Resource.NODE, Action.DELETE), old, None)
            return
        actions = [Action.ADD] if old is None else node_changes(old, new)
        if not actions:
            self._table.renew_node(new)
            return
        self._table.put_node(new)
        for action in actions:
            self._queue.on_event(_event(Resource.NODE, action), old, new)

    def pod(self, old: Any, new: Any) -> None:
        if new is None or new.status.phase in _DONE:
            self._gone(old if new is None else new)
        elif new.spec.nodeName:
            self._placed(old, new)
        elif (new.spec.schedulerName or "default-scheduler") in self._schedulers:
            self._pending(old, new)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._nominations.drop(uid)
        self._assumed.discard(uid)
        node = self._node_of.pop(uid, None)
        if node is not None:
            self._table.remove_pod(uid, node)
            self._queue.on_event(_POD_DELETE, pod, None)

    def _placed(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        before = self._node_of.get(uid)
        if before == node:
            self._renew(old, new)
            return
        if before is not None:  # assumed elsewhere, but another client bound it first
            self._table.remove_pod(uid, before)
        self._assumed.discard(uid)
        self._node_of[uid] = node
        self._table.add_pod(self._pods.info(new), node)
        self._settled(new)

    def _renew(self, old: Any, new: Pod) -> None:
        uid, node = new.metadata.uid, new.spec.nodeName
        previous = self._table.pod_on(uid, node)
        info = self._pods.refreshed(previous, new) if previous is not None else self._pods.info(new)
        self._table.replace_pod(info, node)
        if uid in self._assumed:
            self._assumed.discard(uid)
            self._settled(new)
        elif previous is not None:
            if previous.group.labels != info.group.labels:
                self._queue.on_event(_POD_LABELS, old, new)
            if previous.needs is not info.needs:
                self._queue.on_event(_POD_REQUESTS, old, new)

    def _settled(self, pod: Pod) -> None:
        """Handle a pod whose binding has been observed."""
        self._queue.remove(pod.metadata.uid)
        self._nominations.drop(pod.metadata.uid)
        self._queue.on_event(_POD_ADD, None, pod)

    def _pending(self, old: Any, new: Pod) -> None:
        if new.metadata.uid in self._assumed:
            return
        queued = self._queue.get(new.metadata.uid)
        if queued is None:
            info = self._pods.info(new)
            self._nominate(info, old)
            self._queue.add(info)
            return
        info = self._pods.refreshed(queued.info, new)
        changes = [_event(Resource.POD, action) for action in pod_changes(queued.info.pod, new)]
        before = queued.info.pod
        self._queue.update(info)
        self._nominate(info, before)
        self._queue.on_own_change(queued, changes, before, new)

    def _nominate(self, info: PodInfo, old: Pod | None) -> None:
        """Update the pod's nomination from its status, but keep one that has not been written to the status yet."""
        node = info.pod.status.nominatedNodeName
        if not node and (old is None or not old.status.nominatedNodeName):
            node = self._nominations.node_of(info.uid)
        self._nominations.put(info, node)


def node_changes(old: Node, new: Node) -> list[Action]:
    actions = []
    if old.status.allocatable != new.status.allocatable:
        actions.append(Action.UPDATE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_LABELS)
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        actions.append(Action.UPDATE_TAINTS)
    if old.status.declaredFeatures != new.status.declaredFeatures:
        actions.append(Action.UPDATE_FEATURES)
    if old.status.images != new.status.images or old.metadata.annotations != new.metadata.annotations:
        actions.append(Action.UPDATE)
    return actions


def pod_changes(old: Pod, new: Pod) -> list[Action]:
    actions = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(Action.UPDATE_LABELS)
    if old.metadata.generation != new.metadata.generation:
        if old.spec.tolerations != new.spec.tolerations:
            actions.append(Action.UPDATE_TOLERATIONS)
        if old.spec.schedulingGates and not new.spec.schedulingGates:
            actions.append(Action.UPDATE_GATES)
        actions += [Action.UPDATE_REQUESTS, Action.UPDATE]
    return actions
