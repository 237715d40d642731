"""Validation of node and pod affinity, and merging of matchLabelKeys into the label selectors of a new pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import (
    Affinity,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    WeightedPodAffinityTerm,
)
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.apiserver.registry.podspec import selectors
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_qualified_name
from sampan.apiserver.registry.podspec.node_selectors import validate_node_selector, validate_preferred_scheduling_terms

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Affinity, options: PodValidationOptions, at: str) -> FieldErrors:
    if affinity.nodeAffinity is not None:
        yield from _validate_node_affinity(affinity.nodeAffinity, options, f"{at}.nodeAffinity")
    if affinity.podAffinity is not None:
        yield from _validate_pod_affinity_terms(affinity.podAffinity, options, f"{at}.podAffinity")
    if affinity.podAntiAffinity is not None:
        yield from _validate_pod_affinity_terms(affinity.podAntiAffinity, options, f"{at}.podAntiAffinity")


def _validate_node_affinity(affinity: NodeAffinity, options: PodValidationOptions, at: str) -> FieldErrors:
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is not None:
        allow = options.bad_node_affinity_values
        yield from validate_node_selector(required, f"{at}.{_REQUIRED}", allow_bad_values=allow)
    yield from validate_preferred_scheduling_terms(
        affinity.preferredDuringSchedulingIgnoredDuringExecution, f"{at}.{_PREFERRED}"
    )


def _validate_pod_affinity_terms(
    affinity: PodAffinity | PodAntiAffinity, options: PodValidationOptions, at: str
) -> FieldErrors:
    for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
        yield from _validate_pod_affinity_term(term, options, f"{at}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
        yield from _validate_weighted_terms(weighted, options, f"{at}.{_PREFERRED}[{index}]")


def _validate_weighted_terms(weighted: WeightedPodAffinityTerm, options: PodValidationOptions, at: str) -> FieldErrors:
    if not 1 <= weighted.weight <= 100:
        yield FieldError.invalid(f"{at}.weight", weighted.weight, "must be in the range 1-100")
    yield from _validate_pod_affinity_term(weighted.podAffinityTerm, options, f"{at}.podAffinityTerm")


def _validate_pod_affinity_term(term: PodAffinityTerm, options: PodValidationOptions, at: str) -> FieldErrors:
    yield from selectors.validate_term_selectors(term, at, allow_bad_values=options.bad_affinity_selectors)
    for name in term.namespaces:
        for text in names.dns1123_label(name):
            yield FieldError.invalid(f"{at}.namespace", name, text)
    yield from selectors.validate_match_label_keys(term.matchLabelKeys, term.mismatchLabelKeys, term.labelSelector, at)
    if not term.topologyKey:
        yield FieldError.required(f"{at}.topologyKey", "can not be empty")
    yield from validate_qualified_name(term.topologyKey, f"{at}.topologyKey")


def join_label_keys(pod: Pod) -> None:
    """Add the pod's values of its matchLabelKeys and mismatchLabelKeys to the label selectors, when it is created."""
    labels = pod.metadata.labels
    for term in selectors.affinity_terms(pod.spec):
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
