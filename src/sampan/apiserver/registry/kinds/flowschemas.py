"""FlowSchema: assigns requests to a priority level and to flows within it."""

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.types.flowcontrol_v1 import (
    FlowDistinguisherMethod,
    FlowSchema,
    FlowSchemaCondition,
    FlowSchemaSpec,
    FlowSchemaStatus,
    GroupSubject,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfigurationCondition,
    PriorityLevelConfigurationReference,
    ResourcePolicyRule,
    Subject,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, StatusStrategy, Strategy
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_required,
    validate_unique,
)
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_CONDITIONS_PATH = "status.conditions"


class FlowStatusStrategy(StatusStrategy):
    keeps_metadata = True

    def validate_update(self, ctx: Context, obj: Any, old: Any) -> Iterable[FieldError]:
        return validate_conditions(obj.status.conditions)


def validate_conditions(conditions: Sequence[FlowSchemaCondition | PriorityLevelConfigurationCondition]) -> FieldErrors:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        yield from validate_unique(condition.type, types, f"{_CONDITIONS_PATH}[{index}].type")
        yield from validate_required(condition.type, f"{_CONDITIONS_PATH}[{index}].type")


_PRECEDENCE, _DEFAULT_PRECEDENCE, _LAST = "spec.matchingPrecedence", 1000, 10000
_EXEMPT, _CATCH_ALL = "exempt", "catch-all"
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_SUBJECT_FIELDS = ("user", "serviceAccount", "group")
_BAD_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def _mandatory(name: str, precedence: int, groups: Sequence[str], method: str = "") -> FlowSchemaSpec:
    everything = ["*"]
    resources = ResourcePolicyRule(
        verbs=everything, apiGroups=everything, resources=everything, clusterScope=True, namespaces=everything
    )
    rules = PolicyRulesWithSubjects(
        subjects=[Subject(kind="Group", group=GroupSubject(name=group)) for group in groups],
        resourceRules=[resources],
        nonResourceRules=[NonResourcePolicyRule(verbs=everything, nonResourceURLs=everything)],
    )
    return FlowSchemaSpec(
        priorityLevelConfiguration=PriorityLevelConfigurationReference(name=name),
        matchingPrecedence=precedence,
        distinguisherMethod=FlowDistinguisherMethod(type=method) if method else None,
        rules=[rules],
    )


MANDATORY = {
    _EXEMPT: _mandatory(_EXEMPT, 1, ["system:masters"]),
    _CATCH_ALL: _mandatory(_CATCH_ALL, _LAST, ["system:unauthenticated", "system:authenticated"], "ByUser"),
}
"""The specs of the mandatory flow schemas, which cannot be changed; without them a request could match none."""


def _method(schema: FlowSchema, now: float) -> str:
    method = schema.spec.distinguisherMethod
    return method.type if method is not None else cells.NONE


def _dangling_status(schema: FlowSchema, now: float) -> str:
    return next((condition.status for condition in schema.status.conditions if condition.type == "Dangling"), "?")


_COLUMNS = (
    NAME,
    Column(
        "PriorityLevel",
        lambda flow_schema, now: flow_schema.spec.priorityLevelConfiguration.name,
        field="spec.priorityLevelConfiguration.name",
    ),
    Column("MatchingPrecedence", lambda flow_schema, now: flow_schema.spec.matchingPrecedence, field=_PRECEDENCE),
    Column("DistinguisherMethod", _method, field="spec.distinguisherMethod"),
    AGE,
    Column("MissingPL", _dangling_status, description="references a broken or non-existent PriorityLevelConfiguration"),
)


class FlowSchemaStrategy(Strategy):
    columns = _COLUMNS
    counts_generation = True

    def default(self, obj: FlowSchema) -> None:
        obj.spec.matchingPrecedence = obj.spec.matchingPrecedence or _DEFAULT_PRECEDENCE
        for rule in obj.spec.rules:
            for resources in rule.resourceRules:
                resources.namespaces = resources.namespaces or None

    def prepare_for_create(self, ctx: Context, obj: FlowSchema) -> None:
        obj.status = FlowSchemaStatus()

    def validate_create(self, ctx: Context, obj: FlowSchema) -> Iterable[FieldError]:
        yield from _validate_spec(obj)
        fixed = MANDATORY.get(obj.metadata.name)
        if fixed is not None and obj.spec != fixed:
            text = f"spec of '{obj.metadata.name}' must equal the fixed value"
            yield FieldError.invalid("spec", encode_error_value(obj.spec), text)
        yield from validate_conditions(obj.status.conditions)

    def prepare_for_update(self, ctx: Context, obj: FlowSchema, old: FlowSchema) -> None:
        obj.status = old.status

    def validate_update(self, ctx: Context, obj: FlowSchema, old: FlowSchema) -> Iterable[FieldError]:
        return self.validate_create(ctx, obj)

    def table_order(self, obj: FlowSchema) -> Any:
        return obj.spec.matchingPrecedence, obj.metadata.name


def _validate_spec(schema: FlowSchema) -> FieldErrors:
    spec = schema.spec
    precedence, method = spec.matchingPrecedence, spec.distinguisherMethod
    if precedence <= 0:
        yield FieldError.invalid(_PRECEDENCE, precedence, "must be a positive value")
    if precedence > _LAST:
        yield FieldError.invalid(_PRECEDENCE, precedence, f"must not be greater than {_LAST}")
    if precedence == 1 and schema.metadata.name != _EXEMPT:
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield FieldError.invalid(_PRECEDENCE, precedence, text)
    if method is not None and method.type not in _METHODS:
        yield FieldError.not_supported("spec.distinguisherMethod.type", encode_error_value(method), _METHODS)
    name, path = spec.priorityLevelConfiguration.name, "spec.priorityLevelConfiguration.name"
    if name:
        yield from validate_dns_subdomain(name, path)
    else:
        yield FieldError.required(path, "must reference a priority level")
    for index, rule in enumerate(spec.rules):
        yield from _validate_rule(rule, f"spec.rules[{index}]")


def _validate_rule(rule: PolicyRulesWithSubjects, path: str) -> FieldErrors:
    if not rule.subjects:
        yield FieldError.required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.subjects or ()):
        yield from _validate_subject(subject, f"{path}.subjects[{index}]")
    if not rule.resourceRules and not rule.nonResourceRules:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield FieldError.required(path, text)
    for index, resources in enumerate(rule.resourceRules):
        yield from _validate_resource_rule(resources, f"{path}.resourceRules[{index}]")
    for index, others in enumerate(rule.nonResourceRules):
        yield from _validate_non_resource_rule(others, f"{path}.nonResourceRules[{index}]")


def _validate_subject(subject: Subject, field_path: str) -> FieldErrors:
    if subject.kind not in _SUBJECTS:
        yield FieldError.not_supported(f"{field_path}.kind", subject.kind, sorted(_SUBJECTS))
        return
    own = _SUBJECTS[subject.kind]
    details, path = getattr(subject, own), f"{field_path}.{own}"
    if details is None:
        yield FieldError.required(path, f"{own} is required when subject kind is '{subject.kind}'")
    else:
        yield from validate_required(details.name, f"{path}.name")
    if subject.serviceAccount is not None and own == "serviceAccount":
        account = subject.serviceAccount
        if account.name not in ("", "*"):
            yield from validate_dns_subdomain(account.name, f"{path}.name")
        if account.namespace:
            yield from validate_dns_label(account.namespace, f"{path}.namespace")
        else:
            yield FieldError.required(f"{path}.namespace", "must specify namespace for service account")
    for other in _SUBJECT_FIELDS:
        if other != own and getattr(subject, other) is not None:
            kind = other[0].upper() + other[1:]
            yield FieldError.forbidden(
                f"{field_path}.{other}", f"{other} is forbidden when subject kind is not '{kind}'"
            )


def _validate_verb(verbs: Sequence[str] | None, path: str) -> FieldErrors:
    if not verbs:
        yield FieldError.required(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _validate_wildcard_alone(verbs, "verbs", path)
    elif not set(verbs) <= set(_VERBS):
        yield FieldError.not_supported(path, list(verbs), _VERBS)


def _validate_wildcard_alone(values: Sequence[str] | None, subject: str, path: str) -> FieldErrors:
    if values is not None and "*" in values and len(values) > 1:
        yield FieldError.invalid(path, list(values), f"if '*' is present, must not specify other {subject}")


def _validate_resource_rule(rule: ResourcePolicyRule, field_path: str) -> FieldErrors:
    yield from _validate_verb(rule.verbs, f"{field_path}.verbs")
    if not rule.apiGroups:
        yield FieldError.required(f"{field_path}.apiGroups", "resource rules must supply at least one api group")
    yield from _validate_wildcard_alone(rule.apiGroups, "api groups", f"{field_path}.apiGroups")
    if not rule.resources:
        yield FieldError.required(f"{field_path}.resources", "resource rules must supply at least one resource")
    yield from _validate_wildcard_alone(rule.resources, "resources", f"{field_path}.resources")
    path, namespaces = f"{field_path}.namespaces", rule.namespaces or ()
    if not namespaces and not rule.clusterScope:
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield FieldError.required(path, text)
    yield from _validate_wildcard_alone(namespaces, "namespaces", path)
    for index, namespace in enumerate(namespaces if "*" not in namespaces else ()):
        for error in validate_dns_label(namespace, f"{path}[{index}]"):
            yield FieldError.invalid(error.field, namespace, _BAD_NAMESPACE + error.detail)


def _validate_non_resource_rule(rule: NonResourcePolicyRule, field_path: str) -> FieldErrors:
    yield from _validate_verb(rule.verbs, f"{field_path}.verbs")
    urls_path, paths = f"{field_path}.nonResourceURLs", rule.nonResourceURLs or ()
    if not paths:
        yield FieldError.required(urls_path, "nonResourceURLs must contain at least one value")
    yield from _validate_wildcard_alone(paths, "non-resource URLs", urls_path)
    for index, path in enumerate(paths if "*" not in paths else ()):
        if text := _find_path_error(path):
            yield FieldError.invalid(f"{urls_path}[{index}]", path, text)


def _find_path_error(path: str) -> str:
    if not path:
        return "must not be empty"
    if not path.startswith("/"):
        return "must start with slash"
    if " " in path:
        return "must not contain white-space"
    if "//" in path:
        return "must not contain double slash"
    stars = path.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not path.endswith("/*")) else ""


_strategy = FlowSchemaStrategy()
BEHAVIOR = ResourceBehavior(strategy=_strategy, views={"status": FlowStatusStrategy(_strategy)})
