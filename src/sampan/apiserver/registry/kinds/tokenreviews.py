"""TokenReview: the user that a bearer token authenticates, for the requested audiences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api import limits
from sampan.api.types.authentication_v1 import TokenReview, TokenReviewStatus
from sampan.apiserver.authn.authenticator import TokenError, UnionTokenAuthenticator
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.reviews import read_review, review_response, security_of, user_info
from sampan.machinery import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    token_review: TokenReview = await read_review(endpoints, call)
    if token_review.metadata.namespace:
        raise errors.bad_request("namespace is not allowed on this type: default")
    if not token_review.spec.token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    if len(token_review.spec.audiences) > limits.TOKEN_AUDIENCES:
        raise errors.bad_request(f"a TokenReview may name at most {limits.TOKEN_AUDIENCES} audiences")
    security = security_of(endpoints)
    token_review.status = await _status(
        security.tokens, token_review.spec.token, token_review.spec.audiences or security.audiences
    )
    return await review_response(endpoints, call, token_review)


async def _status(tokens: UnionTokenAuthenticator, token: str, audiences: Sequence[str]) -> TokenReviewStatus:
    try:
        identity = await tokens.authenticate_token(token, audiences)
    except TokenError as error:
        return TokenReviewStatus(error=str(error))
    return TokenReviewStatus(
        authenticated=True, user=user_info(identity.user), audiences=list(identity.audiences or audiences)
    )


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": review}
