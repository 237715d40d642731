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
from sampan.apiserver.registry.podspec.formats import Faults, qualified
from sampan.apiserver.registry.podspec.node_selectors import node_selector_faults, preferred_faults

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.leniency import Leniency

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_faults(affinity: Affinity, lenient: Leniency, at: str) -> Faults:
    if affinity.nodeAffinity is not None:
        yield from _node(affinity.nodeAffinity, lenient, f"{at}.nodeAffinity")
    if affinity.podAffinity is not None:
        yield from _pods(affinity.podAffinity, lenient, f"{at}.podAffinity")
    if affinity.podAntiAffinity is not None:
        yield from _pods(affinity.podAntiAffinity, lenient, f"{at}.podAntiAffinity")


def _node(affinity: NodeAffinity, lenient: Leniency, at: str) -> Faults:
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is not None:
        allow = lenient.bad_node_affinity_values
        yield from node_selector_faults(required, f"{at}.{_REQUIRED}", allow_bad_values=allow)
    yield from preferred_faults(affinity.preferredDuringSchedulingIgnoredDuringExecution, f"{at}.{_PREFERRED}")


def _pods(affinity: PodAffinity | PodAntiAffinity, lenient: Leniency, at: str) -> Faults:
    for index, term in enumerate(affinity.requiredDuringSchedulingIgnoredDuringExecution):
        yield from _term(term, lenient, f"{at}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution):
        yield from _weighted(weighted, lenient, f"{at}.{_PREFERRED}[{index}]")


def _weighted(weighted: WeightedPodAffinityTerm, lenient: Leniency, at: str) -> Faults:
    if not 1 <= weighted.weight <= 100:
        yield FieldError.invalid(f"{at}.weight", weighted.weight, "must be in the range 1-100")
    yield from _term(weighted.podAffinityTerm, lenient, f"{at}.podAffinityTerm")


def _term(term: PodAffinityTerm, lenient: Leniency, at: str) -> Faults:
    yield from selectors.term_selectors(term, at, allow_bad_values=lenient.bad_affinity_selectors)
    for name in term.namespaces:
        for text in names.dns1123_label(name):
            yield FieldError.invalid(f"{at}.namespace", name, text)
    yield from selectors.label_keys(term.matchLabelKeys, term.mismatchLabelKeys, term.labelSelector, at)
    if not term.topologyKey:
        yield FieldError.required(f"{at}.topologyKey", "can not be empty")
    yield from qualified(term.topologyKey, f"{at}.topologyKey")


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
