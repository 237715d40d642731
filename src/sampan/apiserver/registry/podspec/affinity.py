"""Validation of pod affinity and topology spread constraints, with the label selectors and label keys of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.core_v1 import (
    Affinity,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.apiserver.registry.podspec.node_selection import validate_node_selector, validate_preferred_scheduling_terms
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_optional_one_of,
    validate_positive,
    validate_qualified_name,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_UNSELECTED = "must not be specified when labelSelector is not set"
_KEY_IN_BOTH_ERROR = "exists in both matchLabelKeys and labelSelector"


def validate_term_selectors(term: PodAffinityTerm, path: str, *, allow_bad_values: bool) -> FieldErrors:
    for name, selector in (("labelSelector", term.labelSelector), ("namespaceSelector", term.namespaceSelector)):
        yield from selector_errors(selector, f"{path}.{name}", allow_bad_values=allow_bad_values)


def validate_match_label_keys(
    match: Sequence[str], mismatch: Sequence[str], selector: LabelSelector | None, path: str
) -> FieldErrors:
    """Yield the errors of matchLabelKeys and mismatchLabelKeys, after the keys were merged into the selector."""
    if not match and not mismatch:
        return
    yield from _validate_label_keys(match, selector, f"{path}.matchLabelKeys")
    yield from _validate_label_keys(mismatch, selector, f"{path}.mismatchLabelKeys")
    if selector is not None:
        yield from _validate_keys_not_selected(match, selector, path)
    both = set(match).intersection(mismatch)
    for index, key in enumerate(match):
        if key in both:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield FieldError.invalid(f"{path}.matchLabelKeys[{index}]", key, text)


def _validate_label_keys(keys: Sequence[str], selector: LabelSelector | None, path: str) -> FieldErrors:
    if keys and selector is None:
        yield FieldError.forbidden(path, _UNSELECTED)
        return
    for index, key in enumerate(keys):
        yield from validate_qualified_name(key, f"{path}[{index}]")


def _validate_keys_not_selected(match: Sequence[str], selector: LabelSelector, path: str) -> FieldErrors:
    places = {key: index for index, key in enumerate(match)}
    keys = set(selector.matchLabels)
    for expression in selector.matchExpressions:
        if expression.key in places and expression.key in keys:
            yield FieldError.invalid(f"{path}[{places[expression.key]}]", expression.key, _KEY_IN_BOTH_ERROR)
        keys.add(expression.key)


def validate_legacy_match_label_keys(match: Sequence[str], selector: LabelSelector | None, path: str) -> FieldErrors:
    """Yield the errors of a spread constraint's matchLabelKeys by the older rules: the keys are not in the selector."""
    if not match:
        return
    if selector is None:
        yield FieldError.forbidden(path, _UNSELECTED)
    selected = set() if selector is None else {*selector.matchLabels, *(e.key for e in selector.matchExpressions)}
    for index, key in enumerate(match):
        yield from validate_qualified_name(key, f"{path}[{index}]")
        if key in selected:
            yield FieldError.invalid(f"{path}[{index}]", key, _KEY_IN_BOTH_ERROR)


# -- invalid values that an old object may have ------------------------------------------------------------------------


def has_bad_affinity(spec: PodSpec) -> bool:
    return any(any(validate_term_selectors(term, "", allow_bad_values=False)) for term in affinity_terms(spec))


def affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    """Yield every term of pod affinity and anti-affinity."""
    if spec.affinity is None:
        return
    both: tuple[PodAffinity | PodAntiAffinity | None, ...] = (spec.affinity.podAffinity, spec.affinity.podAntiAffinity)
    for affinity in both:
        if affinity is not None:
            yield from affinity.requiredDuringSchedulingIgnoredDuringExecution
            for weighted in affinity.preferredDuringSchedulingIgnoredDuringExecution:
                yield weighted.podAffinityTerm


def has_bad_node_affinity(spec: PodSpec) -> bool:
    node = spec.affinity.nodeAffinity if spec.affinity is not None else None
    required = node.requiredDuringSchedulingIgnoredDuringExecution if node is not None else None
    terms = required.nodeSelectorTerms if required is not None else None
    return any(
        names.label_value(value)
        for term in terms or ()
        for expression in term.matchExpressions
        for value in expression.values
    )


def has_bad_spread(spec: PodSpec) -> bool:
    return any(selector_errors(constraint.labelSelector, "") for constraint in spec.topologySpreadConstraints)


def has_bad_match_label_keys(spec: PodSpec) -> bool:
    return any(
        any(validate_match_label_keys(constraint.matchLabelKeys, (), constraint.labelSelector, ""))
        for constraint in spec.topologySpreadConstraints
    )


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Affinity, options: PodValidationOptions, path: str) -> FieldErrors:
    if affinity.nodeAffinity is not None:
        yield from _validate_node_affinity(affinity.nodeAffinity, options, f"{path}.nodeAffinity")
    if affinity.podAffinity is not None:
        yield from _validate_pod_affinity_terms(affinity.podAffinity, options, f"{path}.podAffinity")
    if affinity.podAntiAffinity is not None:
        yield from _validate_pod_affinity_terms(affinity.podAntiAffinity, options, f"{path}.podAntiAffinity")


def _validate_node_affinity(affinity: NodeAffinity, options: PodValidationOptions, path: str) -> FieldErrors:
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is not None:
        allow = options.bad_node_affinity_values
        yield from validate_node_selector(required, f"{path}.{_REQUIRED}", allow_bad_values=allow)
    yield from validate_preferred_scheduling_terms(
        affinity.preferredDuringSchedulingIgnoredDuringExecution, f"{path}.{_PREFERRED}"
    )


def _validate_pod_affinity_terms(
    affinity: PodAffinity | PodAntiAffinity, options: PodValidationOptions, path: str
) -> FieldErrors:
    for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
        yield from _validate_pod_affinity_term(term, options, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
        yield from _validate_weighted_terms(weighted, options, f"{path}.{_PREFERRED}[{index}]")


def _validate_weighted_terms(
    weighted: WeightedPodAffinityTerm, options: PodValidationOptions, path: str
) -> FieldErrors:
    if not 1 <= weighted.weight <= 100:
        yield FieldError.invalid(f"{path}.weight", weighted.weight, "must be in the range 1-100")
    yield from _validate_pod_affinity_term(weighted.podAffinityTerm, options, f"{path}.podAffinityTerm")


def _validate_pod_affinity_term(term: PodAffinityTerm, options: PodValidationOptions, path: str) -> FieldErrors:
    yield from validate_term_selectors(term, path, allow_bad_values=options.bad_affinity_selectors)
    for name in term.namespaces:
        for text in names.dns1123_label(name):
            yield FieldError.invalid(f"{path}.namespace", name, text)
    yield from validate_match_label_keys(term.matchLabelKeys, term.mismatchLabelKeys, term.labelSelector, path)
    if not term.topologyKey:
        yield FieldError.required(f"{path}.topologyKey", "can not be empty")
    yield from validate_qualified_name(term.topologyKey, f"{path}.topologyKey")


def join_label_keys(pod: Pod) -> None:
    """Add the pod's values of its matchLabelKeys and mismatchLabelKeys to the label selectors, when it is created."""
    labels = pod.metadata.labels
    for term in affinity_terms(pod.spec):
        if term.labelSelector is not None:
            _join(term.labelSelector, term.matchLabelKeys, "In", labels)
            _join(term.labelSelector, term.mismatchLabelKeys, "NotIn", labels)
    for constraint in pod.spec.topologySpreadConstraints:
        if constraint.labelSelector is not None:
            _join(constraint.labelSelector, constraint.matchLabelKeys, "In", labels)


def _join(selector: LabelSelector, keys: Sequence[str], operator: str, labels: Mapping[str, str]) -> None:
    present_keys: Iterable[str] = (key for key in keys if key in labels)
    selector.matchExpressions.extend(
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]]) for key in present_keys
    )


_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")


def validate_topology_spread_constraints(
    constraints: list[TopologySpreadConstraint], options: PodValidationOptions, path: str
) -> FieldErrors:
    remaining = Counter((constraint.topologyKey, constraint.whenUnsatisfiable) for constraint in constraints)
    for index, constraint in enumerate(constraints):
        yield from _validate_constraint(constraint, f"{path}[{index}]")
        pair = (constraint.topologyKey, constraint.whenUnsatisfiable)
        remaining[pair] -= 1
        if remaining[pair]:
            field = f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}"
            yield FieldError.duplicate(field, f"{{{pair[0]}, {pair[1]}}}")
        yield from _validate_min_domains(constraint, f"{path}[{index}].minDomains")
        yield from validate_optional_one_of(
            constraint.nodeAffinityPolicy, _POLICIES, f"{path}[{index}].nodeAffinityPolicy"
        )
        yield from validate_optional_one_of(constraint.nodeTaintsPolicy, _POLICIES, f"{path}[{index}].nodeTaintsPolicy")
        yield from _validate_label_selector(constraint, options, f"{path}[{index}]")


def _validate_constraint(constraint: TopologySpreadConstraint, path: str) -> FieldErrors:
    yield from validate_positive(constraint.maxSkew, f"{path}.maxSkew")
    if not constraint.topologyKey:
        yield FieldError.required(f"{path}.topologyKey", "can not be empty")
    yield from validate_optional_one_of(constraint.whenUnsatisfiable, _ACTIONS, f"{path}.whenUnsatisfiable")


def _validate_min_domains(constraint: TopologySpreadConstraint, path: str) -> FieldErrors:
    minimum, action = constraint.minDomains, constraint.whenUnsatisfiable
    if minimum is None:
        return
    yield from validate_positive(minimum, path)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield FieldError.invalid(path, minimum, text)


def _validate_label_selector(
    constraint: TopologySpreadConstraint, options: PodValidationOptions, path: str
) -> FieldErrors:
    keys, selector = constraint.matchLabelKeys, constraint.labelSelector
    if keys:
        if options.bad_match_label_keys:
            yield from validate_legacy_match_label_keys(keys, selector, f"{path}.matchLabelKeys")
        else:
            yield from validate_match_label_keys(keys, (), selector, path)
    if not options.bad_spread_selectors:
        yield from selector_errors(selector, f"{path}.labelSelector")
