"""The chain of authorizers, and the authorizers without configuration: AlwaysAllow, AlwaysDeny, system:masters.

The counterparts are `k8s.io/apiserver/pkg/authorization/union` and `authorization/authorizerfactory`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.authorizer import (
    ALLOW,
    NO_OPINION,
    Attributes,
    Authorizer,
    AuthzDecision,
    AuthzResult,
    ClosableAuthorizer,
    ResolvedRules,
    RuleResolver,
    attributes_of,
    authorization_error,
)
from sampan.apiserver.request.call import MASTERS, Call, UserInfo


class UnionAuthorizer:
    """The first authorizer that allows or denies decides; a request that none allows is rejected."""

    def __init__(self, *authorizers: Authorizer) -> None:
        self._authorizers: tuple[Authorizer, ...] = authorizers

    async def authorize(self, attributes: Attributes) -> AuthzResult:
        reasons, error_texts = [], []
        for authorizer in self._authorizers:
            result = authorizer.authorize(attributes)
            if not isinstance(result, AuthzResult):
                result = await result
            if result.decision is AuthzDecision.ALLOW:
                return result
            if result.reason:
                reasons.append(result.reason)
            if result.error:
                error_texts.append(result.error)
            if result.decision is AuthzDecision.DENY:
                return _refused(AuthzDecision.DENY, reasons, error_texts)
        return _refused(AuthzDecision.NO_OPINION, reasons, error_texts)

    async def is_allowed(self, attributes: Attributes) -> bool:
        return (await self.authorize(attributes)).decision is AuthzDecision.ALLOW

    async def check(self, call: Call, verb: str = "") -> None:
        """Raise Forbidden, with the message of kube-apiserver, unless the request is allowed; `verb` replaces its
        own."""
        await self.require(attributes_of(call, verb))

    async def require(self, attributes: Attributes) -> None:
        result = await self.authorize(attributes)
        if result.decision is not AuthzDecision.ALLOW:
            raise authorization_error(attributes, result)

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        """Return the combined rules of all authorizers that can list them."""
        resolved = [
            authorizer.rules_for(user, namespace)
            for authorizer in self._authorizers
            if isinstance(authorizer, RuleResolver)
        ]
        return ResolvedRules(
            [rule for rights in resolved for rule in rights.rules],
            list(dict.fromkeys(error for rights in resolved for error in rights.errors)),
            all(rights.is_complete for rights in resolved),
        )

    def replace(self, authorizers: Sequence[Authorizer]) -> UnionAuthorizer:
        """Replace the authorizers. Return a chain of the old ones, to be closed when no request waits for them any
        more."""
        old = UnionAuthorizer(*self._authorizers)
        self._authorizers = tuple(authorizers)
        return old

    async def close(self) -> None:
        for authorizer in self._authorizers:
            if isinstance(authorizer, ClosableAuthorizer):
                await authorizer.close()


def _refused(decision: AuthzDecision, reasons: list[str], error_texts: list[str]) -> AuthzResult:
    message = f"[{', '.join(error_texts)}]" if len(error_texts) > 1 else "".join(error_texts)
    return AuthzResult(decision, "\n".join(reasons), message)


_DENIED = AuthzResult(AuthzDecision.NO_OPINION, "Everything is forbidden.")


class AlwaysAllow:
    def authorize(self, attributes: Attributes) -> AuthzResult:
        return ALLOW

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        every = ["*"]
        return ResolvedRules(
            [PolicyRule(verbs=every, apiGroups=every, resources=every), PolicyRule(verbs=every, nonResourceURLs=every)]
        )


class AlwaysDeny:
    """Has no opinion, so that another authorizer of the chain may still allow the request."""

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return _DENIED


class PrivilegedGroupAuthorizer:
    """Allows everything to members of system:masters."""

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return ALLOW if MASTERS in attributes.user.groups else NO_OPINION


class AlwaysAllowPaths:
    """Allows everybody to read the health checks, but not while impersonating."""

    _PATHS = frozenset({"/healthz", "/livez", "/readyz"})

    def authorize(self, attributes: Attributes) -> AuthzResult:
        is_open = not attributes.is_resource and attributes.path in self._PATHS
        return ALLOW if is_open and not attributes.verb.startswith("impersonate-on:") else NO_OPINION
