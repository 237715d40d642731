"""What selectors, terms and tolerations mean, said once more in the plainest way: the oracles rest on it."""

from collections.abc import Mapping
from typing import Any

from sampan.api.types.core_v1 import Node, Pod, Taint, Toleration


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """A LabelSelector; None selects nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.matchLabels.items()):
        return False
    for one in selector.matchExpressions:
        if one.operator == "In" and labels.get(one.key) not in one.values:
            return False
        if one.operator == "NotIn" and one.key in labels and labels[one.key] in one.values:
            return False
    return True


def is_empty(selector: Any) -> bool:
    return selector is not None and not selector.matchLabels and not selector.matchExpressions


def term_matches(term: Any, owner: Pod, pod: Pod, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a pod affinity term of `owner` is about `pod`."""
    namespace = pod.metadata.namespace
    listed = term.namespaces or ([] if term.namespaceSelector is not None else [owner.metadata.namespace])
    if namespace not in listed and not selects(term.namespaceSelector, namespaces[namespace]):
        return False
    return selects(term.labelSelector, pod.metadata.labels)


def tolerated(taint: Taint, tolerations: list[Toleration]) -> bool:
    for one in tolerations:
        if one.effect and one.effect != taint.effect:
            continue
        if one.key and one.key != taint.key:
            continue
        if one.operator == "Exists" or (one.operator in ("", "Equal") and one.value == taint.value):
            return True
    return False


def have_untolerated_taints(node: Node, pod: Pod) -> bool:
    hard = [taint for taint in node.spec.taints if taint.effect != "PreferNoSchedule"]
    return any(not tolerated(taint, pod.spec.tolerations) for taint in hard)


def node_requirement(one: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(one.values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(one.values[0])
    return False


def node_term(term: Any, node: Node) -> bool:
    if not term.matchExpressions and not term.matchFields:
        return False
    fields = {"metadata.name": node.metadata.name}
    return all(node_requirement(one, node.metadata.labels) for one in term.matchExpressions) and all(
        node_requirement(one, fields) for one in term.matchFields
    )


def let_in(node: Node, pod: Pod) -> bool:
    """By the pod's nodeSelector and required node affinity."""
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.nodeSelector.items()):
        return False
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else None
    return required is None or any(node_term(term, node) for term in required.nodeSelectorTerms or ())
