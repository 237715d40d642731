"""What all reviews share: decoding, admission, users and the response."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.api.codec import json
from sampan.api.field_errors import FieldError
from sampan.api.types import authentication_v1
from sampan.apiserver.fieldmanager import manager_name
from sampan.apiserver.request import bodies, options
from sampan.apiserver.response.responses import ValueResponse
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.auth_services import AuthServices
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call, UserInfo


async def read_review(endpoints: ApiEndpoints, call: Call) -> Any:
    """Return the review in the request body after admission."""
    resource = call.resource
    assert resource is not None
    opts = options.write_options("CreateOptions", call.query)
    review = await endpoints.read_object(call, endpoints.codec(resource), opts.field_validation)
    bodies.match_namespace(call, review)
    ctx = endpoints.context(call, opts.dry_run)
    manager = manager_name(opts.field_manager, call.user_agent)
    await ctx.compute(partial(endpoints.ownership.created, resource, review, manager=manager, now=ctx.now))
    attributes = endpoints.attributes("CREATE", call, review, None, ctx)
    await endpoints.admission.admit(attributes)
    await endpoints.admission.validate(attributes)
    return review


async def review_response(endpoints: ApiEndpoints, call: Call, review: Any) -> ValueResponse:
    return ValueResponse(await endpoints.compute(call, json.to_value, review), 201)


async def check(endpoints: ApiEndpoints, call: Call, group: str, validate: Callable[[], Iterable[FieldError]]) -> None:
    """Raise Invalid if validation yields errors; like kube-apiserver, without naming the kind."""

    def run() -> None:
        if field_errors := list(validate()):
            raise errors.invalid("", "", field_errors, group=group)

    await endpoints.compute(call, run)


def security_of(endpoints: ApiEndpoints) -> AuthServices:
    security = endpoints.registry.security
    if security is None:
        raise errors.generic(404)
    return security


def user_info(user: UserInfo) -> authentication_v1.UserInfo:
    """Return the user as the UserInfo of a review."""
    extra = {key: list(values) for key, values in user.extra.items()}
    return authentication_v1.UserInfo(username=user.name, uid=user.uid, groups=list(user.groups), extra=extra)
