"""Label selectors of the services and controllers that select a pod, cached until one of these objects changes."""

from __future__ import annotations

from typing import Any

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import NOTHING, Selector, from_labels
from sampan.api.types.apps_v1 import ReplicaSet, StatefulSet
from sampan.api.types.core_v1 import Pod, ReplicationController, Service
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.cache.label_groups import LabelGroup
from sampan.scheduler.cache.pod_info import PodInfo

_MAX_CACHED_SELECTORS = 4096


class DefaultSelectors:
    def __init__(self, informers: InformerFactory) -> None:
        kinds = (Service, ReplicationController, ReplicaSet, StatefulSet)
        sources = [informers.for_kind(kind) for kind in kinds]
        listers: list[Any] = [informer.lister for informer in sources]
        self._services, self._controllers, self._sets, self._stateful = listers
        self._kept: dict[object, Selector] = {}
        for informer in sources:
            informer.subscribe(self._on_workload_changed)

    def get_selector(self, info: PodInfo) -> Selector:
        """Return the combined selector of the services and controllers that select the pod, or NOTHING if there are
        none."""
        owner = _controller(info.pod)
        key = (info.group, owner.uid if owner is not None else "")
        selector = self._kept.get(key)
        if selector is None:
            if len(self._kept) >= _MAX_CACHED_SELECTORS:
                self._kept.clear()
            selector = self._kept[key] = self._compute(info.pod, owner)
        return selector

    def _compute(self, pod: Pod, owner: Any) -> Selector:
        labels: dict[str, str] = {}
        for service in self._services.list(pod.metadata.namespace):
            service_selector = service.spec.selector
            if service_selector and service_selector.items() <= pod.metadata.labels.items():
                labels |= service_selector
        selector = from_labels(labels)
        if owner is not None:
            selector = self._narrow_to_owner(selector, pod, owner)
        return NOTHING if selector.is_everything else selector

    def _narrow_to_owner(self, selector: Selector, pod: Pod, owner: Any) -> Selector:
        namespace = pod.metadata.namespace
        kind = (owner.apiVersion, owner.kind)
        if kind == ("v1", "ReplicationController"):
            controller = self._controllers.get(owner.name, namespace)
            owner_selector = from_labels(controller.spec.selector) if controller is not None else None
        elif kind in (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")):
            lister: Any = self._sets if owner.kind == "ReplicaSet" else self._stateful
            owned = lister.get(owner.name, namespace)
            owner_selector = selector_of(owned.spec.selector) if owned is not None else None
        else:
            owner_selector = None
        return (
            selector.with_requirements(*owner_selector.requirements)
            if owner_selector is not None and not owner_selector.is_nothing
            else selector
        )

    def _on_workload_changed(self, old: Any, new: Any) -> None:
        if old is None or new is None or old.metadata.generation != new.metadata.generation or isinstance(new, Service):
            self._kept.clear()


def _controller(pod: Pod) -> Any:
    return next((owner for owner in pod.metadata.ownerReferences if owner.controller), None)


_MAX_CACHED_SELECTORS = 4096


class ServiceSelectors:
    def __init__(self, informers: InformerFactory) -> None:
        informer = informers.for_kind(Service)
        self._services = informer.lister
        self._kept: dict[LabelGroup, tuple[Selector, ...]] = {}
        informer.subscribe(self._on_service_changed)

    def selectors(self, info: PodInfo) -> tuple[Selector, ...]:
        """Return the selectors of the services that select the pod, in the order of the services' names."""
        selectors = self._kept.get(info.group)
        if selectors is None:
            if len(self._kept) >= _MAX_CACHED_SELECTORS:
                self._kept.clear()
            selectors = self._kept[info.group] = tuple(self._compute(info))
        return selectors

    def _compute(self, info: PodInfo) -> list[Selector]:
        labels = info.group.labels
        services = sorted(self._services.list(info.namespace), key=lambda service: service.metadata.name)
        selectors = [service.spec.selector for service in services]
        return [from_labels(selector) for selector in selectors if selector and selector.items() <= labels.items()]

    def _on_service_changed(self, old: Any, new: Any) -> None:
        self._kept.clear()
