"""The RBAC authorizer: a request is allowed if a role that is bound to the user or one of its groups has a matching
rule."""

from __future__ import annotations

from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import UNDECIDED, Decision, Rights, Verdict
from sampan.apiserver.authz.rbac.index import RbacIndex
from sampan.apiserver.call import User


class RbacAuthorizer:
    def __init__(self, *, index: RbacIndex) -> None:
        self._index = index

    def decide(self, asked: Attributes) -> Decision:
        """Return the decision. Cluster role bindings apply in every namespace."""
        index, namespace = self._index, asked.namespace
        decision = index.grants(asked.user, "").decide(asked)
        if decision is None and namespace:
            decision = index.grants(asked.user, namespace).decide(asked)
        return decision if decision is not None else self._not_allowed(asked)

    def rights_of(self, user: User, namespace: str) -> Rights:
        grants = (self._index.grants(user, ""), self._index.grants(user, namespace))
        rules = [rule for grant in grants for rule in grant.rules]
        return Rights(rules, [error for grant in grants for error in grant.faults])

    def _not_allowed(self, asked: Attributes) -> Decision:
        faults = self._faults(asked)
        return Decision(Verdict.UNDECIDED, f"RBAC: {faults}") if faults else UNDECIDED

    def _faults(self, asked: Attributes) -> str:
        faults = list(self._index.grants(asked.user, "").faults)
        if asked.namespace:
            faults += self._index.grants(asked.user, asked.namespace).faults
        messages = list(dict.fromkeys(faults))
        return f"[{', '.join(messages)}]" if len(messages) > 1 else "".join(messages)
