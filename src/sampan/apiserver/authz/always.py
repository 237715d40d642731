"""The authorizers that need not think: AlwaysAllow and AlwaysDeny."""

from __future__ import annotations

from sampan.apiserver.authz.attributes import Attributes
from sampan.apiserver.authz.decisions import ALLOWED, Decision, Verdict

_DENIED = Decision(Verdict.UNDECIDED, "Everything is forbidden.")


class AlwaysAllow:
    def decide(self, asked: Attributes) -> Decision:
        return ALLOWED


class AlwaysDeny:
    """Does not stop the chain: another authorizer may allow what this one does not."""

    def decide(self, asked: Attributes) -> Decision:
        return _DENIED


__all__ = ["AlwaysAllow", "AlwaysDeny"]
