"""Validation of topology spread constraints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.core_v1 import TopologySpreadConstraint
from sampan.apiserver.registry.podspec.formats import Faults, optional_one_of, positive
from sampan.apiserver.registry.podspec.selectors import label_keys, old_label_keys

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency

_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def spread_faults(constraints: list[TopologySpreadConstraint], lenient: Leniency, at: str) -> Faults:
    remaining = Counter((constraint.topologyKey, constraint.whenUnsatisfiable) for constraint in constraints)
    for index, constraint in enumerate(constraints):
        yield from _constraint(constraint, f"{at}[{index}]")
        pair = (constraint.topologyKey, constraint.whenUnsatisfiable)
        remaining[pair] -= 1
        if remaining[pair]:
            field = f"{at}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield FieldError.duplicate(field, f"{{{pair[0]}, {pair[1]}}}")
        yield from _domains(constraint, f"{at}[{index}].minDomains")
        yield from optional_one_of(constraint.nodeAffinityPolicy, _POLICIES, f"{at}[{index}].nodeAffinityPolicy")
        yield from optional_one_of(constraint.nodeTaintsPolicy, _POLICIES, f"{at}[{index}].nodeTaintsPolicy")
        yield from _selector(constraint, lenient, f"{at}[{index}]")


def _constraint(constraint: TopologySpreadConstraint, at: str) -> Faults:
    yield from positive(constraint.maxSkew, f"{at}.maxSkew")
    if not constraint.topologyKey:
        yield FieldError.required(f"{at}.topologyKey", "can not be empty")
    yield from optional_one_of(constraint.whenUnsatisfiable, _ACTIONS, f"{at}.whenUnsatisfiable")


def _domains(constraint: TopologySpreadConstraint, at: str) -> Faults:
    least, action = constraint.minDomains, constraint.whenUnsatisfiable
    if least is None:
        return
    yield from positive(least, at)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield FieldError.invalid(at, least, text)


def _selector(constraint: TopologySpreadConstraint, lenient: Leniency, at: str) -> Faults:
    keys, selector = constraint.matchLabelKeys, constraint.labelSelector
    if keys:
        if lenient.bad_match_label_keys:
            yield from old_label_keys(keys, selector, f"{at}.matchLabelKeys")
        else:
            yield from label_keys(keys, (), selector, at)
    if not lenient.bad_spread_selectors:
        yield from selector_faults(selector, f"{at}.labelSelector")
