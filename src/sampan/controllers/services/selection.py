"""Lookup of the pods of a service and of the services of a pod by index, without scanning a namespace."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from sampan.api.types.core_v1 import Pod, Service
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import Key, key_of


def by_label_pair(obj: Any) -> Iterable[Hashable]:
    """Return every label of the object, together with its namespace."""
    meta = obj.metadata
    return [(meta.namespace, *pair) for pair in meta.labels.items()]


def by_first_required(service: Any) -> Iterable[Hashable]:
    """Return one label that the service's selector requires, and which every pod of the service therefore has."""
    selector = service.spec.selector
    return [(service.metadata.namespace, *min(selector.items()))] if selector else ()


def pods_of(service: Service, pods: Lister[Pod]) -> Sequence[Pod]:
    """Return the pods in the service's namespace that its selector matches; none if it has no selector."""
    selector, namespace = service.spec.selector, service.metadata.namespace
    if not selector:
        return []
    candidates = min((pods.find(by_label_pair, (namespace, *pair)) for pair in selector.items()), key=len)
    return (
        candidates
        if len(selector) == 1
        else [pod for pod in candidates if selector.items() <= pod.metadata.labels.items()]
    )


def services_of(namespace: str, labels: Mapping[str, str], services: Lister[Service]) -> list[Key]:
    """Return the services whose selector matches the labels of a pod."""
    return [
        key_of(service)
        for pair in labels.items()
        for service in services.find(by_first_required, (namespace, *pair))
        if service.spec.selector.items() <= labels.items()
    ]


def takes_pods(service: Service) -> bool:
    """Whether the endpoints of the service are managed: it has a selector and is not of type ExternalName."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"
