"""PodTopologyLabels: copies the zone and region labels of the node to a pod that is bound to it."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Binding, Node, Pod
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation, is_pod

_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels:
    name = "PodTopologyLabels"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return is_pod(resource) and operation == "CREATE" and subresource in ("", "binding")

    async def admit(self, attributes: AdmissionAttributes) -> None:
        """Set the labels on the pod or binding; those of a binding are copied to the pod."""
        obj: Pod | Binding = attributes.obj
        if isinstance(obj, Binding):
            node_name = obj.target.name if obj.target.kind == "Node" else ""
        else:
            node_name = obj.spec.nodeName
        if not node_name:
            return
        node: Node | None = await lookup.find(attributes.registry.open_store_of("", "v1", "Node"), "", node_name)
        if node is not None:
            labels = node.metadata.labels
            obj.metadata.labels.update({key: labels[key] for key in _LABELS if key in labels})
