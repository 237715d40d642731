"""NamespaceAutoProvision: creates the missing namespace of a new object."""

from contextlib import suppress

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Namespace
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.strategy import Context
from sampan.machinery import errors


class NamespaceAutoProvision:
    name = "NamespaceAutoProvision"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return resource.namespaced and operation == "CREATE"

    async def admit(self, attributes: AdmissionAttributes) -> None:
        registry = attributes.registry
        store = registry.open_store_of("", "v1", "Namespace")
        if attributes.dry_run or await lookup.find(store, "", attributes.namespace) is not None:
            return
        namespace = Namespace(metadata=ObjectMeta(name=attributes.namespace))
        store.strategy.default(namespace)
        now = times.format_time(registry.clock.now())
        with suppress(errors.AlreadyExists):
            await store.create(Context(services=attributes.services, user=attributes.user, now=now), namespace)
