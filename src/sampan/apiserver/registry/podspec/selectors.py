"""Validation of label selectors in affinity terms and spread constraints, and of the label keys merged into them."""

from collections.abc import Iterator, Sequence

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.label_selector import selector_faults
from sampan.api.types.core_v1 import PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSpec
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_qualified_name

_UNSELECTED = "must not be specified when labelSelector is not set"
_IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def validate_term_selectors(term: PodAffinityTerm, at: str, *, allow_bad_values: bool) -> FieldErrors:
    for name, selector in (("labelSelector", term.labelSelector), ("namespaceSelector", term.namespaceSelector)):
        yield from selector_faults(selector, f"{at}.{name}", allow_bad_values=allow_bad_values)


def validate_match_label_keys(
    match: Sequence[str], mismatch: Sequence[str], selector: LabelSelector | None, at: str
) -> FieldErrors:
    """Yield the errors of matchLabelKeys and mismatchLabelKeys, after the keys were merged into the selector."""
    if not match and not mismatch:
        return
    yield from _validate_label_keys(match, selector, f"{at}.matchLabelKeys")
    yield from _validate_label_keys(mismatch, selector, f"{at}.mismatchLabelKeys")
    if selector is not None:
        yield from _validate_keys_not_selected(match, selector, at)
    both = set(match).intersection(mismatch)
    for index, key in enumerate(match):
        if key in both:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield FieldError.invalid(f"{at}.matchLabelKeys[{index}]", key, text)


def _validate_label_keys(keys: Sequence[str], selector: LabelSelector | None, at: str) -> FieldErrors:
    if keys and selector is None:
        yield FieldError.forbidden(at, _UNSELECTED)
        return
    for index, key in enumerate(keys):
        yield from validate_qualified_name(key, f"{at}[{index}]")


def _validate_keys_not_selected(match: Sequence[str], selector: LabelSelector, at: str) -> FieldErrors:
    places = {key: index for index, key in enumerate(match)}
    keys = set(selector.matchLabels)
    for expression in selector.matchExpressions:
        if expression.key in places and expression.key in keys:
            yield FieldError.invalid(f"{at}[{places[expression.key]}]", expression.key, _IN_BOTH)
        keys.add(expression.key)


def validate_legacy_match_label_keys(match: Sequence[str], selector: LabelSelector | None, at: str) -> FieldErrors:
    """Yield the errors of a spread constraint's matchLabelKeys by the older rules: the keys are not in the selector."""
    if not match:
        return
    if selector is None:
        yield FieldError.forbidden(at, _UNSELECTED)
    selected = set() if selector is None else {*selector.matchLabels, *(e.key for e in selector.matchExpressions)}
    for index, key in enumerate(match):
        yield from validate_qualified_name(key, f"{at}[{index}]")
        if key in selected:
            yield FieldError.invalid(f"{at}[{index}]", key, _IN_BOTH)


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
    return any(selector_faults(constraint.labelSelector, "") for constraint in spec.topologySpreadConstraints)


def has_bad_match_label_keys(spec: PodSpec) -> bool:
    return any(
        any(validate_match_label_keys(constraint.matchLabelKeys, (), constraint.labelSelector, ""))
        for constraint in spec.topologySpreadConstraints
    )
