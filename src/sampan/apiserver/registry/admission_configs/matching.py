"""Validation of which requests a webhook or policy applies to: rules, selectors and match conditions."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.admissionregistration_v1 import (
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    RuleWithOperations,
)
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.podspec.formats import Faults, given, optional_one_of, qualified, repeated

FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES = (
    ("Fail", "Ignore"),
    ("Equivalent", "Exact"),
    ("IfNeeded", "Never"),
)
_SCOPES = ("*", "Cluster", "Namespaced")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_CHANGES = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations that a mutating policy can match; there is no object to mutate in a DELETE."""
_MOST_CONDITIONS = 64

Rule = RuleWithOperations | NamedRuleWithOperations


def default_rules(rules: Sequence[Rule]) -> None:
    for rule in rules:
        if rule.scope is None:
            rule.scope = "*"


def default_resources(found: MatchResources) -> None:
    if found.matchPolicy is None:
        found.matchPolicy = "Equivalent"
    if found.namespaceSelector is None:
        found.namespaceSelector = LabelSelector()
    if found.objectSelector is None:
        found.objectSelector = LabelSelector()
    default_rules(found.resourceRules)
    default_rules(found.excludeResourceRules)


def resources_faults(found: MatchResources, at: str) -> Faults:
    yield from optional_one_of(found.matchPolicy, MATCH_POLICIES, f"{at}.matchPolicy")
    yield from selector_faults(found.namespaceSelector, f"{at}.namespaceSelector")
    yield from selector_faults(found.objectSelector, f"{at}.objectSelector")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(getattr(found, name)):
            yield from _named_rule_faults(rule, f"{at}.{name}[{index}]")


def change_only_faults(found: MatchResources, at: str) -> Faults:
    """Yield errors for operations that a mutating policy cannot match."""
    for rule in found.resourceRules:
        for operation in rule.operations:
            yield from optional_one_of(operation, _CHANGES, f"{at}.resourceRules.operations")


def _named_rule_faults(rule: NamedRuleWithOperations, at: str) -> Faults:
    resource_names: set[str] = set()
    for index, name in enumerate(rule.resourceNames):
        path = f"{at}.resourceNames[{index}]"
        for text in names.path_segment(name):
            yield FieldError.invalid(path, name, text)
        yield from repeated(name, resource_names, path)
    yield from rule_faults(rule, at)


def rule_faults(rule: Rule, at: str) -> Faults:
    yield from given(rule.operations, f"{at}.operations")
    yield from _alone(rule.operations, "operations", f"{at}.operations")
    for index, operation in enumerate(rule.operations):
        yield from optional_one_of(operation, _OPERATIONS, f"{at}.operations[{index}]")
    yield from given(rule.apiGroups, f"{at}.apiGroups")
    yield from _alone(rule.apiGroups, "API groups", f"{at}.apiGroups")
    yield from given(rule.apiVersions, f"{at}.apiVersions")
    yield from _alone(rule.apiVersions, "API versions", f"{at}.apiVersions")
    for index, version in enumerate(rule.apiVersions):
        yield from given(version, f"{at}.apiVersions[{index}]")
    yield from _resource_faults(rule.resources, f"{at}.resources")
    yield from optional_one_of(rule.scope, _SCOPES, f"{at}.scope")


def _alone(values: list[str], what: str, at: str) -> Faults:
    if "*" in values and len(values) > 1:
        yield FieldError.invalid(at, values, f"if '*' is present, must not specify other {what}")


def _resource_faults(resources: list[str], at: str) -> Faults:
    """Yield errors for resources that a wildcard in the same list covers."""
    yield from given(resources, at)
    all_parts_of: set[str] = set()
    part_of_all: set[str] = set()
    is_last_whole = False
    for index, pattern in enumerate(resources):
        path = f"{at}[{index}]"
        resource, slash, part = pattern.partition("/")
        if not slash:
            yield from given(pattern, path)
            is_last_whole = pattern != "*" if pattern else is_last_whole
            continue
        if resource in all_parts_of:
            yield FieldError.invalid(path, pattern, f"if '{resource}/*' is present, must not specify {pattern}")
        if part in part_of_all:
            yield FieldError.invalid(path, pattern, f"if '*/{part}' is present, must not specify {pattern}")
        all_parts_of |= {resource} if part == "*" else set()
        part_of_all |= {part} if resource == "*" else set()
    if "*/*" in resources and len(resources) > 1:
        yield FieldError.invalid(at, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and is_last_whole:
        text = "if '*' is present, must not specify other resources without subresources"
        yield FieldError.invalid(at, resources, text)


def condition_faults(conditions: Sequence[MatchCondition], at: str) -> Faults:
    if len(conditions) > _MOST_CONDITIONS:
        yield FieldError.too_many(at, len(conditions), _MOST_CONDITIONS)
    condition_names: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"{at}[{index}]"
        yield from given(condition.expression.strip(), f"{path}.expression")
        yield from qualified(condition.name, f"{path}.name") if condition.name else given("", f"{path}.name")
        if condition.name:
            yield from repeated(condition.name, condition_names, f"{path}.name")
