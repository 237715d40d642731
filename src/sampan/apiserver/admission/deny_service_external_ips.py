"""DenyServiceExternalIPs: rejects new external IPs of services."""

from sampan.api.resources.resource import Resource
from sampan.api.types.core_v1 import Service
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation


class DenyServiceExternalIPs:
    name = "DenyServiceExternalIPs"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        is_service = resource.plural == "services" and resource.group == ""
        return is_service and operation in ("CREATE", "UPDATE") and not subresource

    async def validate(self, attributes: AdmissionAttributes) -> None:
        service: Service = attributes.obj
        old_ips = attributes.old.spec.externalIPs if attributes.old is not None else ()
        if not set(service.spec.externalIPs) <= set(old_ips):
            raise attributes.forbidden("Use of external IPs is denied by admission control")
