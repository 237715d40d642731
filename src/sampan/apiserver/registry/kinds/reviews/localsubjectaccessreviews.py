"""LocalSubjectAccessReview: whether a user may perform an action in the review's namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.types.authorization_v1 import LocalSubjectAccessReview
from sampan.apiserver.registry.kinds.reviews import access
from sampan.apiserver.registry.kinds.reviews.posted import answer, posted, refuse, security_of
from sampan.apiserver.registry.served import Served

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.endpoints import Endpoints
    from sampan.apiserver.results import ValueAnswer


async def review(endpoints: Endpoints, call: Call) -> ValueAnswer:
    asked: LocalSubjectAccessReview = await posted(endpoints, call)
    faults = [
        *access.subject_review_faults(asked),
        *access.metadata_faults(asked.metadata, may_have_namespace=True),
        *access.local_faults(asked),
    ]
    refuse(access.GROUP, faults)
    asked.status = await access.status_of(security_of(endpoints).authorizer, asked.spec, access.subject(asked.spec))
    return answer(asked)


SERVED = Served(handlers={"": review})
