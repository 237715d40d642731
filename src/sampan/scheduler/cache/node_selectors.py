"""Node selectors and node affinity, evaluated over the label columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sampan.api.semantics.node_selectors import NAME_FIELD, required_terms
from sampan.api.types.core_v1 import NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from sampan.scheduler.cache.arrays import Flags, Rows, count_of, numbers_of
from sampan.scheduler.cache.node_table import NodeTable


def satisfies_requirements(table: NodeTable, spec: PodSpec, rows: Rows) -> Flags:
    """Return for each row whether it satisfies the pod's nodeSelector and required node affinity."""
    fits = np.ones(count_of(rows), dtype=np.bool_)
    for key, value in spec.nodeSelector.items():
        fits &= table.column(key).is_one_of((value,), rows)
    terms = required_terms(spec)
    if terms is not None:
        fits &= matches_any(table, terms, rows)
    return fits


def has_requirements(spec: PodSpec) -> bool:
    return bool(spec.nodeSelector) or required_terms(spec) is not None


def matches_any(table: NodeTable, terms: Sequence[NodeSelectorTerm], rows: Rows) -> Flags:
    fits = np.zeros(count_of(rows), dtype=np.bool_)
    for term in terms:
        fits |= matches(table, term, rows)
    return fits


def matches(table: NodeTable, term: NodeSelectorTerm, rows: Rows) -> Flags:
    """Return for each row whether it matches the term; empty and invalid terms match nothing."""
    if not term.matchExpressions and not term.matchFields:
        return np.zeros(count_of(rows), dtype=np.bool_)
    fits = np.ones(count_of(rows), dtype=np.bool_)
    for requirement in term.matchExpressions:
        fits &= matches_label(table, requirement, rows)
    for requirement in term.matchFields:
        fits &= _matches_field(table, requirement, rows)
    return fits


def matches_label(table: NodeTable, requirement: NodeSelectorRequirement, rows: Rows) -> Flags:
    column = table.column(requirement.key)
    match requirement.operator:
        case "In":
            return column.is_one_of(requirement.values, rows)
        case "NotIn":
            return ~column.is_one_of(requirement.values, rows)
        case "Exists":
            return column.exists(rows)
        case "DoesNotExist":
            return ~column.exists(rows)
        case "Gt" | "Lt" if len(requirement.values) == 1 and _is_integer(requirement.values[0]):
            return column.compares(int(requirement.values[0]), greater=requirement.operator == "Gt", rows=rows)
    return np.zeros(count_of(rows), dtype=np.bool_)


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").removeprefix("+").isdigit()


def _matches_field(table: NodeTable, requirement: NodeSelectorRequirement, rows: Rows) -> Flags:
    if requirement.key != NAME_FIELD or requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
        return np.zeros(count_of(rows), dtype=np.bool_)
    row = table.rows.get(requirement.values[0], -1)
    is_named: Flags = numbers_of(rows) == row
    return is_named if requirement.operator == "In" else ~is_named


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Return the nodes that required affinity names if every term names nodes; None if other nodes may match."""
    terms = required_terms(spec)
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        named = [
            set(requirement.values)
            for requirement in term.matchFields
            if requirement.key == NAME_FIELD and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names)
