"""PersistentVolumeClaimResize: only bound claims can be expanded, if their storage class allows volume expansion."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import PersistentVolumeClaim
from sampan.api.types.storage_v1 import StorageClass
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation
from sampan.apiserver.registry.volumes.classes import class_of


class PersistentVolumeClaimResize:
    name = "PersistentVolumeClaimResize"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_claim = resource.plural == "persistentvolumeclaims" and resource.group == ""
        return is_claim and operation == "UPDATE" and not subresource

    async def validate(self, attributes: AdmissionAttributes) -> None:
        claim: PersistentVolumeClaim = attributes.obj
        old: PersistentVolumeClaim = attributes.old
        if _size(claim) <= _size(old):
            return
        if old.status.phase != "Bound":
            raise attributes.forbidden("Only bound persistent volume claims can be expanded")
        if class_of(claim) != class_of(old) or not await _may_grow(attributes, class_of(claim)):
            why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
            raise attributes.forbidden(f"{why} support resize")


async def _may_grow(attributes: AdmissionAttributes, class_name: str) -> bool:
    if not class_name:
        return False
    store = attributes.registry.open_store_of("storage.k8s.io", "v1", "StorageClass")
    storage_class: StorageClass | None = await lookup.find(store, "", class_name)
    return storage_class is not None and bool(storage_class.allowVolumeExpansion)


def _size(claim: PersistentVolumeClaim) -> Quantity:
    return parse(claim.spec.resources.requests.get("storage", "0"))
