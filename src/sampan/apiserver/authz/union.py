"""The chain of authorizers, and the authorizers without configuration: AlwaysAllow, AlwaysDeny, system:masters.

The counterparts are `k8s.io/apiserver/pkg/authorization/union` and `authorization/authorizerfactory`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.authorizer import (
    ALLOWED,
    UNDECIDED,
    Attributes,
    Authorizer,
    Closing,
    Decision,
    Rights,
    Telling,
    Verdict,
    attributes_of,
    refused,
)
from sampan.apiserver.request.call import MASTERS, Call, User


class Chain:
    """The first authorizer that allows or denies decides; a request that none allows is rejected."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers: tuple[Authorizer, ...] = authorizers

    async def decide(self, asked: Attributes) -> Decision:
        reasons, faults = [], []
        for authorizer in self._authorizers:
            decision = authorizer.decide(asked)
            if not isinstance(decision, Decision):
                decision = await decision
            if decision.verdict is Verdict.ALLOWED:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
            if decision.fault:
                faults.append(decision.fault)
            if decision.verdict is Verdict.REFUSED:
                return _refused(Verdict.REFUSED, reasons, faults)
        return _refused(Verdict.UNDECIDED, reasons, faults)

    async def is_allowed(self, asked: Attributes) -> bool:
        return (await self.decide(asked)).verdict is Verdict.ALLOWED

    async def check(self, call: Call, verb: str = "") -> None:
        """Raise Forbidden, with the message of kube-apiserver, unless the request is allowed; `verb` replaces its
        own."""
        await self.require(attributes_of(call, verb))

    async def require(self, asked: Attributes) -> None:
        decision = await self.decide(asked)
        if decision.verdict is not Verdict.ALLOWED:
            raise refused(asked, decision)

    def rights_of(self, user: User, namespace: str) -> Rights:
        """Return the combined rules of all authorizers that can list them."""
        answers = [
            authorizer.rights_of(user, namespace) for authorizer in self._authorizers if isinstance(authorizer, Telling)
        ]
        return Rights(
            [rule for rights in answers for rule in rights.rules],
            list(dict.fromkeys(error for rights in answers for error in rights.faults)),
            all(rights.is_whole for rights in answers),
        )

    def replace(self, authorizers: Sequence[Authorizer]) -> Chain:
        """Replace the authorizers. Return a chain of the old ones, to be closed when no request waits for them any
        more."""
        old = Chain(*self._authorizers)
        self._authorizers = tuple(authorizers)
        return old

    async def close(self) -> None:
        for authorizer in self._authorizers:
            if isinstance(authorizer, Closing):
                await authorizer.close()


def _refused(verdict: Verdict, reasons: list[str], faults: list[str]) -> Decision:
    message = f"[{', '.join(faults)}]" if len(faults) > 1 else "".join(faults)
    return Decision(verdict, "\n".join(reasons), message)


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


class Masters:
    """Allows everything to members of system:masters."""

    def decide(self, asked: Attributes) -> Decision:
        return ALLOWED if MASTERS in asked.user.groups else UNDECIDED


class OpenPaths:
    """Allows everybody to read the health checks, but not while impersonating."""

    _PATHS = frozenset({"/healthz", "/livez", "/readyz"})

    def decide(self, asked: Attributes) -> Decision:
        is_open = not asked.is_resource and asked.path in self._PATHS
        return ALLOWED if is_open and not asked.verb.startswith("impersonate-on:") else UNDECIDED
