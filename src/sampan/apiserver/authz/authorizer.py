"""The contract of an authorizer: the attributes of a request, the decision, and the error for a denied request.

The counterpart is `k8s.io/apiserver/pkg/authorization/authorizer`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

from sampan.api import fields, gotext, names, paths
from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.request.call import Call, UserInfo
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
        return _unserved(call)
    by_fields, by_labels, name = _selected(call, call.verb, call.is_classic_watch) if call.query else ("", "", "")
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


def _unserved(call: Call) -> Attributes:
    """Return the attributes of a request for a non-resource path or a resource that is not served. It is authorized
    before a 404 is returned."""
    path = paths.parse(call.path)
    if path is None:
        return Attributes(call.user, call.verb, call.path, is_resource=False)
    verb = _verb(call, path)
    by_fields, by_labels, name = _selected(call, verb, path.watch)
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


def _verb(call: Call, path: paths.ResourcePath) -> str:
    verb = "watch" if path.watch else _VERBS.get(call.method, "")
    if path.name:
        return verb
    if verb == "get":
        return "watch" if call.query.flag("watch") else "list"
    return "deletecollection" if verb == "delete" else verb


def _selected(call: Call, verb: str, is_classic_watch: bool) -> tuple[str, str, str]:
    """Return the field and label selector of the request, and the single name that they select. Only list, watch and
    deletecollection honour selectors; the deprecated watch paths do not always, so their selectors are ignored. The
    name is not derived for deletecollection."""
    if is_classic_watch or verb not in ("list", "watch", "deletecollection"):
        return "", "", ""
    selector = call.query.get("fieldSelector")
    name = _selected_name(selector) if selector and verb != "deletecollection" else ""
    return selector, call.query.get("labelSelector"), name


def _selected_name(selector: str) -> str:
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
        what = f"{who} {attributes.verb} path {gotext.quote(attributes.path)}"
        return errors.forbidden("", "", _with_reason(what, reason))
    where = f"in the namespace {gotext.quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    resource, group = gotext.quote(attributes.whole_resource), gotext.quote(attributes.group)
    what = f"{who} {attributes.verb} resource {resource} in API group {group} {where}"
    return errors.forbidden(attributes.resource, attributes.name, _with_reason(what, reason), group=attributes.group)


def authorization_error(attributes: Attributes, result: AuthzResult) -> errors.ApiError:
    """Return the error for a rejected request: an internal error if an authorizer failed, otherwise Forbidden."""
    if result.error:
        what = attributes.path or attributes.whole_resource
        return errors.unexpected(f"Internal Server Error: {gotext.quote(what)}: {result.error}")
    return forbidden_error(attributes, result.reason)


def _with_reason(what: str, reason: str) -> str:
    return (f"{what}: {reason}" if reason else what).translate(_ESCAPES)
