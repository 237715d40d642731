"""LimitPodHardAntiAffinityTopology: required pod anti-affinity may only use the topology key kubernetes.io/hostname."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod_write

_HOST = "kubernetes.io/hostname"


class LimitPodHardAntiAffinityTopology:
    name = "LimitPodHardAntiAffinityTopology"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod_write(operation, resource, subresource)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        affinity = pod.spec.affinity
        if affinity is None or affinity.podAntiAffinity is None:
            return
        for term in affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution:
            if term.topologyKey != _HOST:
                start = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {term.topologyKey}"
                raise attributes.forbidden(f"{start} but only key {_HOST} is allowed")
