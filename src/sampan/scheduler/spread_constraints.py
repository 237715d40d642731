"""Topology spread constraints, parsed from a spec, and their evaluation over the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from sampan.api.label_selector import selector_of
from sampan.api.labels import NOTHING, Operator, Requirement, Selector
from sampan.api.types.core_v1 import PodSpec, TopologySpreadConstraint
from sampan.scheduler.arrays import Codes, Flags, Ints
from sampan.scheduler.node_selection import has_requirements, required_nodes
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.pod_sorts import PodSelector, Sort
from sampan.scheduler.tally import DomainSums
from sampan.scheduler.tolerations import kept_off

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
_NO_DOMAIN = 2**31 - 1


class Constraint(NamedTuple):
    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


def read(found: Iterable[TopologySpreadConstraint], action: str, labels: Mapping[str, str]) -> tuple[Constraint, ...]:
    """Return the constraints whose `whenUnsatisfiable` is `action`."""
    return tuple(
        Constraint(
            max_skew=constraint.maxSkew,
            topology_key=constraint.topologyKey,
            selector=_narrowed(selector_of(constraint.labelSelector), constraint.matchLabelKeys, labels),
            min_domains=constraint.minDomains if constraint.minDomains is not None else 1,
            honors_affinity=constraint.nodeAffinityPolicy != "Ignore",
            honors_taints=constraint.nodeTaintsPolicy == "Honor",
        )
        for constraint in found
        if constraint.whenUnsatisfiable == action
    )


def _narrowed(selector: Selector, keys: Iterable[str], labels: Mapping[str, str]) -> Selector:
    requirements = [Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels]
    missing = [requirement for requirement in requirements if requirement not in selector.requirements]
    return selector.narrowed(*missing) if missing and not selector.is_nothing else selector


class Spread:
    """A constraint over the nodes: the eligible domains, and how many matching pods each of them has."""

    def __init__(
        self, table: NodeTable, spec: PodSpec, namespace: str, constraint: Constraint, keys: tuple[str, ...]
    ) -> None:
        """Create the evaluation of a constraint; `keys` are the labels that an eligible node must have."""
        self.constraint = constraint
        self._table, self._spec, self._keys = table, spec, keys
        self.column = table.column(constraint.topology_key)
        counted = NOTHING if constraint.selector.is_everything else constraint.selector
        """A selector that matches everything counts nothing, as in Kubernetes."""
        sort = Sort((PodSelector(counted, frozenset((namespace,))),), with_terminating=False)
        self.tally = table.counts.tally(sort)
        self._sums: DomainSums | None = None
        self._present: Flags = np.zeros(0, dtype=np.bool_)

    def counts(self) -> Ints:
        """Return the matching pods per domain, over eligible nodes."""
        return self._fresh().values

    def smallest(self) -> int:
        """Return the smallest number of matching pods in an eligible domain (the global minimum)."""
        values = self._fresh().values[self._present]
        if len(values) < self.constraint.min_domains:
            return 0
        return int(values.min()) if len(values) else _NO_DOMAIN

    def of_nodes(self, codes: Codes) -> Ints:
        return self._fresh().of_nodes(codes)

    def _fresh(self) -> DomainSums:
        shape = self._table.shape
        if self._sums is None or self._sums.shape != shape:
            mask = self._mask()
            if self._sums is None:
                self._sums = DomainSums(self.tally, self.column, mask, shape)
            else:
                self._sums.rebuild(mask, shape)
            codes = self.column.codes[: len(mask)][mask]
            self._present = np.bincount(codes, minlength=len(self._sums.values)) > 0
        return self._sums

    def _mask(self) -> Flags:
        table, rows = self._table, self._table.every_row
        mask: Flags = table.valid[rows].copy()
        for key in (*self._keys, self.constraint.topology_key):
            mask &= table.column(key).exists(rows)
        if self.constraint.honors_affinity and has_requirements(self._spec):
            mask &= required_nodes(table, self._spec, rows)
        if self.constraint.honors_taints:
            mask &= ~kept_off(table.taints.sets, self._spec.tolerations)[table.taints.codes[rows]]
        return mask
