"""TaintNodesByCondition: adds the not-ready taint to new nodes."""

from sampan.api.resources.resource import Resource
from sampan.api.semantics.taints import NO_SCHEDULE, NOT_READY
from sampan.api.types.core_v1 import Node, Taint
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation


class TaintNodesByCondition:
    name = "TaintNodesByCondition"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_node = resource.plural == "nodes" and resource.group == ""
        return is_node and operation == "CREATE" and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        node: Node = attributes.obj
        if not any((taint.key, taint.effect) == (NOT_READY, NO_SCHEDULE) for taint in node.spec.taints):
            node.spec.taints.append(Taint(key=NOT_READY, effect=NO_SCHEDULE))
