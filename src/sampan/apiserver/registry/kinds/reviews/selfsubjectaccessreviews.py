"""SelfSubjectAccessReview: whether the requesting user may perform an action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.types.authorization_v1 import SelfSubjectAccessReview
from sampan.apiserver.registry.kinds.reviews import access
from sampan.apiserver.registry.kinds.reviews.posted import answer, posted, refuse, security_of
from sampan.apiserver.registry.served import Served

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.endpoints import Endpoints
    from sampan.apiserver.results import ValueAnswer


async def review(endpoints: Endpoints, call: Call) -> ValueAnswer:
    asked: SelfSubjectAccessReview = await posted(endpoints, call)
    faults = [
        *access.attribute_faults(asked.spec),
        *access.selector_faults(asked.spec.resourceAttributes),
        *access.metadata_faults(asked.metadata),
    ]
    refuse(access.GROUP, faults)
    asked.status = await access.status_of(security_of(endpoints).authorizer, asked.spec, call.user)
    return answer(asked)


SERVED = Served(handlers={"": review})
