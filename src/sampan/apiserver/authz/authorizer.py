"""The contract of an authorizer, the union that consults several, and the authorizers without configuration.

An authorizer gets the attributes of a request and returns a decision. The counterparts are the packages `authorizer`,
`union` and `authorizerfactory` of `k8s.io/apiserver/pkg/authorization`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

from sampan.api import names
from sampan.api.go_compat import gotext
from sampan.api.scheme import ResourcePath, parse_path
from sampan.api.selectors import fields
from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.request.call import MASTERS, Call, UserInfo
from sampan.machinery import errors


class Attributes(msgspec.Struct, frozen=True):
    user: UserInfo
    verb: str
    path: str = ""
    """The path of a non-resource request, for which all fields below are empty."""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    is_resource: bool = True
    label_selector: str = ""

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as in RBAC rules: pods/log."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(call: Call, verb: str = "") -> Attributes:
    """Return the attributes of a classified request; `verb`, if not empty, replaces its own."""
    resource = call.resource
    if resource is None:
        return _make_unserved_attributes(call)
    by_fields, by_labels, name = _read_selectors(call, call.verb, call.is_classic_watch) if call.query else ("", "", "")
    return Attributes(
        call.user,
        verb or call.verb,
        "",
        resource.group,
        resource.version,
        resource.plural,
        call.subresource,
        call.namespace,
        call.name or name,
        by_fields,
        True,
        by_labels,
    )


def _make_unserved_attributes(call: Call) -> Attributes:
    """Return the attributes of a request for a non-resource path or a resource that is not served. It is authorized
    before a 404 is returned."""
    path = parse_path(call.path)
    if path is None:
        return Attributes(call.user, call.verb, call.path, is_resource=False)
    verb = _verb(call, path)
    by_fields, by_labels, name = _read_selectors(call, verb, path.watch)
    return Attributes(
        call.user,
        verb,
        "",
        path.group,
        path.version,
        path.plural,
        path.subresource,
        path.namespace,
        path.name or name,
        by_fields,
        True,
        by_labels,
    )


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call, path: ResourcePath) -> str:
    verb = "watch" if path.watch else _VERBS.get(call.method, "")
    if path.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _read_selectors(call: Call, verb: str, is_classic_watch: bool) -> tuple[str, str, str]:
    """Return the field and label selector of the request, and the single name that they select. Only list, watch and
    deletecollection honor selectors; the deprecated watch paths do not always, so their selectors are ignored. The
    name is not derived for deletecollection."""
    if is_classic_watch or verb not in ("list", "watch", "deletecollection"):
        return "", "", ""
    selector = call.query.get("fieldSelector")
    name = _parse_selected_name(selector) if selector and verb != "deletecollection" else ""
    return selector, call.query.get("labelSelector"), name


def _parse_selected_name(selector: str) -> str:
    try:
        terms = fields.parse(selector).exact()
    except fields.FieldSelectorError:
        return ""
    name = next((value for field, value in terms if field == "metadata.name"), "")
    return "" if names.path_segment(name) else name


class AuthzDecision(Enum):
    ALLOW = 1
    DENY = 2
    """Denied, whatever later authorizers would decide."""
    NO_OPINION = 3


@dataclass(frozen=True, slots=True)
class AuthzResult:
    decision: AuthzDecision
    reason: str = ""
    """Shown to the user if the request is rejected in the end, and in access reviews."""
    error: str = ""
    """An error that may have affected the decision, such as an unreachable webhook."""


ALLOW, NO_OPINION = AuthzResult(AuthzDecision.ALLOW), AuthzResult(AuthzDecision.NO_OPINION)


class Authorizer(Protocol):
    @property
    def name(self) -> str:
        """The name that precedes its reasons in the messages of a union. No two authorizers have the same name."""

    def authorize(self, attributes: Attributes) -> AuthzResult | Awaitable[AuthzResult]:
        """Return the decision. This runs on every request, so it must take only microseconds. An authorizer that calls
        another service returns an awaitable, and only if the decision is not cached."""


@dataclass(frozen=True, slots=True)
class ResolvedRules:
    """The rules of a user in a namespace, as far as an authorizer can list them."""

    rules: Sequence[PolicyRule] = ()
    errors: Sequence[str] = ()
    is_complete: bool = True


@runtime_checkable
class RuleResolver(Protocol):
    """An authorizer that can list the rules of a user."""

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules: ...


@runtime_checkable
class ClosableAuthorizer(Protocol):
    """An authorizer that holds connections."""

    async def close(self) -> None: ...


_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden_error(attributes: Attributes, reason: str = "") -> errors.ApiError:
    """Return the Forbidden error, which does not depend on whether the target exists."""
    who = f"User {gotext.quote(attributes.user.name)} cannot"
    if not attributes.is_resource:
        request_text = f"{who} {attributes.verb} path {gotext.quote(attributes.path)}"
        return errors.forbidden("", "", _with_reason(request_text, reason))
    scope = f"in the namespace {gotext.quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    resource, group = gotext.quote(attributes.whole_resource), gotext.quote(attributes.group)
    request_text = f"{who} {attributes.verb} resource {resource} in API group {group} {scope}"
    return errors.forbidden(
        attributes.resource, attributes.name, _with_reason(request_text, reason), group=attributes.group
    )


def authorization_error(attributes: Attributes, result: AuthzResult) -> errors.ApiError:
    """Return the error for a rejected request: an internal error if an authorizer failed, otherwise Forbidden."""
    if result.error:
        target = attributes.path or attributes.whole_resource
        return errors.unexpected_error(f"Internal Server Error: {gotext.quote(target)}: {result.error}")
    return forbidden_error(attributes, result.reason)


def _with_reason(message: str, reason: str) -> str:
    return (f"{message}: {reason}" if reason else message).translate(_ESCAPES)


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
            if result.decision is not AuthzDecision.NO_OPINION:
                return result
            if result.reason:
                reasons.append(f"{authorizer.name}: {result.reason}")
            if result.error:
                error_texts.append(result.error)
        message = f"[{', '.join(error_texts)}]" if len(error_texts) > 1 else "".join(error_texts)
        return AuthzResult(AuthzDecision.NO_OPINION, "\n".join(reasons), message)

    async def is_allowed(self, attributes: Attributes) -> bool:
        return (await self.authorize(attributes)).decision is AuthzDecision.ALLOW

    async def is_allowed_for_signer(self, user: UserInfo, verb: str, signer: str) -> bool:
        """Whether the user has permission for the signer of certificates, or for its whole domain."""
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            if await self.is_allowed(Attributes(user, verb, "", "certificates.k8s.io", "*", "signers", name=name)):
                return True
        return False

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


_DENIED = AuthzResult(AuthzDecision.NO_OPINION, "Everything is forbidden.")


class AlwaysAllow:
    def __init__(self, *, name: str = "alwaysallow") -> None:
        self.name = name

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return ALLOW

    def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        every = ["*"]
        return ResolvedRules(
            [PolicyRule(verbs=every, apiGroups=every, resources=every), PolicyRule(verbs=every, nonResourceURLs=every)]
        )


class AlwaysDeny:
    """Has no opinion, so that another authorizer of the chain may still allow the request."""

    def __init__(self, *, name: str = "alwaysdeny") -> None:
        self.name = name

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return _DENIED


class PrivilegedGroupAuthorizer:
    """Allows everything to members of system:masters."""

    name = "kubernetes.io/system-privileged-group"

    def authorize(self, attributes: Attributes) -> AuthzResult:
        return ALLOW if MASTERS in attributes.user.groups else NO_OPINION


class AlwaysAllowPaths:
    """Allows everybody to read the health checks, but not while impersonating."""

    name = "always-allow-paths"
    _PATHS = frozenset({"/healthz", "/livez", "/readyz"})

    def authorize(self, attributes: Attributes) -> AuthzResult:
        is_open = not attributes.is_resource and attributes.path in self._PATHS
        return ALLOW if is_open and not attributes.verb.startswith("impersonate-on:") else NO_OPINION
