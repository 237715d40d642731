"""Quota usage of objects, as in `pkg/quota/v1`: pure functions, for the admission plugin that charges usage and the
controller that recalculates it.

Scopes decide which objects a quota applies to. A `QuotaEvaluator` says for a resource which quota names it counts
towards, by how much, and on which writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sampan.api.names import is_extended_resource, is_huge_pages, is_native_resource
from sampan.api.semantics.pod_resources import (
    BEST_EFFORT,
    Amounts,
    effective_limits,
    effective_requests,
    qos_class,
    sum_amounts,
)
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import (
    Container,
    PersistentVolumeClaim,
    Pod,
    PodAffinityTerm,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
    Service,
)
from sampan.api.values import times
from sampan.api.values.quantity import Quantity, parse

InScope = Callable[[ScopedResourceSelectorRequirement, Any], bool]

UNIT = Quantity(1)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_OVER = ("Failed", "Succeeded")
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
STORAGE_CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
_REVIEWS = "authorization.k8s.io"
IGNORED = frozenset(
    {
        *(("", "bindings"), ("", "componentstatuses"), ("", "events"), ("events.k8s.io", "events")),
        *(("authentication.k8s.io", "tokenreviews"), ("authentication.k8s.io", "selfsubjectreviews")),
        *((_REVIEWS, f"{kind}subjectaccessreviews") for kind in ("", "self", "local")),
        (_REVIEWS, "selfsubjectrulesreviews"),
    }
)
"""Resources, by group and plural, that no quota counts: those that are not stored, and events."""
_REQUIRED_POD_NAMES = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""The resources that every container must request or limit once a quota constrains them."""
_POD_NAMES = _REQUIRED_POD_NAMES | {
    *("pods", "count/pods", "ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage")
}
_SERVICE_NAMES = frozenset({"services", "count/services", "services.nodeports", "services.loadbalancers"})
_CLAIM_NAMES = frozenset({"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage"})
_CLAIM_SUFFIXES = (f"{STORAGE_CLASS_SUFFIX}persistentvolumeclaims", f"{STORAGE_CLASS_SUFFIX}requests.storage")
_LEGACY_COUNT_NAMES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Resources of the core group that are also counted under their bare names."""


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


def pod_usage(pod: Pod, now: float) -> Amounts:
    """Return the usage of a pod. A pod that is finished, or past its deletion grace period, counts only as an
    object."""
    used = {"count/pods": UNIT}
    if not is_over(pod, now):
        used |= _compute(effective_requests(pod.spec), effective_limits(pod.spec))
    return used


def container_usage(container: Container) -> Amounts:
    return _compute(sum_amounts([container.resources.requests]), sum_amounts([container.resources.limits]))


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    used = {"pods": UNIT}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[f"requests.{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if is_huge_pages(name):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended_resource(name) or name.startswith(DEVICE_CLASS):
            used[f"requests.{name}"] = amount
    return used


def is_over(pod: Pod, now: float) -> bool:
    if pod.status.phase in _OVER:
        return True
    meta = pod.metadata
    if meta.deletionTimestamp is None or meta.deletionGracePeriodSeconds is None:
        return False
    return now > times.parse_time(meta.deletionTimestamp) + meta.deletionGracePeriodSeconds


def service_usage(service: Service, now: float) -> Amounts:
    ports = service.spec.ports
    node_ports, balancers = 0, 0
    if service.spec.type == "NodePort":
        node_ports = len(ports)
    elif service.spec.type == "LoadBalancer":
        is_allocated = service.spec.allocateLoadBalancerNodePorts is not False
        node_ports, balancers = sum(is_allocated or bool(port.nodePort) for port in ports), 1
    return {
        "count/services": UNIT,
        "services": UNIT,
        "services.nodeports": Quantity(node_ports),
        "services.loadbalancers": Quantity(balancers),
    }


def claim_usage(claim: PersistentVolumeClaim, now: float) -> Amounts:
    used = {"count/persistentvolumeclaims": UNIT, "persistentvolumeclaims": UNIT}
    if (size := _size(claim)) is not None:
        used["requests.storage"] = size
    name = claim.metadata.annotations.get(_OLD_CLASS) or claim.spec.storageClassName
    if name:
        by_class = ("persistentvolumeclaims", "requests.storage")
        used |= {f"{name}{STORAGE_CLASS_SUFFIX}{resource}": used[resource] for resource in by_class if resource in used}
    return used


def _size(claim: PersistentVolumeClaim) -> Quantity | None:
    """Return the size of a claim in whole bytes: the request, or the allocated size if that is larger."""
    requested = claim.spec.resources.requests.get("storage")
    if requested is None:
        return None
    allocated = claim.status.allocatedResources.get("storage", "0")
    return max(parse(requested), parse(allocated)).round_up(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEvaluator:
    counts: Callable[[str], bool]
    """Returns whether this resource counts towards a quota name."""
    usage: Callable[[Any, float], Amounts]
    """Returns the usage of an object at a time."""
    is_in: InScope = no_scope
    writes: frozenset[tuple[str, str]] = frozenset({("CREATE", "")})
    """The writes, by operation and subresource, that may change the usage."""
    changes_use: Callable[[Any, Any], bool] = lambda old, new: True
    """Returns whether an update of the object itself may change the usage."""
    missing: Callable[[Any, frozenset[str]], str] = lambda obj, names: ""
    """Returns an error message if the object lacks requests or limits that these quota names require; "" otherwise."""

    def names_in(self, hard: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(self.counts, hard))


def count_name(group: str, plural: str) -> str:
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def evaluator_of(group: str, plural: str) -> QuotaEvaluator | None:
    """Return the evaluator of a resource, or None if the resource is not counted."""
    if (group, plural) in IGNORED:
        return None
    evaluator = _SPECIAL.get(plural) if group == "" else None
    return evaluator or _counter(group, plural)


def _counter(group: str, plural: str) -> QuotaEvaluator:
    """Return an evaluator that only counts objects."""
    names = {count_name(group, plural)}
    if group == "" and plural in _LEGACY_COUNT_NAMES:
        names.add(plural)
    usage = dict.fromkeys(names, UNIT)
    return QuotaEvaluator(counts=names.__contains__, usage=lambda obj, now: usage)


def _counts_for_pods(name: str) -> bool:
    if name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and (
        not is_native_resource(name) or name.startswith(f"requests.{DEVICE_CLASS}")
    )


def _counts_for_claims(name: str) -> bool:
    return name in _CLAIM_NAMES or name.endswith(_CLAIM_SUFFIXES)


def _missing_requests(pod: Pod, names: frozenset[str]) -> str:
    """Return an error if containers do not specify constrained resources, unless the pod has pod-level resources."""
    required = names & _REQUIRED_POD_NAMES
    own = pod.spec.resources
    if not required or (own is not None and (own.requests or own.limits)):
        return ""
    lacking: dict[str, set[str]] = {}
    for container in init_and_main_containers(pod.spec):
        for name in required - container_usage(container).keys():
            lacking.setdefault(name, set()).add(container.name)
    missing = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
    return f"must specify {'; '.join(missing)}" if missing else ""


def _changes_deadline(old: Pod, new: Pod) -> bool:
    return has_deadline(old) != has_deadline(new)


_SPECIAL = {
    "pods": QuotaEvaluator(
        counts=_counts_for_pods,
        usage=pod_usage,
        is_in=pod_scope,
        writes=frozenset({("CREATE", ""), ("UPDATE", ""), ("UPDATE", "resize")}),
        changes_use=_changes_deadline,
        missing=_missing_requests,
    ),
    "services": QuotaEvaluator(
        counts=_SERVICE_NAMES.__contains__,
        usage=service_usage,
        writes=frozenset({("CREATE", ""), ("UPDATE", "")}),
    ),
    "persistentvolumeclaims": QuotaEvaluator(
        counts=_counts_for_claims,
        usage=claim_usage,
        is_in=claim_scope,
        writes=frozenset({("CREATE", ""), ("UPDATE", ""), ("UPDATE", "status")}),
    ),
}
