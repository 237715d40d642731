"""Node selectors and required node affinity (`k8s.io/component-helpers/scheduling/corev1/nodeaffinity`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sampan.api.selectors.label_grammar import SelectorError
from sampan.api.selectors.labels import Operator, Requirement, Selector
from sampan.api.types.core_v1 import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec

NAME_FIELD = "metadata.name"
"""The only field that `matchFields` may name."""

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}

NodePredicate = Callable[[Node], bool]


def required_terms(spec: PodSpec) -> Sequence[NodeSelectorTerm] | None:
    """Return the terms of the pod's required node affinity, or None if it has none."""
    affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    return None if required is None else (required.nodeSelectorTerms or ())


class RequiredNodeAffinity:
    """The nodes that a pod may run on by its nodeSelector and its required node affinity. Compiled once."""

    def __init__(self, spec: PodSpec) -> None:
        self._labels = spec.nodeSelector.items()
        terms = required_terms(spec)
        self._terms = _compile_terms(terms) if terms is not None else None

    def matches(self, node: Node) -> bool:
        if self._labels and not self._labels <= node.metadata.labels.items():
            return False
        return self._terms is None or any(term(node) for term in self._terms)


def matches_node_selector(selector: NodeSelector, node: Node) -> bool:
    """Whether the node matches at least one term."""
    return any(term(node) for term in _compile_terms(selector.nodeSelectorTerms or ()))


def _compile_terms(terms: Sequence[NodeSelectorTerm]) -> list[NodePredicate]:
    return [predicate for term in terms if (predicate := _compile_term(term)) is not None]


def _compile_term(term: NodeSelectorTerm) -> NodePredicate | None:
    """Return the predicate of a term, or None if it matches no node: it is empty or has an invalid requirement."""
    if not term.matchExpressions and not term.matchFields:
        return None
    try:
        labels = Selector([_label_requirement(expression) for expression in term.matchExpressions])
        fields = [_field_predicate(requirement) for requirement in term.matchFields]
    except (SelectorError, LookupError):
        return None
    return lambda node: labels.matches(node.metadata.labels) and all(field(node) for field in fields)


def _label_requirement(expression: NodeSelectorRequirement) -> Requirement:
    requirement = Requirement(expression.key, _OPERATORS[expression.operator], tuple(expression.values))
    requirement.check()
    return requirement


def _field_predicate(requirement: NodeSelectorRequirement) -> NodePredicate:
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        raise LookupError(requirement.operator)
    value, is_in = requirement.values[0], requirement.operator == "In"
    is_name = requirement.key == NAME_FIELD
    return lambda node: ((node.metadata.name if is_name else "") == value) is is_in
