"""DefaultIngressClass: sets the default class of an ingress that names none."""

from sampan.api.resources.resource import Resource
from sampan.api.types.networking_v1 import Ingress
from sampan.apiserver.admission.framework import lookup
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation

OLD_CLASS = "kubernetes.io/ingress.class"
"""The deprecated annotation that names the class of an ingress."""
_IS_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass:
    name = "DefaultIngressClass"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_ingress = resource.plural == "ingresses" and resource.group == "networking.k8s.io"
        return is_ingress and operation == "CREATE" and not subresource

    async def admit(self, attributes: AdmissionAttributes) -> None:
        ingress: Ingress = attributes.obj
        if ingress.spec.ingressClassName is not None or OLD_CLASS in ingress.metadata.annotations:
            return
        classes = await lookup.list_all(attributes.registry.open_store_of("networking.k8s.io", "v1", "IngressClass"))
        ingress_class = lookup.find_newest(
            kind for kind in classes if kind.metadata.annotations.get(_IS_DEFAULT) == "true"
        )
        if ingress_class is not None:
            ingress.spec.ingressClassName = ingress_class.metadata.name
