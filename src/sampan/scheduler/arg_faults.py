"""Validation of plug-in arguments, with the error messages of kube-scheduler (compare
`pkg/scheduler/apis/config/validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sampan.api import durations, names
from sampan.api.faults import FieldError, Path, joined
from sampan.scheduler.plugin_args import ArgumentError

_HIGHEST_SCORE = 10
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def refuse(faults: Sequence[FieldError]) -> None:
    """Raise ArgumentError if there are any errors."""
    if faults:
        raise ArgumentError(joined([str(error) for error in faults]))


def in_range(path: str, value: int, low: int, high: int | None) -> list[FieldError]:
    if value >= low and (high is None or value <= high):
        return []
    detail = f"not in valid range [{low}, {high}]" if high is not None else f"not in valid range [{low}, inf)"
    return [FieldError.invalid(path, value, detail)]


def preemption(percentage: int, absolute: int) -> list[FieldError]:
    shares, count = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    errors = in_range(shares, percentage, 0, 100) + in_range(count, absolute, 0, None)
    if percentage == absolute == 0:
        for field, other in ((shares, count), (count, shares)):
            errors.append(FieldError.invalid(field, 0, f"cannot be zero at the same time as {other}"))
    return errors


def balanced(resources: Iterable[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    resource_names: set[str] = set()
    for at, resource in enumerate(resources):
        path = Path("resources")[at]
        if resource.name in resource_names:
            errors.append(FieldError.duplicate(path / "name", resource.name))
        resource_names.add(resource.name)
        if resource.weight != 1:
            errors.append(FieldError.invalid(path / "weight", resource.weight, "must be 1"))
    return errors


def fit(args: Any) -> list[FieldError]:
    errors = [
        FieldError.invalid(Path("ignoredResources")[at], name, message)
        for at, name in enumerate(args.ignoredResources)
        for message in names.label_key(name)
    ]
    for at, group in enumerate(args.ignoredResourceGroups):
        path = Path("ignoredResourceGroups")[at]
        if "/" in group:
            errors.append(FieldError.invalid(path, group, "resource group name can't contain '/'"))
        errors += [FieldError.invalid(path, group, message) for message in names.label_key(group)]
    return errors + _strategy(args.scoringStrategy, Path("scoringStrategy"))


def _strategy(given: Any, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if given.type not in _STRATEGIES:
        errors.append(FieldError.not_supported(path / "type", given.type, _STRATEGIES))
    for at, resource in enumerate(given.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            errors.append(FieldError.invalid((path / "resources")[at] / "weight", resource.weight, detail))
    ratio = path / "requestedToCapacityRatio"
    if given.type == _STRATEGIES[2]:
        if given.requestedToCapacityRatio is None:
            errors.append(FieldError.required(ratio, "must be specified when type is RequestedToCapacityRatio"))
        else:
            errors += shape(given.requestedToCapacityRatio.shape, ratio / "shape")
    elif given.requestedToCapacityRatio is not None:
        errors.append(FieldError.forbidden(ratio, "must be nil when type is not RequestedToCapacityRatio"))
    return errors


def shape(points: Sequence[Any], path: Path) -> list[FieldError]:
    if not points:
        return [FieldError.required(path, "at least one point must be specified")]
    errors: list[FieldError] = []
    for at in range(1, len(points)):
        if points[at - 1].utilization >= points[at].utilization:
            detail = "values must be sorted in increasing order"
            errors.append(FieldError.invalid(path[at] / "utilization", points[at].utilization, detail))
            break
    for at, point in enumerate(points):
        errors += in_range(str(path[at] / "utilization"), point.utilization, 0, 100)
        errors += in_range(str(path[at] / "score"), point.score, 0, _HIGHEST_SCORE)
    return errors


def spread(defaulting: str, constraints: Sequence[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    if defaulting not in ("System", "List"):
        errors.append(FieldError.not_supported("defaultingType", defaulting, ("System", "List")))
    elif defaulting == "System" and constraints:
        errors.append(FieldError.invalid("defaultingType", defaulting, "when .defaultConstraints are not empty"))
    keys: set[tuple[str, str]] = set()
    for at, constraint in enumerate(constraints):
        path = Path("defaultConstraints")[at]
        errors += _constraint(constraint, path)
        key = (constraint.topologyKey, constraint.whenUnsatisfiable)
        if key in keys:
            errors.append(FieldError.duplicate(path, f"{{{key[0]}, {key[1]}}}"))
        keys.add(key)
    return errors


def binding(timeout_s: int, points: Sequence[Any] | None) -> list[FieldError]:
    """Validate the arguments of the VolumeBinding plug-in."""
    errors: list[FieldError] = []
    if timeout_s < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(FieldError.invalid("bindTimeoutSeconds", timeout_s, detail))
    if points is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        errors.append(FieldError.invalid("shape", points, detail))
    return errors


def timeouts(filtering: str | None, binding_: str | None) -> list[FieldError]:
    """Validate the arguments of the DynamicResources plug-in."""
    errors: list[FieldError] = []
    for path, duration, least_s, detail in (
        ("filterTimeout", filtering, 0, "must be zero or positive"),
        ("bindingTimeout", binding_, 1, "must be at least 1 second"),
    ):
        try:
            is_short = duration is not None and durations.parse_duration(duration) < least_s * 1e9
        except ValueError as error:
            errors.append(FieldError.invalid(path, duration, str(error)))
        else:
            errors += [FieldError.invalid(path, duration, detail)] * is_short
    return errors


def added_affinity(given: Any) -> list[FieldError]:
    """Validate the `addedAffinity` argument of the NodeAffinity plug-in."""
    path, errors = Path("addedAffinity"), list[FieldError]()
    required = given.requiredDuringSchedulingIgnoredDuringExecution
    if required is not None:
        where = path / "requiredDuringSchedulingIgnoredDuringExecution" / "nodeSelectorTerms"
        for at, term in enumerate(required.nodeSelectorTerms or ()):
            errors += _term(term, where[at])
    for at, preferred in enumerate(given.preferredDuringSchedulingIgnoredDuringExecution):
        errors += _term(preferred.preference, (path / "preferredDuringSchedulingIgnoredDuringExecution")[at])
    return errors


def _term(term: Any, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, requirement in enumerate(term.matchExpressions):
        where = (path / "matchExpressions")[at]
        if requirement.operator not in _OPERATORS:
            errors.append(FieldError.not_supported(where / "operator", requirement.operator, _OPERATORS))
        errors += [
            FieldError.invalid(where / "key", requirement.key, message) for message in names.label_key(requirement.key)
        ]
    for at, requirement in enumerate(term.matchFields):
        where = (path / "matchFields")[at]
        if requirement.operator not in _FIELD_OPERATORS:
            errors.append(FieldError.not_supported(where / "operator", requirement.operator, _FIELD_OPERATORS))
        elif len(requirement.values) != 1:
            errors.append(FieldError.invalid(where / "values", requirement.values, "must have one element"))
    return errors


def _constraint(one: Any, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if one.maxSkew <= 0:
        errors.append(FieldError.invalid(path / "maxSkew", one.maxSkew, "not in valid range (0, inf)"))
    if not one.topologyKey:
        errors.append(FieldError.required(path / "topologyKey", "can not be empty"))
    else:
        messages = names.label_key(one.topologyKey)
        errors += [FieldError.invalid(path / "topologyKey", one.topologyKey, text) for text in messages]
    if not one.whenUnsatisfiable:
        errors.append(FieldError.required(path / "whenUnsatisfiable", "can not be empty"))
    elif one.whenUnsatisfiable not in _ACTIONS:
        errors.append(FieldError.not_supported(path / "whenUnsatisfiable", one.whenUnsatisfiable, _ACTIONS))
    if one.labelSelector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.append(FieldError.forbidden(path / "labelSelector", detail))
    return errors
