"""PodGroupProtection: adds a finalizer to PodGroups, which podgroup-protection-controller removes when no pod of the
group is active."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation

_FINALIZER = "scheduling.k8s.io/podgroup-protection"


class PodGroupProtection:
    name = "PodGroupProtection"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_pod_group = (resource.group, resource.plural) == ("scheduling.k8s.io", "podgroups")
        return is_pod_group and operation == "CREATE" and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        finalizers = attributes.obj.metadata.finalizers
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
