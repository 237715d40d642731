"""Selectors, affinity terms and tolerations evaluated for one object, as an oracle for evaluation in arrays."""

from collections.abc import Mapping
from typing import Any

from sampan.api.semantics.node_selectors import RequiredNodeAffinity, matches_node_selector
from sampan.api.semantics.taints import is_tolerated
from sampan.api.types.core_v1 import Node, NodeSelector, NodeSelectorTerm, Pod, Taint, Toleration


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches the labels; None selects nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.matchLabels.items()):
        return False
    for expression in selector.matchExpressions:
        if expression.operator == "In" and labels.get(expression.key) not in expression.values:
            return False
        if expression.operator == "NotIn" and expression.key in labels and labels[expression.key] in expression.values:
            return False
    return True


def is_empty(selector: Any) -> bool:
    return selector is not None and not selector.matchLabels and not selector.matchExpressions


def term_matches(term: Any, owner: Pod, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a pod affinity term of `owner` matches `pod`."""
    namespace = pod.metadata.namespace
    listed = term.namespaces or ([] if term.namespaceSelector is not None else [owner.metadata.namespace])
    if namespace not in listed and not selects(term.namespaceSelector, namespaces[namespace]):
        return False
    return selects(term.labelSelector, pod.metadata.labels)


def is_taint_tolerated(taint: Taint, tolerations: list[Toleration]) -> bool:
    return is_tolerated(taint, tolerations)


def has_untolerated_taints(node: Node, pod: Pod) -> bool:
    hard = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    return any(not is_taint_tolerated(taint, pod.spec.tolerations) for taint in hard)


def matches_node_term(term: NodeSelectorTerm, node: Node) -> bool:
    return matches_node_selector(NodeSelector(nodeSelectorTerms=[term]), node)


def matches_required_affinity(node: Node, pod: Pod) -> bool:
    """Whether the node matches the pod's nodeSelector and required node affinity."""
    return RequiredNodeAffinity(pod.spec).matches(node)
