"""AlwaysDeny: rejects every write, for tests."""

from sampan.api.resources.resource import Resource
from sampan.apiserver.admission.framework.contract import AdmissionAttributes, Operation


class AlwaysDenyAdmission:
    name = "AlwaysDeny"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return True

    async def admit(self, attributes: AdmissionAttributes) -> None:
        raise attributes.forbidden("admission control is denying all modifications")

    async def validate(self, attributes: AdmissionAttributes) -> None:
        await self.admit(attributes)
