"""ExtendedResourceToleration: pods that request extended resources tolerate the taints of nodes dedicated to these."""

from sampan.api.names import is_extended_resource
from sampan.api.resources.resource import Resource
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Pod, Toleration
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_write


class ExtendedResourceToleration:
    name = "ExtendedResourceToleration"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_write(operation, resource, subresource)

    async def admit(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        containers = init_and_main_containers(pod.spec)
        requested = {
            name for container in containers for name in container.resources.requests if is_extended_resource(name)
        }
        if not requested:
            return
        tolerated = {
            toleration.key
            for toleration in pod.spec.tolerations
            if toleration == Toleration(key=toleration.key, operator="Exists", effect="NoSchedule")
        }
        pod.spec.tolerations += [
            Toleration(key=name, operator="Exists", effect="NoSchedule") for name in sorted(requested - tolerated)
        ]
