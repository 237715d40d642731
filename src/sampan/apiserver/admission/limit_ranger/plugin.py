"""The plugin, which applies each limit range of the namespace."""

from __future__ import annotations

from sampan.api.resource import Resource
from sampan.api.types.core_v1 import LimitRange
from sampan.apiserver.admission import lookup
from sampan.apiserver.admission.chain import Attributes, Operation
from sampan.apiserver.admission.limit_ranger.constraints import faults_of_claim, faults_of_pod, told
from sampan.apiserver.admission.limit_ranger.defaults import fill_in


class LimitRanger:
    name = "LimitRanger"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        if resource.group != "":
            return False
        if resource.plural == "persistentvolumeclaims":
            return operation in ("CREATE", "UPDATE") and not subresource
        return resource.plural == "pods" and (operation, subresource) in (("CREATE", ""), ("UPDATE", "resize"))

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource.plural == "pods":
            for limit_range in await _ranges(attributes):
                fill_in(attributes.obj, limit_range)

    async def validate(self, attributes: Attributes) -> None:
        faults_of = faults_of_pod if attributes.resource.plural == "pods" else faults_of_claim
        for limit_range in await _ranges(attributes):
            if faults := faults_of(attributes.obj, limit_range):
                raise attributes.refusal(told(faults))


async def _ranges(attributes: Attributes) -> list[LimitRange]:
    """Return the limit ranges of the namespace; none for an object that is being deleted."""
    old = attributes.old
    if old is not None and old.metadata.deletionTimestamp is not None:
        return []
    return await lookup.in_namespace(attributes.registry.store_of("", "v1", "LimitRange"), attributes.namespace)
