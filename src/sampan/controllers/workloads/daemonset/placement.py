"""The nodes that a DaemonSet's pods are eligible for: by node name, selector, affinity and taints."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from sampan.api.label_grammar import SelectorError
from sampan.api.labels import Operator, Requirement, Selector
from sampan.api.types.core_v1 import Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration
from sampan.controllers.workloads.daemonset.template import NAME_FIELD, daemon_tolerations

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}

_NodeTest = Callable[[Node], bool]


class Verdict(NamedTuple):
    runs: bool
    """Whether a pod is to be created there."""
    stays: bool
    """Whether an existing pod may stay."""


_NO, _STAYS, _YES = Verdict(False, False), Verdict(False, True), Verdict(True, True)


class Placement:
    """The node requirements of one pod template. The decision about a node is cached until the node changes."""

    def __init__(self, spec: PodSpec) -> None:
        self._node_name = spec.nodeName
        self._tests = _tests(spec)
        self._tolerations = daemon_tolerations(spec)
        self._judged: dict[str, tuple[Node, Verdict]] = {}

    def judge(self, node: Node) -> Verdict:
        name = node.metadata.name
        cached = self._judged.get(name)
        if cached is not None and cached[0] is node:
            return cached[1]
        verdict = self._verdict(node)
        self._judged[name] = (node, verdict)
        return verdict

    def known(self, name: str) -> Verdict | None:
        """Return the last decision about the node, if any."""
        cached = self._judged.get(name)
        return cached[1] if cached is not None else None

    def forget(self, name: str) -> bool:
        """Forget a deleted node; return whether a decision about it was cached."""
        return self._judged.pop(name, None) is not None

    def _verdict(self, node: Node) -> Verdict:
        if self._node_name not in ("", node.metadata.name) or not all(test(node) for test in self._tests):
            return _NO
        effects = {taint.effect for taint in untolerated(node.spec.taints, self._tolerations)}
        if "NoExecute" in effects:
            return _NO
        return _STAYS if "NoSchedule" in effects else _YES


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> list[Taint]:
    return [taint for taint in taints if not any(tolerates(toleration, taint) for toleration in tolerations)]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def _tests(spec: PodSpec) -> list[_NodeTest]:
    tests: list[_NodeTest] = []
    if spec.nodeSelector:
        labels = spec.nodeSelector.items()
        tests.append(lambda node: labels <= node.metadata.labels.items())
    affinity = spec.affinity and spec.affinity.nodeAffinity
    required = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution
    if required:
        terms = [test for term in required.nodeSelectorTerms or () if (test := _term(term)) is not None]
        tests.append(lambda node: any(test(node) for test in terms))
    return tests


def _term(term: NodeSelectorTerm) -> _NodeTest | None:
    """Return the predicate for a term, or None if it can match no node: it is empty or has an invalid requirement."""
    if not term.matchExpressions and not term.matchFields:
        return None
    try:
        labels = Selector([_requirement(expression) for expression in term.matchExpressions])
        fields = [_field(requirement) for requirement in term.matchFields]
    except (SelectorError, LookupError):
        return None
    return lambda node: labels.matches(node.metadata.labels) and all(field(node) for field in fields)


def _requirement(expression: NodeSelectorRequirement) -> Requirement:
    requirement = Requirement(expression.key, _OPERATORS[expression.operator], tuple(expression.values))
    requirement.check()
    return requirement


def _field(requirement: NodeSelectorRequirement) -> _NodeTest:
    if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        raise LookupError(requirement.operator)
    value, is_in = requirement.values[0], requirement.operator == "In"
    is_name = requirement.key == NAME_FIELD
    return lambda node: ((node.metadata.name if is_name else "") == value) is is_in
