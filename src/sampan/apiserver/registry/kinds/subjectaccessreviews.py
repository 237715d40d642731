"""SubjectAccessReview: whether a user may perform an action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.types.authorization_v1 import SubjectAccessReview
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry import reviews
from sampan.apiserver.registry.behavior import ResourceBehavior

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    return await reviews.review_access(endpoints, call, _validate_review, reviews.subject)


def _validate_review(access_review: SubjectAccessReview) -> Iterator[FieldError]:
    yield from reviews.validate_subject_review(access_review)
    yield from reviews.validate_metadata(access_review.metadata)


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": review}
