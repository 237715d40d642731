"""Which nodes can access a volume, or have one provisioned, or have the capacity for it, as arrays over rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sampan.api.label_selector import selector_of
from sampan.api.labels import Operator, Requirement
from sampan.api.quantity import parse
from sampan.api.types.core_v1 import NodeSelectorRequirement, PersistentVolume, TopologySelectorTerm
from sampan.api.types.storage_v1 import CSIStorageCapacity
from sampan.scheduler.arrays import Flags, Rows, count_of
from sampan.scheduler.node_selection import matches_any, matches_label
from sampan.scheduler.node_table import NodeTable

_OPERATORS = {
    Operator.IN: "In",
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.NOT_IN: "NotIn",
    Operator.NOT_EQUALS: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


def everywhere(rows: Rows) -> Flags:
    return np.ones(count_of(rows), dtype=np.bool_)


def nowhere(rows: Rows) -> Flags:
    return np.zeros(count_of(rows), dtype=np.bool_)


def reached(table: NodeTable, volume: PersistentVolume, rows: Rows) -> Flags:
    """Return whether each row satisfies the node affinity of the volume."""
    required = volume.spec.nodeAffinity.required if volume.spec.nodeAffinity is not None else None
    return everywhere(rows) if required is None else matches_any(table, required.nodeSelectorTerms or (), rows)


def allowed(table: NodeTable, terms: Sequence[TopologySelectorTerm], rows: Rows) -> Flags:
    """Return whether each row satisfies the allowedTopologies of a storage class; an empty list allows every node."""
    if not terms:
        return everywhere(rows)
    satisfied = nowhere(rows)
    for term in terms:
        if term.matchLabelExpressions:
            matching = everywhere(rows)
            for expression in term.matchLabelExpressions:
                matching &= table.column(expression.key).is_one_of(expression.values or (), rows)
            satisfied |= matching
    return satisfied


def has_room(
    table: NodeTable, capacities: Iterable[CSIStorageCapacity], class_name: str, size: int, rows: Rows
) -> Flags:
    """Return whether each row has a CSIStorageCapacity of the class with at least `size` bytes."""
    flags = nowhere(rows)
    for capacity in capacities:
        if capacity.storageClassName == class_name and capacity.nodeTopology is not None and _limit(capacity) >= size:
            flags |= _matches(table, selector_of(capacity.nodeTopology).requirements, rows)
    return flags


def _limit(capacity: CSIStorageCapacity) -> int:
    """Return the size of the largest volume that can be provisioned, or -1 if it is unknown."""
    limit = capacity.capacity if capacity.maximumVolumeSize is None else capacity.maximumVolumeSize
    return -1 if limit is None else parse(limit).value()


def grew(old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    return old is None or _limit(new) > _limit(old)


def _matches(table: NodeTable, requirements: Iterable[Requirement], rows: Rows) -> Flags:
    flags = everywhere(rows)
    for requirement in requirements:
        node_requirement = NodeSelectorRequirement(
            key=requirement.key, operator=_OPERATORS[requirement.operator], values=list(requirement.values)
        )
        flags &= matches_label(table, node_requirement, rows)
    return flags
