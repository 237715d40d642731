"""Warnings for kinds that are stored but not implemented yet.

A webhook or a policy that is accepted silently makes a test pass although nothing was checked. A row of `UNSERVED` is
removed when its feature is implemented.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sampan.api.resource import Resource
from sampan.apiserver.admission.contract import AdmissionAttributes, Operation

log = logging.getLogger(__name__)

_ADMISSION, _REGISTRATION = "admissionregistration.k8s.io", "apiregistration.k8s.io"
_METRICS = "v1beta1.metrics.k8s.io"
"""The APIService to which the metrics API is proxied."""


@dataclass(frozen=True, slots=True)
class Unserved:
    consequence: str
    """The effect of the missing feature, for the warning."""
    concerns: Callable[[Any], bool] = lambda obj: True
    """Whether an object of the kind is affected."""


def _is_elsewhere(service: Any) -> bool:
    """Whether an APIService refers to a service in the cluster; the metrics API, which is proxied, does not count."""
    return service.spec.service is not None and service.metadata.name != _METRICS


UNSERVED: dict[tuple[str, str], Unserved] = {
    (_REGISTRATION, "APIService"): Unserved("requests for its group are not proxied", _is_elsewhere),
}


def message_for(kind: str, row: Unserved) -> str:
    return f"this server stores {kind} objects but does not act on them yet: {row.consequence}"


class UnservedKinds:
    """An admission plugin that warns when an unimplemented object is created."""

    name = "UnservedKinds"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return operation == "CREATE" and not subresource and (resource.group, resource.kind) in UNSERVED

    async def validate(self, attributes: AdmissionAttributes) -> None:
        resource, meta = attributes.resource, attributes.obj.metadata
        row = UNSERVED[resource.group, resource.kind]
        if not row.concerns(attributes.obj):
            return
        text = message_for(resource.kind, row)
        attributes.warn(text)
        if not attributes.dry_run:
            log.warning("%s %s was created: %s", resource.kind, meta.name or meta.generateName, text)
