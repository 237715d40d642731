"""Validation of topology spread constraints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.core_v1 import TopologySpreadConstraint
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_optional_one_of, validate_positive
from sampan.apiserver.registry.podspec.selectors import validate_legacy_match_label_keys, validate_match_label_keys

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def validate_topology_spread_constraints(
    constraints: list[TopologySpreadConstraint], options: PodValidationOptions, at: str
) -> FieldErrors:
    remaining = Counter((constraint.topologyKey, constraint.whenUnsatisfiable) for constraint in constraints)
    for index, constraint in enumerate(constraints):
        yield from _validate_constraint(constraint, f"{at}[{index}]")
        pair = (constraint.topologyKey, constraint.whenUnsatisfiable)
        remaining[pair] -= 1
        if remaining[pair]:
            field = f"{at}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield FieldError.duplicate(field, f"{{{pair[0]}, {pair[1]}}}")
        yield from _validate_min_domains(constraint, f"{at}[{index}].minDomains")
        yield from validate_optional_one_of(
            constraint.nodeAffinityPolicy, _POLICIES, f"{at}[{index}].nodeAffinityPolicy"
        )
        yield from validate_optional_one_of(constraint.nodeTaintsPolicy, _POLICIES, f"{at}[{index}].nodeTaintsPolicy")
        yield from _validate_label_selector(constraint, options, f"{at}[{index}]")


def _validate_constraint(constraint: TopologySpreadConstraint, at: str) -> FieldErrors:
    yield from validate_positive(constraint.maxSkew, f"{at}.maxSkew")
    if not constraint.topologyKey:
        yield FieldError.required(f"{at}.topologyKey", "can not be empty")
    yield from validate_optional_one_of(constraint.whenUnsatisfiable, _ACTIONS, f"{at}.whenUnsatisfiable")


def _validate_min_domains(constraint: TopologySpreadConstraint, at: str) -> FieldErrors:
    least, action = constraint.minDomains, constraint.whenUnsatisfiable
    if least is None:
        return
    yield from validate_positive(least, at)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield FieldError.invalid(at, least, text)


def _validate_label_selector(
    constraint: TopologySpreadConstraint, options: PodValidationOptions, at: str
) -> FieldErrors:
    keys, selector = constraint.matchLabelKeys, constraint.labelSelector
    if keys:
        if options.bad_match_label_keys:
            yield from validate_legacy_match_label_keys(keys, selector, f"{at}.matchLabelKeys")
        else:
            yield from validate_match_label_keys(keys, (), selector, at)
    if not options.bad_spread_selectors:
        yield from selector_faults(selector, f"{at}.labelSelector")
