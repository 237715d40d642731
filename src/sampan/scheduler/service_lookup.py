"""The services that select a pod, cached until a service changes."""

from __future__ import annotations

from typing import Any

from sampan.api.labels import Selector, from_labels
from sampan.api.types.core_v1 import Service
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.pod_info import PodInfo
from sampan.scheduler.pod_sorts import LabelGroup

_MOST = 4096


class ServiceLookup:
    def __init__(self, informers: InformerFactory) -> None:
        informer = informers.of(Service)
        self._services = informer.lister
        self._kept: dict[LabelGroup, tuple[Selector, ...]] = {}
        informer.subscribe(self._changed)

    def selectors(self, info: PodInfo) -> tuple[Selector, ...]:
        """Return the selectors of the services that select the pod, in the order of the services' names."""
        selectors = self._kept.get(info.group)
        if selectors is None:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            selectors = self._kept[info.group] = tuple(self._compute(info))
        return selectors

    def _compute(self, info: PodInfo) -> list[Selector]:
        labels = info.group.labels
        services = sorted(self._services.list(info.namespace), key=lambda service: service.metadata.name)
        selectors = [service.spec.selector for service in services]
        return [from_labels(selector) for selector in selectors if selector and selector.items() <= labels.items()]

    def _changed(self, old: Any, new: Any) -> None:
        self._kept.clear()
