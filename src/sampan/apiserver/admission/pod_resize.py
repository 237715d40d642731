"""PodResizeValidator: a pod can only be resized on a Linux node with enough allocatable resources."""

from sampan.api.resources.resource import Resource
from sampan.api.semantics.pod_resources import effective_requests
from sampan.api.types.core_v1 import Node, Pod
from sampan.api.values.quantity import Quantity, parse
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod


class PodResizeValidator:
    name = "PodResizeValidator"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod(resource) and operation == "UPDATE" and subresource == "resize"

    async def validate(self, attributes: AdmissionAttributes) -> None:
        pod: Pod = attributes.obj
        node_name = pod.spec.nodeName
        if not node_name or pod.metadata.generation == attributes.old.metadata.generation:
            return
        node: Node | None = await lookup.find(attributes.registry.open_store_of("", "v1", "Node"), "", node_name)
        if node is None:
            raise attributes.forbidden(f'node "{node_name}" not found')
        system = node.metadata.labels.get("kubernetes.io/os", "linux")
        if system != "linux":
            why = f'pod resize is only supported on linux nodes, node "{node_name}" is "{system}"'
            raise attributes.forbidden(why, [{"reason": "UnsupportedPlatform"}])
        if missing := _describe_missing_resources(pod, node):
            why = f"node didn't have enough allocatable resources: {'; '.join(missing)}"
            raise attributes.forbidden(why, [{"reason": "NodeCapacity"}])


def _describe_missing_resources(pod: Pod, node: Node) -> list[str]:
    requests, zero = effective_requests(pod.spec), Quantity()
    allocatable = {name: parse(text) for name, text in node.status.allocatable.items()}
    rows = [
        (name, requests.get(name, zero), allocatable.get(name, zero), scale)
        for name, scale in (("cpu", -3), ("memory", 0))
    ]
    return [
        f"{name}, requested: {request.scaled_value(scale)}, allocatable: {capacity.scaled_value(scale)}"
        for name, request, capacity, scale in rows
        if request > capacity
    ]
