"""AlwaysAdmit: admits every request. It is deprecated and without effect."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation


class AlwaysAdmit:
    name = "AlwaysAdmit"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return False

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Admit the request."""
