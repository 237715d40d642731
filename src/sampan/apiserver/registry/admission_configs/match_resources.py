"""Validation of which requests a webhook or policy applies to: rules, selectors and match conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.admissionregistration_v1 import (
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    RuleWithOperations,
)
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_optional_one_of,
    validate_qualified_name,
    validate_required,
    validate_unique,
)
from sampan.machinery.cel.admission import compile_condition
from sampan.machinery.cel.errors import CelError, InstantiationError

if TYPE_CHECKING:
    from sampan.machinery.cel import Environment

FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES = (
    ("Fail", "Ignore"),
    ("Equivalent", "Exact"),
    ("IfNeeded", "Never"),
)
_SCOPES = ("*", "Cluster", "Namespaced")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_CHANGES = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations that a mutating policy can match; there is no object to mutate in a DELETE."""
_MAX_MATCH_CONDITIONS = 64

Rule = RuleWithOperations | NamedRuleWithOperations


def default_rules(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if rule.scope is None:
            rule.scope = "*"


def default_resources(match_resources: MatchResources) -> None:
    if match_resources.matchPolicy is None:
        match_resources.matchPolicy = "Equivalent"
    if match_resources.namespaceSelector is None:
        match_resources.namespaceSelector = LabelSelector()
    if match_resources.objectSelector is None:
        match_resources.objectSelector = LabelSelector()
    default_rules(match_resources.resourceRules)
    default_rules(match_resources.excludeResourceRules)


def validate_match_resources(match_resources: MatchResources, path: str) -> FieldErrors:
    yield from validate_optional_one_of(match_resources.matchPolicy, MATCH_POLICIES, f"{path}.matchPolicy")
    yield from selector_errors(match_resources.namespaceSelector, f"{path}.namespaceSelector")
    yield from selector_errors(match_resources.objectSelector, f"{path}.objectSelector")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(getattr(match_resources, name)):
            yield from _validate_named_rule(rule, f"{path}.{name}[{index}]")


def validate_mutable_operations(match_resources: MatchResources, path: str) -> FieldErrors:
    """Yield errors for operations that a mutating policy cannot match."""
    for rule in match_resources.resourceRules:
        for operation in rule.operations:
            yield from validate_optional_one_of(operation, _CHANGES, f"{path}.resourceRules.operations")


def _validate_named_rule(rule: NamedRuleWithOperations, field_path: str) -> FieldErrors:
    resource_names: set[str] = set()
    for index, name in enumerate(rule.resourceNames):
        path = f"{field_path}.resourceNames[{index}]"
        for text in names.path_segment(name):
            yield FieldError.invalid(path, name, text)
        yield from validate_unique(name, resource_names, path)
    yield from validate_rule_with_operations(rule, field_path)


def validate_rule_with_operations(rule: Rule, path: str) -> FieldErrors:
    yield from validate_required(rule.operations, f"{path}.operations")
    yield from _validate_wildcard_alone(rule.operations, "operations", f"{path}.operations")
    for index, operation in enumerate(rule.operations):
        yield from validate_optional_one_of(operation, _OPERATIONS, f"{path}.operations[{index}]")
    yield from validate_required(rule.apiGroups, f"{path}.apiGroups")
    yield from _validate_wildcard_alone(rule.apiGroups, "API groups", f"{path}.apiGroups")
    yield from validate_required(rule.apiVersions, f"{path}.apiVersions")
    yield from _validate_wildcard_alone(rule.apiVersions, "API versions", f"{path}.apiVersions")
    for index, version in enumerate(rule.apiVersions):
        yield from validate_required(version, f"{path}.apiVersions[{index}]")
    yield from _validate_resources(rule.resources, f"{path}.resources")
    yield from validate_optional_one_of(rule.scope, _SCOPES, f"{path}.scope")


def _validate_wildcard_alone(values: list[str], subject: str, path: str) -> FieldErrors:
    if "*" in values and len(values) > 1:
        yield FieldError.invalid(path, values, f"if '*' is present, must not specify other {subject}")


def _validate_resources(resources: list[str], field_path: str) -> FieldErrors:
    """Yield errors for resources that a wildcard in the same list covers."""
    yield from validate_required(resources, field_path)
    all_parts_of: set[str] = set()
    part_of_all: set[str] = set()
    is_last_whole = False
    for index, pattern in enumerate(resources):
        path = f"{field_path}[{index}]"
        resource, slash, part = pattern.partition("/")
        if not slash:
            yield from validate_required(pattern, path)
            is_last_whole = pattern != "*" if pattern else is_last_whole
            continue
        if resource in all_parts_of:
            yield FieldError.invalid(path, pattern, f"if '{resource}/*' is present, must not specify {pattern}")
        if part in part_of_all:
            yield FieldError.invalid(path, pattern, f"if '*/{part}' is present, must not specify {pattern}")
        all_parts_of |= {resource} if part == "*" else set()
        part_of_all |= {part} if resource == "*" else set()
    if "*/*" in resources and len(resources) > 1:
        yield FieldError.invalid(field_path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and is_last_whole:
        text = "if '*' is present, must not specify other resources without subresources"
        yield FieldError.invalid(field_path, resources, text)


def validate_match_conditions(
    conditions: Sequence[MatchCondition], field_path: str, environment: Callable[[], Environment]
) -> FieldErrors:
    """Yield the errors of match conditions; `environment` returns the variables that they may use."""
    if len(conditions) > _MAX_MATCH_CONDITIONS:
        yield FieldError.too_many(field_path, len(conditions), _MAX_MATCH_CONDITIONS)
    condition_names: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"{field_path}[{index}]"
        yield from _validate_condition(condition.expression, f"{path}.expression", environment)
        yield from (
            validate_qualified_name(condition.name, f"{path}.name")
            if condition.name
            else validate_required("", f"{path}.name")
        )
        if condition.name:
            yield from validate_unique(condition.name, condition_names, f"{path}.name")


def _validate_condition(text: str, path: str, environment: Callable[[], Environment]) -> FieldErrors:
    if not text.strip():
        yield FieldError.required(path)
        return
    try:
        compile_condition(environment(), text)
    except CelError as error:
        yield expression_error(path, text, error)


def expression_error(path: str, text: str, error: CelError) -> FieldError:
    """Return the validation error of an expression that cannot be compiled."""
    if isinstance(error, InstantiationError):
        return FieldError.internal(path, str(error))
    return FieldError.invalid(path, text, str(error))
