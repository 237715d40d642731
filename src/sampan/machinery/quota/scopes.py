"""Which objects a quota with scopes applies to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from sampan.api.semantics.pod_qos import BEST_EFFORT, qos_class
from sampan.api.types.core_v1 import (
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
)

InScope = Callable[[ScopedResourceSelectorRequirement, Any], bool]


def is_in_scope(quota: ResourceQuota, obj: Any, is_in: InScope) -> bool:
    """Whether the object is in all scopes of the quota; `is_in` decides for a single scope."""
    return all(is_in(term, obj) for term in terms_of(quota))


def terms_of(quota: ResourceQuota) -> Iterator[ScopedResourceSelectorRequirement]:
    for scope in quota.spec.scopes:
        yield ScopedResourceSelectorRequirement(scopeName=scope, operator="Exists")
    if quota.spec.scopeSelector is not None:
        yield from quota.spec.scopeSelector.matchExpressions


def no_scope(term: ScopedResourceSelectorRequirement, obj: Any) -> bool:
    return False


def pod_scope(term: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    match term.scopeName:
        case "Terminating":
            return has_deadline(pod)
        case "NotTerminating":
            return not has_deadline(pod)
        case "BestEffort":
            return qos_class(pod.spec) == BEST_EFFORT
        case "NotBestEffort":
            return qos_class(pod.spec) != BEST_EFFORT
        case "PriorityClass":
            return _selects(term, {pod.spec.priorityClassName} - {""})
        case "CrossNamespacePodAffinity":
            return any(term.namespaces or term.namespaceSelector is not None for term in _affinity_terms(pod))
    return False


def claim_scope(term: ScopedResourceSelectorRequirement, claim: PersistentVolumeClaim) -> bool:
    return term.scopeName == "VolumeAttributesClass" and _selects(term, attributes_classes(claim))


def has_deadline(pod: Pod) -> bool:
    deadline = pod.spec.activeDeadlineSeconds
    return deadline is not None and deadline >= 0


def attributes_classes(claim: PersistentVolumeClaim) -> set[str]:
    """Return the names of the claim's current, desired and target VolumeAttributesClass."""
    modifying = claim.status.modifyVolumeStatus
    names = {
        claim.spec.volumeAttributesClassName,
        claim.status.currentVolumeAttributesClassName,
        modifying.targetVolumeAttributesClassName if modifying is not None else None,
    }
    return {name for name in names if name}


def _selects(term: ScopedResourceSelectorRequirement, names: Collection[str]) -> bool:
    match term.operator:
        case "Exists":
            return bool(names)
        case "DoesNotExist":
            return not names
        case "In":
            return any(name in term.values for name in names)
        case "NotIn":
            return not names or any(name not in term.values for name in names)
    return False


def _affinity_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for kind in (affinity.podAffinity, affinity.podAntiAffinity):
        if kind is not None:
            yield from kind.requiredDuringSchedulingIgnoredDuringExecution
            yield from (weighted.podAffinityTerm for weighted in kind.preferredDuringSchedulingIgnoredDuringExecution)
