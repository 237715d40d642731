"""NodeAffinity: nodeSelector and required and preferred node affinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from sampan.api.types.core_v1 import NodeAffinity as Affinity
from sampan.api.types.core_v1 import NodeSelectorTerm, PodSpec
from sampan.scheduler.cache.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.cache.node_selectors import (
    has_requirements,
    matches,
    matches_any,
    named_nodes,
    satisfies_requirements,
)
from sampan.scheduler.config.plugin_args import check_added_affinity, raise_if_invalid, read_args
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, Code, CycleState, PluginScope, PreFilterResult, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.scores import normalize_to_highest

REASON = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinity:
    name = "NodeAffinity"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        self._added = _read_added_affinity(handle.args)

    def pre_filter(self, cycle: CycleState) -> Status | PreFilterResult | None:
        spec = cycle.signature.spec
        if not has_requirements(spec) and self._enforced is None:
            return SKIP
        names = named_nodes(spec)
        if names is None:
            return None
        return PreFilterResult(names) if names else Status(Code.UNRESOLVABLE, (REASON_CONFLICT,))

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = np.zeros(count_of(rows), dtype=np.int32)
        fits = satisfies_requirements(cycle.table, cycle.signature.spec, rows)
        codes[~fits] = cycle.reject(self.name, REASON, is_final=True)
        if self._enforced is not None:
            enforced = matches_any(cycle.table, self._enforced, rows)
            codes[~enforced] = cycle.reject(self.name, REASON_ENFORCED, is_final=True)
        return codes

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        return None if self._list_preferred_terms(cycle.signature.spec) else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Return the sum of the weights of the matching preferred terms."""
        total = np.zeros(count_of(rows), dtype=np.int64)
        for weight, term in self._list_preferred_terms(cycle.signature.spec):
            total += weight * matches(cycle.table, term, rows)
        return total

    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        return normalize_to_highest(scores)

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), None),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_LABELS), None),
        ]

    @property
    def _enforced(self) -> list[NodeSelectorTerm] | None:
        required = self._added.requiredDuringSchedulingIgnoredDuringExecution
        return (required.nodeSelectorTerms or []) if required is not None else None

    def _list_preferred_terms(self, spec: PodSpec) -> list[tuple[int, NodeSelectorTerm]]:
        own = spec.affinity.nodeAffinity if spec.affinity is not None else None
        terms = [*(own.preferredDuringSchedulingIgnoredDuringExecution if own is not None else ())]
        terms += self._added.preferredDuringSchedulingIgnoredDuringExecution
        return [(term.weight, term.preference) for term in terms if term.weight]


class NodeAffinityArgs(msgspec.Struct, forbid_unknown_fields=True):
    addedAffinity: Affinity | None = None


def _read_added_affinity(args: Mapping[str, Any]) -> Affinity:
    """Return the `addedAffinity` of the configuration, which applies to every pod."""
    affinity = read_args(args, NodeAffinityArgs).addedAffinity
    if affinity is None:
        return Affinity()
    raise_if_invalid(check_added_affinity(affinity))
    return affinity
