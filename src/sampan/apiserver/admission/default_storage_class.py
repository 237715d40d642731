"""DefaultStorageClass: sets the default storage class of a PersistentVolumeClaim that names none."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.volumes.classes import is_default, names_class


class DefaultStorageClass:
    name = "DefaultStorageClass"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_claim = resource.plural == "persistentvolumeclaims" and resource.group == ""
        return is_claim and operation == "CREATE" and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        claim: PersistentVolumeClaim = attributes.obj
        if names_class(claim):
            return
        store = attributes.registry.open_store_of("storage.k8s.io", "v1", "StorageClass")
        storage_class = lookup.find_newest(kind for kind in await lookup.list_all(store) if is_default(kind.metadata))
        if storage_class is not None:
            claim.spec.storageClassName = storage_class.metadata.name
