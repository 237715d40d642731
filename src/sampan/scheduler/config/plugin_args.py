"""Plugin arguments from the configuration: conversion to structures, and validation with the error messages of
kube-scheduler (compare `pkg/scheduler/apis/config/validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError, FieldPath, join_messages
from sampan.api.values import durations

T = TypeVar("T", bound=msgspec.Struct)


class ArgumentError(ValueError):
    """The arguments of a plugin are invalid."""


def read_args(args: Mapping[str, Any], type: type[T]) -> T:
    """Convert the arguments to `type`, ignoring `kind` and `apiVersion`; raise ArgumentError if they are invalid."""
    fields = {key: value for key, value in args.items() if key not in ("kind", "apiVersion")}
    try:
        return msgspec.convert(fields, type)
    except msgspec.ValidationError as error:
        raise ArgumentError(str(error)) from error


_HIGHEST_SCORE = 10
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def raise_if_invalid(errors: Sequence[FieldError]) -> None:
    """Raise ArgumentError if there are any errors."""
    if errors:
        raise ArgumentError(join_messages([str(error) for error in errors]))


def check_range(path: str, value: int, low: int, high: int | None) -> list[FieldError]:
    if value >= low and (high is None or value <= high):
        return []
    detail = f"not in valid range [{low}, {high}]" if high is not None else f"not in valid range [{low}, inf)"
    return [FieldError.invalid(path, value, detail)]


def check_preemption(percentage: int, absolute: int) -> list[FieldError]:
    shares, count = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    errors = check_range(shares, percentage, 0, 100) + check_range(count, absolute, 0, None)
    if percentage == absolute == 0:
        for field, other in ((shares, count), (count, shares)):
            errors.append(FieldError.invalid(field, 0, f"cannot be zero at the same time as {other}"))
    return errors


def check_balanced_allocation(resources: Iterable[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    resource_names: set[str] = set()
    for index, resource in enumerate(resources):
        path = FieldPath("resources")[index]
        if resource.name in resource_names:
            errors.append(FieldError.duplicate(path / "name", resource.name))
        resource_names.add(resource.name)
        if resource.weight != 1:
            errors.append(FieldError.invalid(path / "weight", resource.weight, "must be 1"))
    return errors


def check_fit(args: Any) -> list[FieldError]:
    errors = [
        FieldError.invalid(FieldPath("ignoredResources")[index], name, message)
        for index, name in enumerate(args.ignoredResources)
        for message in names.label_key(name)
    ]
    for index, group in enumerate(args.ignoredResourceGroups):
        path = FieldPath("ignoredResourceGroups")[index]
        if "/" in group:
            errors.append(FieldError.invalid(path, group, "resource group name can't contain '/'"))
        errors += [FieldError.invalid(path, group, message) for message in names.label_key(group)]
    return errors + _check_strategy(args.scoringStrategy, FieldPath("scoringStrategy"))


def _check_strategy(strategy: Any, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if strategy.type not in _STRATEGIES:
        errors.append(FieldError.not_supported(path / "type", strategy.type, _STRATEGIES))
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            errors.append(FieldError.invalid((path / "resources")[index] / "weight", resource.weight, detail))
    ratio = path / "requestedToCapacityRatio"
    if strategy.type == _STRATEGIES[2]:
        if strategy.requestedToCapacityRatio is None:
            errors.append(FieldError.required(ratio, "must be specified when type is RequestedToCapacityRatio"))
        else:
            errors += check_shape(strategy.requestedToCapacityRatio.shape, ratio / "shape")
    elif strategy.requestedToCapacityRatio is not None:
        errors.append(FieldError.forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
    return errors


def check_shape(points: Sequence[Any], path: FieldPath) -> list[FieldError]:
    if not points:
        return [FieldError.required(path, "at least one point must be specified")]
    errors: list[FieldError] = []
    for index in range(1, len(points)):
        if points[index - 1].utilization >= points[index].utilization:
            detail = "values must be sorted in increasing order"
            errors.append(FieldError.invalid(path[index] / "utilization", points[index].utilization, detail))
            break
    for index, point in enumerate(points):
        errors += check_range(str(path[index] / "utilization"), point.utilization, 0, 100)
        errors += check_range(str(path[index] / "score"), point.score, 0, _HIGHEST_SCORE)
    return errors


def check_topology_spread(defaulting: str, constraints: Sequence[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if defaulting not in ("System", "List"):
        errors.append(FieldError.not_supported("defaultingType", defaulting, ("System", "List")))
    elif defaulting == "System" and constraints:
        errors.append(FieldError.invalid("defaultingType", defaulting, "when .defaultConstraints are not empty"))
    keys: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        path = FieldPath("defaultConstraints")[index]
        errors += _check_constraint(constraint, path)
        key = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if key in keys:
            errors.append(FieldError.duplicate(path, f"{{{key[0]}, {key[1]}}}"))
        keys.add(key)
    return errors


def check_volume_binding(timeout_s: int, points: Sequence[Any] | None, *, has_scores: bool) -> list[FieldError]:
    """Validate the arguments of the VolumeBinding plugin, which has scores if StorageCapacityScoring is enabled."""
    errors: list[FieldError] = []
    if timeout_s < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(FieldError.invalid("bindTimeoutSeconds", timeout_s, detail))
    if has_scores:
        errors += check_shape(points or (), FieldPath("shape"))
    elif points is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        errors.append(FieldError.invalid("shape", points, detail))
    return errors


def check_device_timeouts(filtering: str | None, binding: str | None) -> list[FieldError]:
    """Validate the arguments of the DynamicResources plugin."""
    errors: list[FieldError] = []
    for path, duration, min_s, detail in (
        ("filterTimeout", filtering, 0, "must be zero or positive"),
        ("bindingTimeout", binding, 1, "must be at least 1 second"),
    ):
        try:
            is_short = duration is not None and durations.parse_duration(duration) < min_s * 1e9
        except ValueError as error:
            errors.append(FieldError.invalid(path, duration, str(error)))
        else:
            errors += [FieldError.invalid(path, duration, detail)] * is_short
    return errors


def check_added_affinity(strategy: Any) -> list[FieldError]:
    """Validate the `addedAffinity` argument of the NodeAffinity plugin."""
    path, errors = FieldPath("addedAffinity"), list[FieldError]()
    required = strategy.requiredDuringSchedulingIgnoredDuringExecution
    if required is not None:
        terms_path = path / "requiredDuringSchedulingIgnoredDuringExecution" / "nodeSelectorTerms"
        for index, term in enumerate(required.nodeSelectorTerms or ()):
            errors += _check_term(term, terms_path[index])
    for index, preferred in enumerate(strategy.preferredDuringSchedulingIgnoredDuringExecution):
        errors += _check_term(preferred.preference, (path / "preferredDuringSchedulingIgnoredDuringExecution")[index])
    return errors


def _check_term(term: Any, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.matchExpressions):
        expression_path = (path / "matchExpressions")[index]
        if requirement.operator not in _OPERATORS:
            errors.append(FieldError.not_supported(expression_path / "operator", requirement.operator, _OPERATORS))
        errors += [
            FieldError.invalid(expression_path / "key", requirement.key, message)
            for message in names.label_key(requirement.key)
        ]
    for index, requirement in enumerate(term.matchFields):
        expression_path = (path / "matchFields")[index]
        if requirement.operator not in _FIELD_OPERATORS:
            errors.append(
                FieldError.not_supported(expression_path / "operator", requirement.operator, _FIELD_OPERATORS)
            )
        elif len(requirement.values) != 1:
            errors.append(FieldError.invalid(expression_path / "values", requirement.values, "must have one element"))
    return errors


def _check_constraint(constraint: Any, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    if constraint.maxSkew <= 0:
        errors.append(FieldError.invalid(path / "maxSkew", constraint.maxSkew, "not in valid range (0, inf)"))
    if not constraint.topologyKey:
        errors.append(FieldError.required(path / "topologyKey", "can not be empty"))
    else:
        messages = names.label_key(constraint.topologyKey)
        errors += [FieldError.invalid(path / "topologyKey", constraint.topologyKey, text) for text in messages]
    if not constraint.whenUnsatisfiable:
        errors.append(FieldError.required(path / "whenUnsatisfiable", "can not be empty"))
    elif constraint.whenUnsatisfiable not in _ACTIONS:
        errors.append(FieldError.not_supported(path / "whenUnsatisfiable", constraint.whenUnsatisfiable, _ACTIONS))
    if constraint.labelSelector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(FieldError.forbidden(path / "labelSelector", detail))
    return errors
