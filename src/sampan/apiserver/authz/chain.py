"""The authorizers in their order."""

from __future__ import annotations

from sampan.apiserver.authz.attributes import Attributes, attributes_of
from sampan.apiserver.authz.decisions import Authorizer, Decision, Verdict
from sampan.apiserver.authz.refusals import refusal
from sampan.apiserver.call import Call


class Chain:
    """The first authorizer that decides does so for all; a call that none allows is refused."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers = authorizers

    async def decide(self, asked: Attributes) -> Decision:
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.decide(asked)
            if not isinstance(decision, Decision):
                decision = await decision
            if decision.verdict is Verdict.ALLOWED:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
            if decision.verdict is Verdict.REFUSED:
                return Decision(Verdict.REFUSED, "\n".join(reasons))
        return Decision(Verdict.UNDECIDED, "\n".join(reasons))

    async def is_allowed(self, asked: Attributes) -> bool:
        return (await self.decide(asked)).verdict is Verdict.ALLOWED

    async def check(self, call: Call, verb: str = "") -> None:
        """Forbidden, in the real server's words, if the call is not allowed; `verb` stands for the call's own."""
        await self.require(attributes_of(call, verb))

    async def require(self, asked: Attributes) -> None:
        decision = await self.decide(asked)
        if decision.verdict is not Verdict.ALLOWED:
            raise refusal(asked, decision.reason)


__all__ = ["Chain"]
