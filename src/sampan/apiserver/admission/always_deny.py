"""AlwaysDeny: rejects every write, for tests."""

from sampan.api.resource import Resource
from sampan.apiserver.admission.chain import Attributes, Operation


class AlwaysDeny:
    name = "AlwaysDeny"

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        return True

    async def admit(self, attributes: Attributes) -> None:
        raise attributes.refusal("admission control is denying all modifications")

    async def validate(self, attributes: Attributes) -> None:
        await self.admit(attributes)
