"""Validation of the rules in a schema (x-kubernetes-validations): syntax, types, and the estimated cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import encode_error_value
from sampan.api.limits import CUSTOM_RULE_ESTIMATE, CUSTOM_SCHEMA_ESTIMATE, REQUEST_BODY_BYTES
from sampan.api.schema.tree import from_openapi
from sampan.api.types.apiextensions_v1 import ValidationRule
from sampan.apiserver.customresources.objects.rules import CheckedRule, RuleScope
from sampan.apiserver.registry.validation import FieldErrors

Source = Mapping[str, Any]
RULES: Final = "x-kubernetes-validations"
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_MAX_COST = 2**64 - 1
_MIN_NAMED_COST = CUSTOM_SCHEMA_ESTIMATE // 100
"""The cost from which on an expression is named as a reason for a total that is too large."""
_MAX_NAMED_RULES = 4
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:\\.|[^'\\])*)'\]")
_ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


class RuleCosts:
    """The estimated costs of all rules of a schema."""

    def __init__(self) -> None:
        self._total = 0
        self._largest: list[tuple[int, str]] = []

    def add(self, path: str, cost: int) -> None:
        self._total = min(self._total + cost, _MAX_COST)
        if cost >= _MIN_NAMED_COST:
            self._largest = sorted([*self._largest, (cost, path)], key=lambda entry: -entry[0])[:_MAX_NAMED_RULES]

    def validate_total(self, field_path: str) -> FieldErrors:
        if self._total <= CUSTOM_SCHEMA_ESTIMATE:
            return
        for _, path in self._largest:
            text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield FieldError.forbidden(path, text)
        name = f"{RULES} estimated rule cost total for entire OpenAPIv3 schema"
        yield FieldError.forbidden(field_path, _cost_message(name, self._total, CUSTOM_SCHEMA_ESTIMATE))


def _cost_message(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown_factor = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown_factor} {_ADVICE}"


def validate_rule_fields(source: Source, path: str) -> FieldErrors:
    """Yield the errors of rules that do not depend on the types of the schema."""
    for index, rule in enumerate(source.get(RULES) or ()):
        yield from _validate_fields(rule, source, f"{path}.{RULES}[{index}]")


def _validate_fields(rule: Source, schema: Source, field_path: str) -> FieldErrors:
    text, message = rule.get("rule", "").strip(), rule.get("message", "")
    if not text:
        yield FieldError.required(f"{field_path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield FieldError.invalid(f"{field_path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield FieldError.invalid(f"{field_path}.message", message, "must not contain line breaks")
    elif "\n" in text and not message.strip():
        yield FieldError.required(f"{field_path}.message", "message must be specified if rule contains line breaks")
    expression = rule.get("messageExpression", "")
    if expression and not expression.strip():
        yield FieldError.required(f"{field_path}.messageExpression", "must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield FieldError.not_supported(f"{field_path}.reason", reason, _REASONS)
    path = rule.get("fieldPath", "")
    if path and not path.strip():
        yield FieldError.invalid(f"{field_path}.fieldPath", path, "must be non-empty if specified")
    elif "\n" in path:
        yield FieldError.invalid(f"{field_path}.fieldPath", path, "must not contain line breaks")
    elif path and not _is_field(path.strip(), schema):
        yield FieldError.invalid(f"{field_path}.fieldPath", path, "must be a valid path")


def _is_field(path: str, schema: Source) -> bool:
    """Whether a path such as `.spec.name` leads to a field of the schema."""
    end = 0
    while end < len(path):
        match = _STEP.match(path, end)
        if match is None:
            return False
        name = match[1] if match[1] is not None else re.sub(r"\\(.)", r"\1", match[2])
        child = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties")
        if not isinstance(child, Mapping):
            return False
        schema = child
        end = match.end()
    return True


def validate_expressions(
    source: Source, path: str, *, is_resource: bool, cardinality: int | None, uncorrelated_at: str, costs: RuleCosts
) -> FieldErrors:
    """Yield the errors of the expressions of a schema's rules.

    `cardinality` is the maximum number of values in a request to which the rules apply, None if the schema does not
    bound it. `uncorrelated_at` is the path of the outermost list around the schema whose items cannot be
    related to those before an update; "" if there is none.
    """
    if not source.get(RULES):
        return
    scope = RuleScope(from_openapi(source), is_resource=is_resource)
    if not scope.is_declared:
        text = "failed to construct type information for x-kubernetes-validations rules: unable to convert structural"
        yield FieldError.internal(f"{path}.{RULES}", f"internal error: {text} schema to CEL declarations")
        return
    count = REQUEST_BODY_BYTES // (scope.min_size + 1) if cardinality is None else cardinality
    for index, rule in enumerate(source[RULES]):
        if rule.get("rule", "").strip():
            yield from _validate_rule(
                CheckedRule(rule, scope), f"{path}.{RULES}[{index}]", count, uncorrelated_at, costs
            )


def _validate_rule(rule: CheckedRule, path: str, count: int, uncorrelated_at: str, costs: RuleCosts) -> FieldErrors:
    if rule.error:
        yield FieldError.invalid(f"{path}.rule", _format_rule(rule.source), rule.error)
    elif rule.program is not None:
        yield from _validate_cost(f"{path}.rule", "estimated rule cost", rule.program.estimated_cost.max * count, costs)
    if rule.message_error:
        yield FieldError.invalid(f"{path}.messageExpression", _format_rule(rule.source), rule.message_error)
    elif rule.message_program is not None:
        cost = rule.message_program.estimated_cost.max
        yield from _validate_cost(f"{path}.messageExpression", "estimated messageExpression cost", cost, costs)
    if rule.uses_old:
        if uncorrelated_at:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated_at}"
            yield FieldError.invalid(f"{path}.rule", rule.source.get("rule", ""), text)
    elif rule.source.get("optionalOldSelf") is not None:
        text = "may not be set if oldSelf is not used in rule"
        yield FieldError.invalid(f"{path}.optionalOldSelf", rule.source["optionalOldSelf"], text)


def _validate_cost(path: str, name: str, cost: int, costs: RuleCosts) -> FieldErrors:
    if cost > CUSTOM_RULE_ESTIMATE:
        yield FieldError.forbidden(path, _cost_message(name, min(cost, _MAX_COST), CUSTOM_RULE_ESTIMATE))
    costs.add(path, min(cost, _MAX_COST))


def _format_rule(rule: Source) -> Any:
    return encode_error_value(ValidationRule(**rule))
