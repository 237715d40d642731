"""SelfSubjectAccessReview: whether the requesting user may perform an action."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sampan.api.field_errors import FieldError
from sampan.api.types.authorization_v1 import SelfSubjectAccessReview
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry import reviews
from sampan.apiserver.registry.behavior import ResourceBehavior

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    return await reviews.review_access(endpoints, call, _validate_review, lambda spec: call.user)


def _validate_review(access_review: SelfSubjectAccessReview) -> Iterator[FieldError]:
    yield from reviews.validate_attributes(access_review.spec)
    yield from reviews.validate_selectors(access_review.spec.resourceAttributes)
    yield from reviews.validate_metadata(access_review.metadata)


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": review}
