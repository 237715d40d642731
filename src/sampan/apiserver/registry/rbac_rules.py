"""The strategies and validation that roles and role bindings share, and privilege escalation prevention: writing a role
or binding requires all of its permissions, or the verb `escalate` or `bind` on the role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from sampan.api import limits, names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.types.rbac_v1 import ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.authz.rbac import policy_rules
from sampan.apiserver.authz.rbac.authorizer import GROUP, MissingRole, RbacIndex
from sampan.apiserver.registry.strategy import Column, Context, FinishFunc, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_subdomain,
    validate_immutable,
    validate_required,
)
from sampan.apiserver.request.call import MASTERS, UserInfo
from sampan.apiserver.tables.columns import AGE, NAME
from sampan.machinery import errors

if TYPE_CHECKING:
    from sampan.apiserver.registry.strategy_services import AuthServices


_SUBJECTS = ("ServiceAccount", "User", "Group")


class RbacStrategy(Strategy):
    """Common behavior of RBAC kinds: any path segment is a name, and privilege escalation is checked before a write."""

    allow_create_on_update = True

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name)

    async def begin_write(self, ctx: Context, obj: Any, old: Any | None) -> FinishFunc | None:
        await check_escalation(ctx, obj, old)
        return None


def validate_policy_rules(rules: Sequence[PolicyRule] | None, *, is_namespaced: bool) -> FieldErrors:
    for index, rule in enumerate(rules or ()):
        yield from _validate_policy_rule(rule, f"rules[{index}]", is_namespaced)


def _validate_policy_rule(rule: PolicyRule, path: str, is_namespaced: bool) -> FieldErrors:
    if not rule.nonResourceURLs:
        if not rule.apiGroups:
            yield FieldError.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.resources:
            yield FieldError.required(f"{path}.resources", "resource rules must supply at least one resource")
        return
    path = f"{path}.nonResourceURLs"
    if is_namespaced:
        yield FieldError.invalid(path, rule.nonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
    if rule.apiGroups or rule.resources or rule.resourceNames:
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield FieldError.invalid(path, rule.nonResourceURLs, text)


# -- bindings --------------------------------------------------------------------------------------------------------

Binding = RoleBinding | ClusterRoleBinding


class RoleBindingStrategy(RbacStrategy):
    def __init__(self, *, is_namespaced: bool, kind: str) -> None:
        """`kind` is the kind's name in the descriptions of the table columns."""
        self._is_namespaced = is_namespaced
        self._roles = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)
        self.columns = _columns(kind)

    def default(self, obj: Binding) -> None:
        obj.roleRef.apiGroup = obj.roleRef.apiGroup or GROUP
        for subject in obj.subjects:
            if subject.kind in ("User", "Group"):
                subject.apiGroup = subject.apiGroup or GROUP

    def validate_create(self, ctx: Context, obj: Binding) -> Iterable[FieldError]:
        return self._validate(obj)

    def _validate(self, obj: Binding, *, is_role_changed: bool = False) -> FieldErrors:
        yield from _validate_role_ref(obj.roleRef, self._roles, is_changed=is_role_changed)
        for index, subject in enumerate(obj.subjects):
            yield from _validate_subject(subject, f"subjects[{index}]", self._is_namespaced)

    def validate_update(self, ctx: Context, obj: Binding, old: Binding) -> Iterable[FieldError]:
        yield from self._validate(obj, is_role_changed=obj.roleRef != old.roleRef)
        yield from validate_immutable(obj.roleRef, old.roleRef, "roleRef")


def _validate_role_ref(reference: RoleRef, roles: Sequence[str], *, is_changed: bool) -> FieldErrors:
    if reference.apiGroup != GROUP:
        yield FieldError.not_supported("roleRef.apiGroup", reference.apiGroup, [GROUP])
    if reference.kind not in roles:
        yield FieldError.not_supported("roleRef.kind", reference.kind, roles)
    if is_changed:  # the tags do not validate an immutable field that was changed
        yield from validate_required(reference.name, "roleRef.name")
    for text in names.path_segment(reference.name):
        yield FieldError.invalid("roleRef.name", reference.name, text)


def _validate_subject(subject: Subject, path: str, is_namespaced: bool) -> FieldErrors:
    if subject.kind not in _SUBJECTS:
        yield FieldError.not_supported(f"{path}.kind", subject.kind, _SUBJECTS)
        return
    is_account = subject.kind == "ServiceAccount"
    if is_account and subject.name:
        yield from validate_dns_subdomain(subject.name, f"{path}.name")
    group = "" if is_account else GROUP
    if subject.apiGroup != group:
        yield FieldError.not_supported(f"{path}.apiGroup", subject.apiGroup, [group])
    if is_account and not is_namespaced:
        yield from validate_required(subject.namespace, f"{path}.namespace")


def _names(binding: Any, kind: str) -> str:
    subjects = (subject for subject in binding.subjects if subject.kind == kind)
    if kind == "ServiceAccount":
        return ", ".join([f"{subject.namespace}/{subject.name}" for subject in subjects])
    return ", ".join([subject.name for subject in subjects])


def _columns(kind: str) -> tuple[Column, ...]:
    return (
        NAME,
        Column(
            "Role",
            lambda binding, now: f"{binding.roleRef.kind}/{binding.roleRef.name}",
            field="roleRef",
            newer=" This field is immutable.",
        ),
        AGE,
        Column("Users", lambda binding, now: _names(binding, "User"), description=f"Users in the {kind}", wide=True),
        Column("Groups", lambda binding, now: _names(binding, "Group"), description=f"Groups in the {kind}", wide=True),
        Column(
            "ServiceAccounts",
            lambda binding, now: _names(binding, "ServiceAccount"),
            description=f"ServiceAccounts in the {kind}",
            wide=True,
        ),
    )


_ALL_PERMISSIONS = (
    PolicyRule(verbs=["*"], apiGroups=["*"], resources=["*"]),
    PolicyRule(verbs=["*"], nonResourceURLs=["*"]),
)
_AGGREGATES = "must have cluster-admin privileges to use the aggregationRule"


async def check_escalation(ctx: Context, obj: Any, old: Any | None) -> None:
    """Raise Forbidden if the user may not write this role or binding. This runs before validation."""
    security = ctx.services.security
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
    if message := await find_escalation(security, ctx.user, ctx.namespace, obj.rules or ()):
        raise errors.forbidden(plural, meta.name, message, group=GROUP)
    aggregates = any(getattr(role, "aggregationRule", None) is not None for role in (obj, old))
    if aggregates and await find_escalation(security, ctx.user, "", _ALL_PERMISSIONS):
        raise errors.forbidden(plural, meta.name, _AGGREGATES, group=GROUP)


async def _check_binding(security: AuthServices, ctx: Context, obj: Any) -> None:
    plural, ref = f"{obj.kind.lower()}s", obj.roleRef
    if ref.kind in ("Role", "ClusterRole"):
        request = _attributes(ctx, "bind", ref.apiGroup, f"{ref.kind.lower()}s", ref.name)
        if await security.authorizer.is_allowed(request):
            return
    rules = _rules(security.rules, ref, ctx.namespace, plural)
    if message := await find_escalation(security, ctx.user, ctx.namespace, rules):
        raise errors.forbidden(plural, obj.metadata.name, message, group=GROUP)


def _rules(index: RbacIndex, ref: RoleRef, namespace: str, plural: str) -> Sequence[PolicyRule]:
    try:
        return index.rules_of(ref, namespace)
    except MissingRole:
        raise errors.not_found(plural, ref.name, group=GROUP) from None


async def find_escalation(security: AuthServices, user: UserInfo, namespace: str, rules: Sequence[PolicyRule]) -> str:
    """Return why the user may not grant these rules in the namespace; empty if it may. Many rules are compared in a
    thread: a small binding can refer to a role as large as an object."""
    index = security.rules
    grants = [index.grants(user, "")] + ([index.grants(user, namespace)] if namespace else [])
    owned_rules = [rule for grant in grants for rule in grant.list_distinct_rules()]
    resolution_errors = [error for grant in grants for error in grant.errors]
    if _have_few_words(chain(owned_rules, rules)):
        return _escalation_error(user, owned_rules, rules, resolution_errors)
    return await security.worker.run(_escalation_error, user, owned_rules, rules, resolution_errors)


def _have_few_words(rules: Iterable[PolicyRule]) -> bool:
    words = 0
    for rule in rules:
        words += len(rule.verbs or ()) + len(rule.apiGroups) + len(rule.resources) + len(rule.resourceNames)
        words += len(rule.nonResourceURLs)
        if words > limits.INLINE_RULE_WORDS:
            return False
    return True


def _escalation_error(
    user: UserInfo, owned_rules: Sequence[PolicyRule], rules: Sequence[PolicyRule], resolution_errors: Sequence[str]
) -> str:
    who = f"user {gotext.quote(user.name)} (groups={policy_rules.quote_list(user.groups)})"
    try:
        missing = policy_rules.find_uncovered_rules(owned_rules, rules)
    except policy_rules.TooComplex:
        return f"{who} is attempting to grant RBAC permissions that are too complex to be compared with those held"
    if not missing:
        return ""
    descriptions = sorted({policy_rules.format_rule(rule) for rule in missing.rules})
    if not missing.is_complete:
        descriptions.append("...")
    text = "\n".join(descriptions)
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
