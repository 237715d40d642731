"""Reports changes of objects other than nodes and pods to the queue, once per resource for all plug-ins."""

from __future__ import annotations

from typing import Any, TypeVar

from sampan.machinery.informer import Informer
from sampan.scheduler.framework.contract import ActionType, ClusterEvent, EventResource, Handle

T = TypeVar("T")


def watch_objects(handle: Handle, type: type[T], resource: EventResource) -> Informer[T]:
    """Return the informer of the type and report its changes as events of `resource`."""
    informer = handle.informers.of(type)
    if resource not in handle.reported:
        handle.reported.add(resource)

        def tell(old: Any, new: Any) -> None:
            action = ActionType.ADD if old is None else ActionType.DELETE if new is None else ActionType.UPDATE
            handle.on_event(ClusterEvent(resource, action), old, new)

        informer.subscribe(tell)
    return informer
