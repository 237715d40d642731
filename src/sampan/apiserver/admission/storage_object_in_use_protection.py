"""StorageObjectInUseProtection: adds finalizers to volumes, claims and volume attributes classes, which a controller
removes when they are no longer in use."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation

_FINALIZERS = {
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}


class StorageObjectInUseProtection:
    name = "StorageObjectInUseProtection"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return (resource.group, resource.plural) in _FINALIZERS and operation == "CREATE" and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        finalizer = _FINALIZERS[attributes.resource.group, attributes.resource.plural]
        finalizers = attributes.obj.metadata.finalizers
        if finalizer not in finalizers:
            finalizers.append(finalizer)
