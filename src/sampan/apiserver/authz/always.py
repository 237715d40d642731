"""The authorizers AlwaysAllow and AlwaysDeny."""

from __future__ import annotations

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import ALLOWED, Decision, Rights, Verdict
from sampan.apiserver.call import User

_DENIED = Decision(Verdict.UNDECIDED, "Everything is forbidden.")


class AlwaysAllow:
    def decide(self, asked: Attributes) -> Decision:
        return ALLOWED

    def rights_of(self, user: User, namespace: str) -> Rights:
        every = ["*"]
        return Rights(
            [PolicyRule(verbs=every, apiGroups=every, resources=every), PolicyRule(verbs=every, nonResourceURLs=every)]
        )


class AlwaysDeny:
    """Has no opinion, so that another authorizer of the chain may still allow the request."""

    def decide(self, asked: Attributes) -> Decision:
        return _DENIED
