"""NodeAffinity: nodeSelector and required and preferred node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from sampan.api.types.core_v1 import NodeAffinity as Affinity
from sampan.api.types.core_v1 import NodeSelectorTerm, PodSpec
from sampan.scheduler.arg_faults import added_affinity, refuse
from sampan.scheduler.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.framework.contract import (
    SKIP,
    Action,
    ClusterEvent,
    Code,
    Cycle,
    Events,
    Handle,
    Narrowed,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.node_selection import has_requirements, matches, matches_any, named_nodes, required_nodes
from sampan.scheduler.normalizing import proportional
from sampan.scheduler.plugin_args import read_args

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinity:
    name = "NodeAffinity"
    scope = Scope.NODE

    def __init__(self, handle: Handle) -> None:
        self._added = _added(handle.args)

    def pre_filter(self, cycle: Cycle) -> Status | Narrowed | None:
        spec = cycle.needs.spec
        if not has_requirements(spec) and self._enforced is None:
            return SKIP
        names = named_nodes(spec)
        if names is None:
            return None
        return Narrowed(names) if names else Status(Code.UNRESOLVABLE, (REASON_CONFLICT,))

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        fits = required_nodes(cycle.table, cycle.needs.spec, rows)
        codes[~fits] = cycle.refuse(self.name, REASON, is_final=True)
        if self._enforced is not None:
            enforced = matches_any(cycle.table, self._enforced, rows)
            codes[~enforced] = cycle.refuse(self.name, REASON_ENFORCED, is_final=True)
        return codes

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        return None if self._preferred(cycle.needs.spec) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Return the sum of the weights of the matching preferred terms."""
        total = np.zeros(count_of(rows), dtype=np.int64)
        for weight, term in self._preferred(cycle.needs.spec):
            total += weight * matches(cycle.table, term, rows)
        return total

    def normalize(self, cycle: Cycle, scores: Ints) -> Ints:
        return proportional(scores)

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), None),
            (ClusterEvent(Resource.NODE, Action.UPDATE_LABELS), None),
        ]

    @property
    def _enforced(self) -> list[NodeSelectorTerm] | None:
        required = self._added.requiredDuringSchedulingIgnoredDuringExecution
        return (required.nodeSelectorTerms or []) if required is not None else None

    def _preferred(self, spec: PodSpec) -> list[tuple[int, NodeSelectorTerm]]:
        own = spec.affinity.nodeAffinity if spec.affinity is not None else None
        terms = [*(own.preferredDuringSchedulingIgnoredDuringExecution if own is not None else ())]
        terms += self._added.preferredDuringSchedulingIgnoredDuringExecution
        return [(term.weight, term.preference) for term in terms if term.weight]


class AffinityArgs(msgspec.Struct, forbid_unknown_fields=True):
    addedAffinity: Affinity | None = None


def _added(args: Mapping[str, Any]) -> Affinity:
    """Return the `addedAffinity` of the configuration, which applies to every pod."""
    affinity = read_args(args, AffinityArgs).addedAffinity
    if affinity is None:
        return Affinity()
    refuse(added_affinity(affinity))
    return affinity
