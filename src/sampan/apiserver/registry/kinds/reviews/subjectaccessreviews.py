"""SubjectAccessReview: whether a user may perform an action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.types.authorization_v1 import SubjectAccessReview
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.kinds.reviews import access
from sampan.apiserver.registry.kinds.reviews.posted import answer, posted, refuse, security_of

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.endpoints import Endpoints
    from sampan.apiserver.results import ValueAnswer


async def review(endpoints: Endpoints, call: Call) -> ValueAnswer:
    access_review: SubjectAccessReview = await posted(endpoints, call)
    faults = [*access.subject_review_faults(access_review), *access.metadata_faults(access_review.metadata)]
    refuse(access.GROUP, faults)
    access_review.status = await access.status_of(
        security_of(endpoints).authorizer, access_review.spec, access.subject(access_review.spec)
    )
    return answer(access_review)


BEHAVIOUR = ResourceBehaviour(handlers={"": review})
