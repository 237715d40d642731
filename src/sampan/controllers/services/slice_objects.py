"""The EndpointSlice objects of a service: labels, owner reference and annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sampan.api.types.core_v1 import Service
from sampan.api.types.discovery_v1 import EndpointSlice
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.controllers.services.pods import HEADLESS, LAST_CHANGE, is_headless
from sampan.controllers.services.slice_content import Content
from sampan.machinery.object_key import NamespacedName

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})


def labels_of(service: Service) -> dict[str, str]:
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return labels | {SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def name_prefix(name: str) -> str:
    return f"{name}-"


def slice_of(
    service: Service, family: str, content: Content, labels: Mapping[str, str], changed_at: str
) -> EndpointSlice:
    """Return the object to write: a new slice, or the existing one with new content."""
    existing = content.existing
    if existing is None:
        meta = ObjectMeta(
            generateName=name_prefix(service.metadata.name),
            namespace=service.metadata.namespace,
            ownerReferences=[_owner(service)],
        )
    else:
        meta = msgspec.structs.replace(existing.metadata, managedFields=[])
    annotations = {key: value for key, value in meta.annotations.items() if key != LAST_CHANGE}
    if changed_at:
        annotations[LAST_CHANGE] = changed_at
    meta = msgspec.structs.replace(meta, labels=dict(labels), annotations=annotations)
    return EndpointSlice(metadata=meta, addressType=family, endpoints=content.endpoints, ports=content.ports)


def _owner(service: Service) -> OwnerReference:
    meta = service.metadata
    return OwnerReference(
        apiVersion="v1", kind="Service", name=meta.name, uid=meta.uid, controller=True, blockOwnerDeletion=True
    )


def belongs_to_another(endpoint_slice: EndpointSlice, service: Service) -> bool:
    """Whether the slice is owned by an earlier service of the same name, so that garbage collection will delete it."""
    owners = endpoint_slice.metadata.ownerReferences
    return any(owner.controller and owner.uid != service.metadata.uid for owner in owners)


def service_keys(endpoint_slice: EndpointSlice, manager: str) -> tuple[NamespacedName, ...]:
    """Return the key of the service of a slice, if this controller manages the slice."""
    labels = endpoint_slice.metadata.labels
    if labels.get(MANAGED_BY) != manager or not labels.get(SERVICE_NAME):
        return ()
    return (NamespacedName(endpoint_slice.metadata.namespace, labels[SERVICE_NAME]),)
