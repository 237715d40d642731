"""Cluster events, which may make pending pods schedulable, and the queueing hints that examine them.

The counterparts are `ClusterEvent`, `EventResource` and `QueueingHintFn` in `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sampan.machinery.informer import Informer
from sampan.scheduler.cache.pod_info import PodInfo

T = TypeVar("T")


class EventResource(Enum):
    POD = "UnschedulablePod"
    """The pending pod itself."""
    ASSIGNED_POD = "AssignedPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    PVC = "PersistentVolumeClaim"
    PV = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"


class ActionType(Enum):
    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    UPDATE_LABELS = "UpdateLabel"
    UPDATE_TAINTS = "UpdateNodeTaint"
    UPDATE_ALLOCATABLE = "UpdateNodeAllocatable"
    UPDATE_FEATURES = "UpdateNodeDeclaredFeature"
    UPDATE_REQUESTS = "UpdatePodScaleDown"
    UPDATE_TOLERATIONS = "UpdatePodToleration"
    UPDATE_GATES = "UpdatePodSchedulingGatesEliminated"


class ClusterEvent(NamedTuple):
    resource: EventResource
    action: ActionType

    @property
    def label(self) -> str:
        """The name of the event in metrics."""
        action = self.action.value
        if self.action is ActionType.UPDATE_LABELS:
            action = _LABELS_CHANGED.get(self.resource, ActionType.UPDATE.value)
        return f"{self.resource.value}{action}"


_LABELS_CHANGED = {
    EventResource.NODE: "UpdateNodeLabel",
    EventResource.POD: "UpdatePodLabel",
    EventResource.ASSIGNED_POD: "UpdatePodLabel",
}


ChangedObject: TypeAlias = Any
"""The API object of an event; its type depends on the resource of the event."""

QueueingHint = Callable[[PodInfo, ChangedObject, ChangedObject], bool]
"""Whether a change may make the pending pod schedulable; the old object is None if the object was added, the new object
if it was deleted.
"""

QueueingHints = Sequence[tuple[ClusterEvent, QueueingHint | None]]
"""The events that may make a pod schedulable; without a hint function every such event does."""

EventSubscriber = Callable[[ClusterEvent, ChangedObject, ChangedObject], object]


class ClusterEventPublisher:
    """Passes cluster events that plugins observe to the scheduling queue."""

    def __init__(self) -> None:
        self._subscribers: list[EventSubscriber] = []
        self._reported: set[EventResource] = set()
        """Resources whose informer events are published already, for all plugins."""

    def subscribe(self, subscriber: EventSubscriber) -> None:
        self._subscribers.append(subscriber)

    def publish(self, event: ClusterEvent, old: ChangedObject, new: ChangedObject) -> None:
        for subscriber in self._subscribers:
            subscriber(event, old, new)

    def report(self, informer: Informer[T], resource: EventResource) -> None:
        """Publish the changes of the informer's objects as events of `resource`."""
        if resource in self._reported:
            return
        self._reported.add(resource)

        def on_change(old: ChangedObject, new: ChangedObject) -> None:
            action = ActionType.ADD if old is None else ActionType.DELETE if new is None else ActionType.UPDATE
            self.publish(ClusterEvent(resource, action), old, new)

        informer.subscribe(on_change)
