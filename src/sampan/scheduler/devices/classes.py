"""Device classes that provide extended resources, by `extendedResourceName` and by the implicit name of each class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sampan.api.resource_names import is_extended
from sampan.api.types.resource_v1 import DeviceClass
from sampan.machinery.informer import Informer

PREFIX = "deviceclass.resource.kubernetes.io/"


class ServingClasses:
    def __init__(self, classes: Informer[DeviceClass], *, on_change: Callable[[frozenset[str]], None]) -> None:
        """Call `on_change` with the set of provided resources whenever it changes."""
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
    """Return the device class for each extended resource.

    If several classes declare the same `extendedResourceName`, the newest provides it; among those of the same age, the
    one whose name sorts first.
    """
    by_resource: dict[str, DeviceClass] = {}
    by_name = sorted(classes, key=lambda device_class: device_class.metadata.name)
    for device_class in sorted(
        by_name, key=lambda device_class: device_class.metadata.creationTimestamp or "", reverse=True
    ):
        by_resource[PREFIX + device_class.metadata.name] = device_class
        if device_class.spec.extendedResourceName:
            by_resource.setdefault(device_class.spec.extendedResourceName, device_class)
    return by_resource


def may_be_served(resource: str) -> bool:
    return is_extended(resource) or resource.startswith(PREFIX)
