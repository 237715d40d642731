"""The PersistentVolumeClaims of a pod, and the volumes that each node can provide for them.

Errors of claims make a pod unschedulable on every node. For a claim with delayed binding, each node gets the smallest
matching volume, or a new one to provision; which nodes can access a volume, have one provisioned, or have the capacity
for it are flags over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sampan.api.selectors import label_selector
from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import Operator, Requirement
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.types.core_v1 import (
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    TopologySelectorTerm,
)
from sampan.api.types.storage_v1 import CSIStorageCapacity, StorageClass
from sampan.api.values.quantity import Quantity, parse
from sampan.machinery.volumes import (
    AVAILABLE,
    BIND_COMPLETED,
    LOST,
    SELECTED_NODE,
    STORAGE,
    allows_access,
    attributes_differ,
    capacity,
    claim_name_of,
    class_of_claim,
    class_of_volume,
    is_bound_to,
    modes_differ,
    requested_size,
    waits_for_consumer,
)
from sampan.scheduler.cache.arrays import Flags, Ints, Rows, count_of, numbers_of
from sampan.scheduler.cache.node_selectors import matches_any, matches_label
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature

FindClaim = Callable[[str, str], PersistentVolumeClaim | None]
"""Returns the claim with this name and namespace, or None."""
FindClass = Callable[[str], StorageClass | None]


class UnusableVolumeClaim(Exception):
    """A claim or volume makes the pod unschedulable on every node. The message becomes the text of the event."""


@dataclass(slots=True)
class PodClaims:
    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    """Unbound claims whose storage class uses WaitForFirstConsumer."""
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)
    """Other unbound claims, which should be bound without waiting for a pod."""


def has_claims(signature: PodSignature) -> bool:
    return signature.parse_once("has claims", _has_claims)


def _has_claims(spec: PodSpec) -> bool:
    return any(volume.persistentVolumeClaim is not None or volume.ephemeral is not None for volume in spec.volumes)


def named_claims(signature: PodSignature) -> Sequence[str]:
    """Return the claims that the spec refers to by name, without those of ephemeral volumes."""
    return signature.parse_once("named claims", _named_claims)


def _named_claims(spec: PodSpec) -> Sequence[str]:
    claims = (volume.persistentVolumeClaim for volume in spec.volumes)
    return tuple({claim.claimName: None for claim in claims if claim is not None})


def uses_claim(info: PodInfo, claim: PersistentVolumeClaim) -> bool:
    if claim.metadata.namespace != info.namespace:
        return False
    return any(claim_name_of(info.pod, volume) == claim.metadata.name for volume in info.pod.spec.volumes)


def format_not_found(name: str) -> str:
    return f'persistentvolumeclaim "{name}" not found'


def volume_claims_of(pod: Pod, find: FindClaim) -> list[PersistentVolumeClaim]:
    """Return the claims of a pod in the order of its volumes.

    Raise UnusableVolumeClaim if a claim is missing, lost, terminating, or owned by another pod.
    """
    claims = []
    for volume in pod.spec.volumes:
        name = claim_name_of(pod, volume)
        if name:
            claims.append(_claim(pod, name, find(name, pod.metadata.namespace), volume.ephemeral is not None))
    return claims


def _claim(pod: Pod, name: str, claim: PersistentVolumeClaim | None, is_ephemeral: bool) -> PersistentVolumeClaim:
    if claim is None:
        waits = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        raise UnusableVolumeClaim(waits if is_ephemeral else format_not_found(name))
    if claim.status.phase == LOST:
        raise UnusableVolumeClaim(
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volumeName}"'
        )
    if claim.metadata.deletionTimestamp is not None:
        raise UnusableVolumeClaim(f'persistentvolumeclaim "{name}" is being deleted')
    if is_ephemeral and not is_controlled_by(claim, pod):
        space = pod.metadata.namespace
        problem = f"PVC {space}/{name} was not created for pod {space}/{pod.metadata.name}"
        raise UnusableVolumeClaim(f"{problem} (pod is not owner)")
    return claim


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volumeName) and BIND_COMPLETED in claim.metadata.annotations


def classify_claims(claims: Sequence[PersistentVolumeClaim], find_class: FindClass) -> PodClaims:
    pod_claims = PodClaims()
    for claim in claims:
        if is_bound(claim):
            pod_claims.bound.append(claim)
        elif not claim.spec.volumeName and waits_for_consumer(find_class(class_of_claim(claim))):
            pod_claims.delayed.append(claim)
        else:
            pod_claims.immediate.append(claim)
    return pod_claims


_OPERATORS = {
    Operator.IN: "In",
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


def flag_all(rows: Rows) -> Flags:
    return np.ones(count_of(rows), dtype=np.bool_)


def flag_none(rows: Rows) -> Flags:
    return np.zeros(count_of(rows), dtype=np.bool_)


def can_access(table: NodeTable, volume: PersistentVolume, rows: Rows) -> Flags:
    """Return whether each row satisfies the node affinity of the volume."""
    required = volume.spec.nodeAffinity.required if volume.spec.nodeAffinity is not None else None
    return flag_all(rows) if required is None else matches_any(table, required.nodeSelectorTerms or (), rows)


def allows_topology(table: NodeTable, terms: Sequence[TopologySelectorTerm], rows: Rows) -> Flags:
    """Return whether each row satisfies the allowedTopologies of a storage class; an empty list allows every node."""
    if not terms:
        return flag_all(rows)
    satisfied = flag_none(rows)
    for term in terms:
        if term.matchLabelExpressions:
            matching = flag_all(rows)
            for expression in term.matchLabelExpressions:
                matching &= table.column(expression.key).is_one_of(expression.values or (), rows)
            satisfied |= matching
    return satisfied


def has_capacity(
    table: NodeTable, capacities: Iterable[CSIStorageCapacity], class_name: str, size: int, rows: Rows
) -> Flags:
    """Return whether each row has a CSIStorageCapacity of the class with at least `size` bytes."""
    flags = flag_none(rows)
    for entry in capacities:
        if entry.storageClassName == class_name and entry.nodeTopology is not None and _limit(entry) >= size:
            flags |= _matches_requirements(table, selector_of(entry.nodeTopology).requirements, rows)
    return flags


def compute_provisioning_capacity(
    table: NodeTable, capacities: Iterable[CSIStorageCapacity], class_name: str, size: int, rows: Rows
) -> Ints:
    """Return for each row the capacity in bytes of the first CSIStorageCapacity that `has_capacity` accepts, or -1."""
    sizes: Ints = np.full(count_of(rows), -1, dtype=np.int64)
    for entry in capacities:
        if entry.storageClassName == class_name and entry.nodeTopology is not None and _limit(entry) >= size:
            matching = _matches_requirements(table, selector_of(entry.nodeTopology).requirements, rows)
            sizes = np.where((sizes < 0) & matching, limit_bytes(entry.capacity), sizes)
    return sizes


_MAX_BYTES = 2**56
"""A limit on sizes in the arithmetic of scores, which multiplies them by 100."""


def limit_bytes(size: str | Quantity | None) -> int:
    """Return a size in bytes as a number that scores can be computed of; None is 0."""
    if size is None:
        return 0
    return min((parse(size) if isinstance(size, str) else size).value(), _MAX_BYTES)


def _limit(entry: CSIStorageCapacity) -> int:
    """Return the size of the largest volume that can be provisioned, or -1 if it is unknown."""
    limit = entry.capacity if entry.maximumVolumeSize is None else entry.maximumVolumeSize
    return -1 if limit is None else parse(limit).value()


def has_more_capacity(old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    return old is None or _limit(new) > _limit(old)


def _matches_requirements(table: NodeTable, requirements: Iterable[Requirement], rows: Rows) -> Flags:
    flags = flag_all(rows)
    for requirement in requirements:
        node_requirement = NodeSelectorRequirement(
            key=requirement.key, operator=_OPERATORS[requirement.operator], values=list(requirement.values)
        )
        flags &= matches_label(table, node_requirement, rows)
    return flags


NO_PROVISIONER = "kubernetes.io/no-provisioner"

HasCapacity = Callable[[StorageClass, int, Rows], Flags]
"""Returns the rows with enough capacity to provision a volume of this class and size."""


@dataclass(slots=True)
class VolumeChoice:
    """The volumes chosen for each of the rows."""

    has_volumes: Flags
    """Whether every claim has a matching volume or can have one provisioned."""
    has_capacity_flags: Flags
    static: list[tuple[PersistentVolumeClaim, list[tuple[PersistentVolume, Flags]]]]
    """For each claim, the volumes chosen for it and the rows that they are chosen on."""
    to_provision: list[tuple[PersistentVolumeClaim, Flags]]
    """Claims for which a volume has to be provisioned, and the rows on which it has to be."""


def choose_volumes(
    table: NodeTable,
    claims: Sequence[PersistentVolumeClaim],
    volumes_of: Callable[[str], Sequence[PersistentVolume]],
    class_of: Callable[[str], StorageClass | None],
    has_capacity: HasCapacity,
    rows: Rows,
) -> VolumeChoice:
    """Choose volumes for the claims on all rows; `volumes_of` returns the volumes of a storage class."""
    choice = VolumeChoice(flag_all(rows), flag_all(rows), [], [])
    decided = [claim for claim in claims if SELECTED_NODE in claim.metadata.annotations]
    for claim in decided:
        row = table.rows.get(claim.metadata.annotations[SELECTED_NODE], -1)
        selected = numbers_of(rows) == row
        choice.has_volumes &= selected
        choice.to_provision.append((claim, selected))
    used: dict[str, Flags] = {}
    free = [claim for claim in claims if SELECTED_NODE not in claim.metadata.annotations]
    for claim in sorted(free, key=requested_size):
        chosen = _choose_static_volumes(table, claim, volumes_of(class_of_claim(claim)), used, rows)
        choice.static.append((claim, chosen))
        choice.to_provision.append((claim, ~_combine_flags([flags for _, flags in chosen], rows)))
    _check_provisioning(table, choice, class_of, has_capacity, rows)
    return choice


def _choose_static_volumes(
    table: NodeTable,
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    used: dict[str, Flags],
    rows: Rows,
) -> list[tuple[PersistentVolume, Flags]]:
    """Choose, on each row, the smallest accessible volume; a volume pre-bound to the claim is the only choice."""
    chosen: list[tuple[PersistentVolume, Flags]] = []
    open_rows = flag_all(rows)
    for volume in _candidates(claim, volumes):
        name = volume.metadata.name
        usable = can_access(table, volume, rows) & open_rows
        if name in used:
            usable &= ~used[name]
        if usable.any():
            chosen.append((volume, usable))
            used[name] = usable | used.get(name, usable)
            open_rows &= ~usable
        if is_bound_to(volume, claim) or not open_rows.any():
            break
    return chosen


def _candidates(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> list[PersistentVolume]:
    candidates = [volume for volume in volumes if _matches(volume, claim)]
    return sorted(
        candidates, key=lambda volume: (not is_bound_to(volume, claim), capacity(volume), volume.metadata.name)
    )


def _matches(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.spec.claimRef is not None and not is_bound_to(volume, claim):
        return False
    if volume.metadata.deletionTimestamp is not None or capacity(volume) < requested_size(claim):
        return False
    if modes_differ(claim, volume) or attributes_differ(claim, volume):
        return False
    if is_bound_to(volume, claim):
        return True
    if volume.status.phase != AVAILABLE or class_of_volume(volume) != class_of_claim(claim):
        return False
    selector = claim.spec.selector
    if selector is not None and not label_selector.selector_of(selector).matches(volume.metadata.labels):
        return False
    return allows_access(volume, claim)


def _check_provisioning(
    table: NodeTable,
    choice: VolumeChoice,
    class_of: Callable[[str], StorageClass | None],
    has_capacity: HasCapacity,
    rows: Rows,
) -> None:
    """Check whether the volumes can be provisioned; a row that fails for one claim is not checked for the next."""
    open_rows = choice.has_volumes.copy()
    for claim, flags in choice.to_provision:
        pending = flags & open_rows
        if not pending.any():
            continue
        can_provision = _can_provision(table, class_of(class_of_claim(claim)), rows)
        choice.has_volumes &= ~pending | can_provision
        has_capacity_flags = capacity_for(claim, class_of(class_of_claim(claim)), has_capacity, rows)
        choice.has_capacity_flags &= ~(pending & can_provision) | has_capacity_flags
        open_rows &= ~pending | (can_provision & has_capacity_flags)


def _can_provision(table: NodeTable, storage_class: StorageClass | None, rows: Rows) -> Flags:
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return flag_none(rows)
    return allows_topology(table, storage_class.allowedTopologies, rows)


def capacity_for(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, has_capacity: HasCapacity, rows: Rows
) -> Flags:
    has_request = claim.spec.resources is not None and STORAGE in claim.spec.resources.requests
    if storage_class is None or not has_request:
        return flag_all(rows)
    return has_capacity(storage_class, requested_size(claim).value(), rows)


def _combine_flags(flags: Sequence[Flags], rows: Rows) -> Flags:
    combined = np.zeros(count_of(rows), dtype=np.bool_)
    for part in flags:
        combined |= part
    return combined
