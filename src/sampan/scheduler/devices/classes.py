"""Which device classes serve extended resources: by a name that a class gives, and one that each of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sampan.api.resource_names import is_extended
from sampan.api.types.resource_v1 import DeviceClass
from sampan.machinery.informer import Informer

PREFIX = "deviceclass.resource.kubernetes.io/"


class ServingClasses:
    def __init__(self, classes: Informer[DeviceClass], *, on_change: Callable[[frozenset[str]], None]) -> None:
        """`on_change` is told the resources that are served, when they are others than before."""
        self._classes, self._on_change = classes.lister, on_change
        self._by_resource: Mapping[str, DeviceClass] = {}
        classes.subscribe(self._changed)

    def of(self, resource: str) -> DeviceClass | None:
        return self._by_resource.get(resource)

    def _changed(self, old: Any, new: Any) -> None:
        before = self._by_resource.keys()
        self._by_resource = served(self._classes)
        if self._by_resource.keys() != before:
            self._on_change(frozenset(self._by_resource))


def served(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Of classes that give the same name the newest serves it, then the one whose own name comes first."""
    found: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda one: one.metadata.name)
    for one in sorted(by_name, key=lambda one: one.metadata.creationTimestamp or "", reverse=True):
        found[PREFIX + one.metadata.name] = one
        if one.spec.extendedResourceName:
            found.setdefault(one.spec.extendedResourceName, one)
    return found


def may_be_served(resource: str) -> bool:
    return is_extended(resource) or resource.startswith(PREFIX)


__all__ = ["PREFIX", "ServingClasses", "may_be_served", "served"]
