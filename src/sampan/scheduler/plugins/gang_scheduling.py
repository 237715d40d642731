"""GangScheduling: the pods of a PodGroup are scheduled all together or not at all.

A pod stays out of the queue until its PodGroup exists and has `minCount` pods. All of them are then tried in one group
cycle, so that two groups cannot deadlock by each holding nodes that the other needs. If pods of the group are not in
this queue (because of another scheduler), those with a node wait for them in Permit, for a limited time.

The PodGroup informer starts with the first pod that refers to a group: a server without that API drops the field.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from sampan.api.codec import json
from sampan.api.semantics.conditions import find_condition
from sampan.api.types.core_v1 import Pod
from sampan.api.types.scheduling_v1beta1 import PodGroup
from sampan.api.values import times
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, PatchType
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import NamespacedName
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.config.plugin_args import read_args
from sampan.scheduler.event_handlers import LIVING
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import Code, CycleState, PluginScope, PodGroupAttempt, Status
from sampan.scheduler.framework.handle import Handle

log = logging.getLogger(__name__)

SCHEDULED = "PodGroupInitiallyScheduled"
NO_QUORUM = "waiting for minCount pods from a gang to appear in scheduling queue"
WAITING = "waiting for minCount pods from a gang to be scheduled"
REJECTED = "another pod of the gang could not be scheduled"
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
_POD_ADDED = ClusterEvent(EventResource.POD, ActionType.ADD)


class GangSchedulingArgs(msgspec.Struct, forbid_unknown_fields=True):
    permitTimeoutSeconds: float = 300


def group_of(pod: Pod) -> NamespacedName | None:
    group = pod.spec.schedulingGroup
    return (
        NamespacedName(pod.metadata.namespace, group.podGroupName) if group is not None and group.podGroupName else None
    )


def by_group(pod: Pod) -> Iterable[Hashable]:
    group = group_of(pod)
    return () if group is None else (group,)


def condition_patch(group: PodGroup, reason: str, message: str, now: str) -> dict[str, Any] | None:
    """Return the patch that sets the PodGroupInitiallyScheduled condition, or None if it needs no change. `reason` is
    empty for success."""
    old = find_condition(group.status.conditions, SCHEDULED)
    status, reason = ("False", reason) if reason else ("True", "Scheduled")
    if old is not None and (old.status == "True" or (old.status, old.reason, old.message) == (status, reason, message)):
        return None
    condition = {
        "type": SCHEDULED,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": old.lastTransitionTime if old is not None and old.status == status else now,
    }
    others = [json.to_value(existing) for existing in group.status.conditions if existing.type != SCHEDULED]
    return {"metadata": {"uid": group.metadata.uid}, "status": {"conditions": [*others, condition]}}


class GangScheduling:
    name = "GangScheduling"
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._args = read_args(handle.args, GangSchedulingArgs)
        self._handle = handle
        self._groups: Lister[PodGroup] | None = None
        self._reserved: dict[NamespacedName, set[str]] = {}
        """The UIDs of pods with a reserved or bound node, by group."""
        pods = handle.informers.for_kind(Pod, LIVING)
        self._pods = pods.lister
        pods.subscribe(self._on_pod_changed)

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        key = group_of(info.pod)
        if key is None:
            return None
        group = self._group(key)
        if group is None:
            why = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
            return Status(Code.UNRESOLVABLE, (why,))
        gang = group.spec.schedulingPolicy.gang
        if gang is not None and len(self._pods.find(by_group, key)) < gang.minCount:
            return Status(Code.UNRESOLVABLE, (NO_QUORUM,))
        return None

    def pod_group(self, info: PodInfo) -> PodGroupAttempt | None:
        """Return the unbound pods of the pod's group unless the group already has enough pods on nodes."""
        key = group_of(info.pod)
        if key is None or self._is_complete(key):
            return None
        members = (pod for pod in self._pods.find(by_group, key) if not pod.spec.nodeName)
        group = self._group(key)
        gang = group.spec.schedulingPolicy.gang if group is not None else None
        return PodGroupAttempt(
            [pod.metadata.uid for pod in members],
            is_enough=lambda: self._is_complete(key),
            min_count=gang.minCount if gang is not None else 1,
            count_scheduled=lambda: len(self._reserved.get(key, ())),
            find_mismatch=partial(_find_mismatch, group),
            publish=partial(self._publish_condition, key),
        )

    async def _publish_condition(self, key: NamespacedName, reason: str, message: str) -> None:
        """Write the outcome to the PodGroupInitiallyScheduled condition, which never changes back from "True"."""
        group = self._group(key)
        if group is None:
            return
        patch = condition_patch(group, reason, message, times.format_time(self._handle.clock.now()))
        if patch is None:
            return
        try:
            groups = self._handle.client.for_kind(PodGroup)
            await groups.patch(key.name, patch, key.namespace, type=PatchType.MERGE, subresource="status")
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot update the status of PodGroup %s: %s", key, error)

    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        key = group_of(cycle.pod)
        if key is not None:
            self._reserved.setdefault(key, set()).add(cycle.info.uid)
        return None

    def unreserve(self, cycle: CycleState, node: str) -> None:
        key = group_of(cycle.pod)
        if key is None:
            return
        self._drop(key, cycle.info.uid)
        if not self._is_complete(key):
            self._reject_waiting(key)

    def permit(self, cycle: CycleState, node: str) -> Status | None:
        key = group_of(cycle.pod)
        if key is None:
            return None
        group = self._group(key)
        if group is None:
            return Status(
                Code.ERROR, (f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{key.name}" not found',)
            )
        if group.spec.schedulingPolicy.gang is None:
            return None
        if not self._is_complete(key):
            return Status(Code.WAIT, (WAITING,), wait_s=self._args.permitTimeoutSeconds)
        for uid in self._reserved[key]:
            if (waiting := self._handle.waiting.get(uid)) is not None:
                waiting.allow(self.name)
        return None

    def events_to_register(self) -> QueueingHints:
        return [
            (_POD_ADDED, _is_member),
            (ClusterEvent(EventResource.POD_GROUP, ActionType.ADD), _is_own_group),
            (ClusterEvent(EventResource.POD_GROUP, ActionType.UPDATE), _lowers_min_count),
        ]

    def _group(self, key: NamespacedName) -> PodGroup | None:
        if self._groups is None:
            self._groups = self._handle.watch(PodGroup, EventResource.POD_GROUP).lister
        return self._groups.get(key.name, key.namespace)

    def _is_complete(self, key: NamespacedName) -> bool:
        group = self._group(key)
        gang = group.spec.schedulingPolicy.gang if group is not None else None
        return gang is None or len(self._reserved.get(key, ())) >= gang.minCount

    def _reject_waiting(self, key: NamespacedName) -> None:
        """Reject the pods of the group that wait in Permit."""
        for uid in tuple(self._reserved.get(key, ())):
            if (waiting := self._handle.waiting.get(uid)) is not None:
                waiting.reject(self.name, REJECTED)

    def _drop(self, key: NamespacedName, uid: str) -> None:
        reserved = self._reserved.get(key)
        if reserved is not None:
            reserved.discard(uid)
            if not reserved:
                del self._reserved[key]

    def _on_pod_changed(self, old: Any, new: Any) -> None:
        key = group_of(new or old)
        if key is None:
            return
        if new is None:
            self._drop(key, old.metadata.uid)
        elif new.spec.nodeName:
            self._reserved.setdefault(key, set()).add(new.metadata.uid)
        elif old is None:
            self._handle.cluster_events.publish(_POD_ADDED, None, new)


def _is_member(info: PodInfo, old: Any, new: Any) -> bool:
    return group_of(info.pod) == group_of(new)


def _is_own_group(info: PodInfo, old: Any, new: Any) -> bool:
    return group_of(info.pod) == NamespacedName(new.metadata.namespace, new.metadata.name)


def _lowers_min_count(info: PodInfo, old: Any, new: Any) -> bool:
    before, now = old.spec.schedulingPolicy.gang, new.spec.schedulingPolicy.gang
    return _is_own_group(info, old, new) and before is not None and now is not None and now.minCount < before.minCount


def _find_mismatch(group: PodGroup | None, pods: Sequence[Pod]) -> str:
    """Return why pods cannot be scheduled together: they need one scheduler, one preemption policy, and the priority of
    their group."""
    first, priority = pods[0].spec, (group.spec.priority or 0) if group is not None else 0
    policy = first.preemptionPolicy or PREEMPT_LOWER_PRIORITY
    for spec in (pod.spec for pod in pods):
        if spec.schedulerName != first.schedulerName:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, got: "
                f'"{spec.schedulerName}" and "{first.schedulerName}"'
            )
        if (spec.priority or 0) != priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, got "
                f"{spec.priority or 0} and {priority}"
            )
        if (other := spec.preemptionPolicy or PREEMPT_LOWER_PRIORITY) != policy:
            return f"all pods in a single pod group should have the same preemption policy, got {other} and {policy}"
    return ""
