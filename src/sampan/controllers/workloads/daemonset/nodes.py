"""The nodes that run pods of a DaemonSet: eligibility by affinity and taints, and the pod for a node."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from sampan.api.semantics.node_selectors import NAME_FIELD, RequiredNodeAffinity
from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE, find_untolerated_taints
from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodTemplateSpec,
    Toleration,
)
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import Lister
from sampan.machinery.object_key import NamespacedName, key_of

GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
HASH_LABEL = "controller-revision-hash"
"""The label of pods and ControllerRevisions with the hash of the pod template."""

_NODE = "node.kubernetes.io/"
_TOLERATED_TAINTS = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TAINT = ("network-unavailable", "NoSchedule")


def daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    """Return the template's tolerations and those that all daemon pods have."""
    tolerations = list(spec.tolerations)
    taints = (*_TOLERATED_TAINTS, _HOST_NETWORK_TAINT) if spec.hostNetwork else _TOLERATED_TAINTS
    for name, effect in taints:
        _put(tolerations, Toleration(key=f"{_NODE}{name}", operator="Exists", effect=effect))
    return tolerations


def _put(tolerations: list[Toleration], new: Toleration) -> None:
    for index, toleration in enumerate(tolerations):
        if (toleration.key, toleration.effect, toleration.operator, toleration.value) == (
            new.key,
            new.effect,
            new.operator,
            new.value,
        ):
            tolerations[index] = new
            return
    tolerations.append(new)


def template_generation(daemon_set: DaemonSet) -> int | None:
    """Return the template generation from the annotation, or None if it is absent or invalid."""
    try:
        return int(daemon_set.metadata.annotations[GENERATION_ANNOTATION])
    except (KeyError, ValueError):
        return None


def daemon_template(daemon_set: DaemonSet, hash: str) -> PodTemplateSpec:
    """Return the template of the pods, which is not bound to a node yet."""
    template = copy_of(daemon_set.spec.template)
    template.spec.tolerations = daemon_tolerations(template.spec)
    generation = template_generation(daemon_set)
    if generation is not None:
        template.metadata.labels[GENERATION_LABEL] = str(generation)
    if hash:
        template.metadata.labels[HASH_LABEL] = hash
    return template


def pin_to_node(spec: PodSpec, node: str) -> PodSpec:
    """Return the spec with an affinity that allows only this node; everything else is shared."""
    affinity = spec.affinity or Affinity()
    field = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[node])
    only = replace(
        affinity.nodeAffinity or NodeAffinity(),
        requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(
            nodeSelectorTerms=[NodeSelectorTerm(matchFields=[field])]
        ),
    )
    return replace(spec, affinity=replace(affinity, nodeAffinity=only))


def target_node(pod: Pod) -> str:
    """Return the node that the pod is bound to or pinned to, or an empty string."""
    if pod.spec.nodeName:
        return pod.spec.nodeName
    affinity = pod.spec.affinity and pod.spec.affinity.nodeAffinity
    required = affinity and affinity.requiredDuringSchedulingIgnoredDuringExecution
    for term in (required and required.nodeSelectorTerms) or ():
        for field in term.matchFields:
            if field.key == NAME_FIELD and field.operator == "In":
                return field.values[0] if len(field.values) == 1 else ""
    return ""


def is_updated(pod: Pod, hash: str, generation: int | None) -> bool:
    """Whether the pod is of the current template, by revision hash or by the deprecated template generation."""
    labels = pod.metadata.labels
    if hash and labels.get(HASH_LABEL) == hash:
        return True
    return generation is not None and labels.get(GENERATION_LABEL) == str(generation)


class NodeEligibility(NamedTuple):
    runs: bool
    """Whether a pod is to be created there."""
    stays: bool
    """Whether an existing pod may stay."""


_NO, _STAYS, _YES = NodeEligibility(False, False), NodeEligibility(False, True), NodeEligibility(True, True)


class DaemonPlacement:
    """The node requirements of one pod template. The decision about a node is cached until the node changes."""

    def __init__(self, spec: PodSpec) -> None:
        self._node_name = spec.nodeName
        self._affinity = RequiredNodeAffinity(spec)
        self._tolerations = daemon_tolerations(spec)
        self._cached_eligibility: dict[str, tuple[Node, NodeEligibility]] = {}

    def eligibility_of(self, node: Node) -> NodeEligibility:
        name = node.metadata.name
        cached = self._cached_eligibility.get(name)
        if cached is not None and cached[0] is node:
            return cached[1]
        eligibility = self._evaluate(node)
        self._cached_eligibility[name] = (node, eligibility)
        return eligibility

    def get_cached(self, name: str) -> NodeEligibility | None:
        """Return the last decision about the node, if any."""
        cached = self._cached_eligibility.get(name)
        return cached[1] if cached is not None else None

    def forget(self, name: str) -> bool:
        """Forget a deleted node; return whether a decision about it was cached."""
        return self._cached_eligibility.pop(name, None) is not None

    def _evaluate(self, node: Node) -> NodeEligibility:
        if self._node_name not in ("", node.metadata.name) or not self._affinity.matches(node):
            return _NO
        effects = {
            taint.effect
            for taint in find_untolerated_taints(node.spec.taints, self._tolerations, (NO_SCHEDULE, NO_EXECUTE))
        }
        if NO_EXECUTE in effects:
            return _NO
        return _STAYS if NO_SCHEDULE in effects else _YES


class DaemonPlacements:
    """The placement of each DaemonSet, built once per generation."""

    def __init__(self, *, sets: Lister[DaemonSet], nodes: Lister[Node]) -> None:
        self._sets, self._nodes = sets, nodes
        self._cache: dict[NamespacedName, tuple[str, int, DaemonPlacement]] = {}

    def get_placement(self, daemon_set: DaemonSet) -> DaemonPlacement:
        meta, key = daemon_set.metadata, key_of(daemon_set)
        cached = self._cache.get(key)
        if cached is not None and cached[:2] == (meta.uid, meta.generation):
            return cached[2]
        placement = DaemonPlacement(daemon_set.spec.template.spec)
        self._cache[key] = (meta.uid, meta.generation, placement)
        return placement

    def forget(self, key: NamespacedName) -> None:
        self._cache.pop(key, None)

    def keys(self, node: Node) -> Iterable[NamespacedName]:
        """Return the DaemonSets whose decision about the node has changed.

        The watch also passes the previous state of a changed node, which is ignored.
        """
        present = self._nodes.get(node.metadata.name)
        if present is None:
            return [
                key_of(daemon_set)
                for daemon_set in self._sets
                if self.get_placement(daemon_set).forget(node.metadata.name)
            ]
        if present is not node:
            return ()
        return [key_of(daemon_set) for daemon_set in self._sets if self._is_news(daemon_set, node)]

    def _is_news(self, daemon_set: DaemonSet, node: Node) -> bool:
        placement = self.get_placement(daemon_set)
        before = placement.get_cached(node.metadata.name)
        now = placement.eligibility_of(node)
        return now.stays if before is None else now != before
