"""Privilege escalation prevention: writing a role or binding requires all of its permissions, or the verb `escalate` or
`bind` on the role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.go_compat import gotext
from sampan.api.types.rbac_v1 import PolicyRule, RoleRef
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.authz.rbac import policy_rules
from sampan.apiserver.authz.rbac.authorizer import GROUP, MissingRole, RbacIndex
from sampan.apiserver.request.call import MASTERS, UserInfo
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.auth_services import AuthServices
    from sampan.apiserver.registry.strategy import Context

_EVERYTHING = (
    PolicyRule(verbs=["*"], apiGroups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], nonResourceURLs=["*"]),
)
_AGGREGATES = "must have cluster-admin privileges to use the aggregationRule"


async def check(ctx: Context, obj: Any, old: Any | None) -> None:
    """Raise Forbidden if the user may not write this role or binding. This runs before validation."""
    security = ctx.registry.security
    if security is None or MASTERS in ctx.user.groups or _is_housekeeping(obj, old):
        return
    if obj.kind.endswith("Binding"):
        await _check_binding(security, ctx, obj)
    else:
        await _check_role(security, ctx, obj, old)


async def _check_role(security: AuthServices, ctx: Context, obj: Any, old: Any | None) -> None:
    plural, meta = f"{obj.kind.lower()}s", obj.metadata
    name = meta.name if old is not None else ""
    if await security.authorizer.is_allowed(_attributes(ctx, "escalate", GROUP, plural, name)):
        return
    if message := escalation_error(security.rules, ctx.user, ctx.namespace, obj.rules or ()):
        raise errors.forbidden(plural, meta.name, message, group=GROUP)
    aggregates = any(getattr(role, "aggregationRule", None) is not None for role in (obj, old))
    if aggregates and escalation_error(security.rules, ctx.user, "", _EVERYTHING):
        raise errors.forbidden(plural, meta.name, _AGGREGATES, group=GROUP)


async def _check_binding(security: AuthServices, ctx: Context, obj: Any) -> None:
    plural, ref = f"{obj.kind.lower()}s", obj.roleRef
    if ref.kind in ("Role", "ClusterRole"):
        request = _attributes(ctx, "bind", ref.apiGroup, f"{ref.kind.lower()}s", ref.name)
        if await security.authorizer.is_allowed(request):
            return
    rules = _rules(security.rules, ref, ctx.namespace, plural)
    if message := escalation_error(security.rules, ctx.user, ctx.namespace, rules):
        raise errors.forbidden(plural, obj.metadata.name, message, group=GROUP)


def _rules(index: RbacIndex, ref: RoleRef, namespace: str, plural: str) -> Sequence[PolicyRule]:
    try:
        return index.rules_of(ref, namespace)
    except MissingRole:
        raise errors.not_found(plural, ref.name, group=GROUP) from None


def escalation_error(index: RbacIndex, user: UserInfo, namespace: str, rules: Sequence[PolicyRule]) -> str:
    """Return why the user may not grant these rules in the namespace; empty if it may."""
    grants = [index.grants(user, "")] + ([index.grants(user, namespace)] if namespace else [])
    who = f"user {gotext.quote(user.name)} (groups={policy_rules.quoted(user.groups)})"
    try:
        missing = policy_rules.uncovered_rules([rule for grant in grants for rule in grant.rules], rules)
    except policy_rules.TooComplex:
        return f"{who} is attempting to grant RBAC permissions that are too complex to be compared with those held"
    if not missing:
        return ""
    descriptions = sorted({policy_rules.described(rule) for rule in missing.rules})
    if not missing.is_complete:
        descriptions.append("...")
    text = "\n".join(descriptions)
    resolution_errors = [error for grant in grants for error in grant.errors]
    more = f"; resolution errors: [{' '.join(resolution_errors)}]" if resolution_errors else ""
    return f"{who} is attempting to grant RBAC permissions not currently held:\n{text}{more}"


def _attributes(ctx: Context, verb: str, group: str, resource: str, name: str) -> Attributes:
    return Attributes(ctx.user, verb, "", group, "*", resource, "", ctx.namespace, name)


def _is_housekeeping(obj: Any, old: Any | None) -> bool:
    """Whether only owner references or finalizers have changed, as the garbage collector does."""
    if old is None:
        return False
    meta, before = obj.metadata, old.metadata
    if meta.ownerReferences == before.ownerReferences and meta.finalizers == before.finalizers:
        return False
    return _content(obj) == _content(old)


def _content(obj: Any) -> tuple[Any, ...]:
    meta, parts = obj.metadata, ("rules", "aggregationRule", "roleRef", "subjects")
    return (meta.labels, meta.annotations, *(getattr(obj, part, None) for part in parts))
