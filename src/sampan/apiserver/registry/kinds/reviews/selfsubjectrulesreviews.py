"""SelfSubjectRulesReview: what may I do in this namespace? As far as rules of roles say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.api.types.authorization_v1 import (
    NonResourceRule,
    ResourceRule,
    SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
    SubjectRulesReviewStatus,
)
from sampan.apiserver.authz.rbac import RbacIndex
from sampan.apiserver.call import User
from sampan.apiserver.registry.kinds.reviews.posted import answer, posted, security_of
from sampan.apiserver.registry.served import Served
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.call import Call
    from sampan.apiserver.endpoints import Endpoints
    from sampan.apiserver.results import ValueAnswer


async def review(endpoints: Endpoints, call: Call) -> ValueAnswer:
    asked: SelfSubjectRulesReview = await posted(endpoints, call)
    if not asked.spec.namespace:
        raise errors.bad_request("no namespace on request")
    asked.status = _rules(security_of(endpoints).rules, call.user, asked.spec.namespace)
    asked.spec = SelfSubjectRulesReviewSpec()
    return answer(asked)


def _rules(index: RbacIndex, user: User, namespace: str) -> SubjectRulesReviewStatus:
    grants = (index.grants(user, ""), index.grants(user, namespace))
    rules = [rule for grant in grants for rule in grant.rules]
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
        evaluationError=", ".join(dict.fromkeys(fault for grant in grants for fault in grant.faults)),
    )


SERVED = Served(handlers={"": review})
