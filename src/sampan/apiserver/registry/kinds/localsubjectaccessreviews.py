"""LocalSubjectAccessReview: whether a user may perform an action in the review's namespace."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.types.authorization_v1 import LocalSubjectAccessReview
from sampan.apiserver.registry.behaviour import ResourceBehaviour
from sampan.apiserver.registry.reviews import access
from sampan.apiserver.registry.reviews.review_requests import check, read_review, review_response, security_of

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    access_review: LocalSubjectAccessReview = await read_review(endpoints, call)
    await check(endpoints, call, access.GROUP, partial(_validate_review, access_review))
    access_review.status = await access.status_of(
        security_of(endpoints).authorizer, access_review.spec, access.subject(access_review.spec)
    )
    return await review_response(endpoints, call, access_review)


def _validate_review(access_review: LocalSubjectAccessReview) -> Iterator[FieldError]:
    yield from access.validate_subject_review(access_review)
    yield from access.validate_metadata(access_review.metadata, may_have_namespace=True)
    yield from access.validate_local_review(access_review)


BEHAVIOUR = ResourceBehaviour(handlers={"": review})
