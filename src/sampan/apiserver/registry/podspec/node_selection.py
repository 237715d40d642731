"""Validation of node selectors and tolerations."""

from collections.abc import Sequence

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Toleration,
)
from sampan.apiserver.registry.validation import FieldErrors, validate_label_value, validate_qualified_name

_BAD_OPERATOR = "not a valid selector operator"


def validate_node_selector(selector: NodeSelector, path: str, *, allow_bad_values: bool = False) -> FieldErrors:
    path = f"{path}.nodeSelectorTerms"
    if not selector.nodeSelectorTerms:
        yield FieldError.required(path, "must have at least one node selector term")
        return
    for index, term in enumerate(selector.nodeSelectorTerms):
        yield from validate_node_selector_term(term, f"{path}[{index}]", allow_bad_values=allow_bad_values)


def validate_node_selector_term(term: NodeSelectorTerm, path: str, *, allow_bad_values: bool) -> FieldErrors:
    for index, requirement in enumerate(term.matchExpressions):
        yield from _validate_requirement(requirement, f"{path}.matchExpressions[{index}]", allow_bad_values)
    for index, requirement in enumerate(term.matchFields):
        yield from _validate_field_requirement(requirement, f"{path}.matchFields[{index}]")


def validate_preferred_scheduling_terms(terms: list[PreferredSchedulingTerm], path: str) -> FieldErrors:
    """Yield errors of preferred terms. Invalid label values are accepted: they match no node."""
    for index, term in enumerate(terms):
        if not 1 <= term.weight <= 100:
            yield FieldError.invalid(f"{path}[{index}].weight", term.weight, "must be in the range 1-100")
        yield from validate_node_selector_term(term.preference, f"{path}[{index}].preference", allow_bad_values=True)


def _validate_requirement(requirement: NodeSelectorRequirement, path: str, allow_bad_values: bool) -> FieldErrors:
    yield from _validate_requirement_operator(requirement, path)
    yield from validate_qualified_name(requirement.key, f"{path}.key")
    if not allow_bad_values:
        for index, value in enumerate(requirement.values):
            yield from validate_label_value(value, f"{path}.values[{index}]")


def _validate_requirement_operator(requirement: NodeSelectorRequirement, path: str) -> FieldErrors:
    count = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            if count == 0:
                yield FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if count > 0:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield FieldError.forbidden(f"{path}.values", text)
        case "Gt" | "Lt":
            if count != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield FieldError.required(f"{path}.values", text)
        case _:
            yield FieldError.invalid(f"{path}.operator", requirement.operator, _BAD_OPERATOR)


def _validate_field_requirement(requirement: NodeSelectorRequirement, path: str) -> FieldErrors:
    if requirement.operator not in ("In", "NotIn"):
        yield FieldError.invalid(f"{path}.operator", requirement.operator, _BAD_OPERATOR)
    elif len(requirement.values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield FieldError.required(f"{path}.values", text)
    if requirement.key != "metadata.name":
        yield FieldError.invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        for text in names.dns1123_subdomain(value):
            yield FieldError.invalid(f"{path}.values[{index}]", value, text)


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEYLESS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_tolerations(tolerations: Sequence[Toleration], path: str) -> FieldErrors:
    for index, toleration in enumerate(tolerations):
        yield from _validate_toleration(toleration, f"{path}[{index}]")


def _validate_toleration(toleration: Toleration, path: str) -> FieldErrors:
    key, effect = toleration.key, toleration.effect
    if key:
        yield from validate_qualified_name(key, f"{path}.key")
    elif toleration.operator != "Exists":
        yield FieldError.invalid(f"{path}.operator", toleration.operator, _KEYLESS)
    if toleration.tolerationSeconds is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield FieldError.invalid(f"{path}.effect", effect, text)
    yield from _validate_toleration_operator(toleration, path)
    if effect and effect not in EFFECTS:
        yield FieldError.not_supported(f"{path}.effect", effect, EFFECTS)


def _validate_toleration_operator(toleration: Toleration, path: str) -> FieldErrors:
    operator, value = toleration.operator, toleration.value
    if operator in ("Equal", ""):
        if messages := names.label_value(value):
            yield FieldError.invalid(f"{path}.operator", value, ";".join(messages))
    elif operator == "Exists":
        if value:
            yield FieldError.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Lt", "Gt"):
        yield FieldError.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    else:
        yield FieldError.not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
