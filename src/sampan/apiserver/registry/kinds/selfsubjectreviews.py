"""SelfSubjectReview: the attributes of the requesting user. The content of the request is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.types.authentication_v1 import SelfSubjectReview, SelfSubjectReviewStatus
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.values import times
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.reviews import read_review, review_response, user_info

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    posted_review = await read_review(endpoints, call)
    now = times.format_time(endpoints.registry.clock.now())
    status = SelfSubjectReviewStatus(userInfo=user_info(call.user))
    subject_review = SelfSubjectReview(metadata=ObjectMeta(creationTimestamp=now), status=status)
    subject_review.apiVersion = posted_review.apiVersion
    return await review_response(endpoints, call, subject_review)


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": review}
