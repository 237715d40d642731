"""The strategies and validation that roles and role bindings share."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import shown
from sampan.api.types.rbac_v1 import ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject
from sampan.apiserver.authz.rbac import escalation
from sampan.apiserver.registry.strategy import Column, Context, FinishFunc, Strategy
from sampan.apiserver.registry.validation import FieldErrors, validate_dns_subdomain, validate_required
from sampan.apiserver.tables.columns import AGE, NAME

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class RbacStrategy(Strategy):
    """Common behavior of RBAC kinds: any path segment is a name, and privilege escalation is checked before a write."""

    allow_create_on_update = True
    validates_whole = True

    def validate_name(self, name: str, is_prefix: bool) -> list[str]:
        return names.path_segment(name)

    async def begin_write(self, ctx: Context, obj: Any, old: Any | None) -> FinishFunc | None:
        await escalation.check(ctx, obj, old)
        return None


def validate_policy_rules(rules: Sequence[PolicyRule] | None, *, is_namespaced: bool) -> FieldErrors:
    for index, rule in enumerate(rules or ()):
        yield from _validate_policy_rule(rule, f"rules[{index}]", is_namespaced)


def _validate_policy_rule(rule: PolicyRule, at: str, is_namespaced: bool) -> FieldErrors:
    if not rule.verbs:
        yield FieldError.required(f"{at}.verbs", "verbs must contain at least one value")
    if not rule.nonResourceURLs:
        if not rule.apiGroups:
            yield FieldError.required(f"{at}.apiGroups", "resource rules must supply at least one api group")
        if not rule.resources:
            yield FieldError.required(f"{at}.resources", "resource rules must supply at least one resource")
        return
    at = f"{at}.nonResourceURLs"
    if is_namespaced:
        yield FieldError.invalid(at, rule.nonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
    if rule.apiGroups or rule.resources or rule.resourceNames:
        text = "rules cannot apply to both regular resources and non-resource URLs"
        yield FieldError.invalid(at, rule.nonResourceURLs, text)


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
        yield from _validate_role_ref(obj.roleRef, self._roles)
        for index, subject in enumerate(obj.subjects):
            yield from _validate_subject(subject, f"subjects[{index}]", self._is_namespaced)

    def validate_update(self, ctx: Context, obj: Binding, old: Binding) -> Iterable[FieldError]:
        yield from self.validate_create(ctx, obj)
        if obj.roleRef != old.roleRef:
            yield FieldError.invalid("roleRef", shown(obj.roleRef), "cannot change roleRef")


def _validate_role_ref(reference: RoleRef, roles: Sequence[str]) -> FieldErrors:
    if reference.apiGroup != GROUP:
        yield FieldError.not_supported("roleRef.apiGroup", reference.apiGroup, [GROUP])
    if reference.kind not in roles:
        yield FieldError.not_supported("roleRef.kind", reference.kind, roles)
    yield from validate_required(reference.name, "roleRef.name")
    for text in names.path_segment(reference.name):
        yield FieldError.invalid("roleRef.name", reference.name, text)


def _validate_subject(subject: Subject, at: str, is_namespaced: bool) -> FieldErrors:
    yield from validate_required(subject.name, f"{at}.name")
    if subject.kind not in _SUBJECTS:
        yield FieldError.not_supported(f"{at}.kind", subject.kind, _SUBJECTS)
        return
    is_account = subject.kind == "ServiceAccount"
    if is_account and subject.name:
        yield from validate_dns_subdomain(subject.name, f"{at}.name")
    group = "" if is_account else GROUP
    if subject.apiGroup != group:
        yield FieldError.not_supported(f"{at}.apiGroup", subject.apiGroup, [group])
    if is_account and not is_namespaced:
        yield from validate_required(subject.namespace, f"{at}.namespace")


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
