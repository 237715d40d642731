"""SelfSubjectRulesReview: the rules that apply to the requesting user in a namespace, as far as they can be listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sampan.api.types.authorization_v1 import (
    NonResourceRule,
    ResourceRule,
    SelfSubjectRulesReview,
    SubjectRulesReviewStatus,
)
from sampan.apiserver.authz.authorizer import ResolvedRules
from sampan.apiserver.handlers import Handlers
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.reviews import read_review, review_response, security_of
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints
    from sampan.apiserver.request.call import Call
    from sampan.apiserver.response.responses import ValueResponse


async def review(endpoints: ApiEndpoints, call: Call) -> ValueResponse:
    rules_review: SelfSubjectRulesReview = await read_review(endpoints, call)
    if not rules_review.spec.namespace:
        raise errors.bad_request("no namespace on request")
    rules = security_of(endpoints).authorizer.rules_for(call.user, rules_review.spec.namespace)
    rules_review = SelfSubjectRulesReview(status=_status(rules))  # the response has neither metadata nor spec
    return await review_response(endpoints, call, rules_review)


def _status(rights: ResolvedRules) -> SubjectRulesReviewStatus:
    rules = rights.rules
    return SubjectRulesReviewStatus(
        resourceRules=[
            ResourceRule(
                verbs=rule.verbs,
                apiGroups=rule.apiGroups,
                resources=rule.resources,
                resourceNames=rule.resourceNames,
            )
            for rule in rules
            if rule.resources
        ],
        nonResourceRules=[
            NonResourceRule(verbs=rule.verbs, nonResourceURLs=rule.nonResourceURLs)
            for rule in rules
            if rule.nonResourceURLs
        ],
        incomplete=not rights.is_complete,
        evaluationError=_join_errors(rights.errors),
    )


def _join_errors(errors: Sequence[str]) -> str:
    return f"[{', '.join(errors)}]" if len(errors) > 1 else "".join(errors)


BEHAVIOR = ResourceBehavior()
HANDLERS: Handlers = {"": review}
