"""Changes of objects that plug-ins read besides nodes and pods, told to the queue once, whoever asks for them."""

from __future__ import annotations

from typing import Any, TypeVar

from sampan.machinery.informer import Informer
from sampan.scheduler.framework.contract import Action, ClusterEvent, Handle, Resource

T = TypeVar("T")


def followed(handle: Handle, type: type[T], resource: Resource) -> Informer[T]:
    """The informer of these objects; their changes are events under the name of `resource` from now on."""
    informer = handle.informers.of(type)
    if resource not in handle.reported:
        handle.reported.add(resource)

        def tell(old: Any, new: Any) -> None:
            action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
            handle.on_event(ClusterEvent(resource, action), old, new)

        informer.subscribe(tell)
    return informer


__all__ = ["followed"]
