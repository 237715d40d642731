"""SelfSubjectAccessReview: whether the requesting user may perform an action."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.types.authorization_v1 import SelfSubjectAccessReview
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.reviews import access
from sampan.apiserver.registry.reviews.review_requests import check, read_review, review_response, security_of

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    access_review: SelfSubjectAccessReview = await read_review(endpoints, call)
    await check(endpoints, call, access.GROUP, partial(_validate_review, access_review))
    access_review.status = await access.status_of(security_of(endpoints).authorizer, access_review.spec, call.user)
    return await review_response(endpoints, call, access_review)


def _validate_review(access_review: SelfSubjectAccessReview) -> Iterator[FieldError]:
    yield from access.validate_attributes(access_review.spec)
    yield from access.validate_selectors(access_review.spec.resourceAttributes)
    yield from access.validate_metadata(access_review.metadata)


BEHAVIOUR = ResourceBehaviour(handlers={"": review})
