"""The pods of a DaemonSet: the effective template, and the node that a pod is for."""

from msgspec.structs import replace

from sampan.api.semantics.node_selectors import NAME_FIELD
from sampan.api.types.apps_v1 import DaemonSet
from sampan.api.types.core_v1 import (
    Affinity,
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

GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
GENERATION_LABEL = "pod-template-generation"
HASH_LABEL = "controller-revision-hash"
"""The node field that a pod's affinity selects."""

_NODE = "node.kubernetes.io/"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_TOLERATED_ON_HOST_NETWORK = ("network-unavailable", "NoSchedule")


def daemon_tolerations(spec: PodSpec) -> list[Toleration]:
    """Return the template's tolerations and those that all daemon pods have."""
    tolerations = list(spec.tolerations)
    taints = (*_TOLERATED, _TOLERATED_ON_HOST_NETWORK) if spec.hostNetwork else _TOLERATED
    for name, effect in taints:
        _put(tolerations, Toleration(key=f"{_NODE}{name}", operator="Exists", effect=effect))
    return tolerations


def _put(tolerations: list[Toleration], wanted: Toleration) -> None:
    for at, toleration in enumerate(tolerations):
        if (toleration.key, toleration.effect, toleration.operator, toleration.value) == (
            wanted.key,
            wanted.effect,
            wanted.operator,
            wanted.value,
        ):
            tolerations[at] = wanted
            return
    tolerations.append(wanted)


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


def pinned(spec: PodSpec, node: str) -> PodSpec:
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
