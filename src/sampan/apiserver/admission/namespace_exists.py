"""NamespaceExists: rejects writes in a namespace that does not exist."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.machinery import errors


class NamespaceExists:
    name = "NamespaceExists"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return resource.namespaced and operation in ("CREATE", "UPDATE", "DELETE")

    async def validate(self, attributes: AdmissionAttributes) -> None:
        store = attributes.registry.open_store_of("", "v1", "Namespace")
        if await lookup.find(store, "", attributes.namespace) is None:
            raise errors.not_found("namespaces", attributes.namespace)
