"""NodeResourcesBalancedAllocation: prefers nodes on which the utilization of resources is balanced."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sampan.scheduler.cache.arrays import Ints, Rows
from sampan.scheduler.config.plugin_args import check_balanced_allocation, raise_if_invalid, read_args
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.plugins.resource_allocation import (
    DEFAULT_RESOURCES,
    ResourceSpec,
    requested_and_allocatable,
    score_balance,
)


class NodeResourcesBalancedAllocationArgs(msgspec.Struct, forbid_unknown_fields=True):
    resources: list[ResourceSpec] = msgspec.field(default_factory=lambda: list(DEFAULT_RESOURCES))


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"
    scope = PluginScope.PODS

    def __init__(self, handle: Handle) -> None:
        resources = read_args(handle.args, NodeResourcesBalancedAllocationArgs).resources
        raise_if_invalid(check_balanced_allocation(resources))
        self._names: Sequence[str] = [spec.name for spec in resources]

    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        return None if any(cycle.signature.requests.get(name) for name in self._names) else SKIP

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Score by how much the pod improves the balance of the node: 75 if it changes nothing."""
        signature, table = cycle.signature, cycle.table
        pairs = [requested_and_allocatable(table, signature, name, rows, nonzero=False) for name in self._names]
        capacities = [allocatable for _, allocatable in pairs]
        after = score_balance([requested for requested, _ in pairs], capacities)
        requests = [signature.requests.get(name, 0) for name in self._names]
        before = score_balance(
            [requested - own for (requested, _), own in zip(pairs, requests, strict=True)], capacities
        )
        gain = MAX_SCORE // 2 + after - before
        return MAX_SCORE // 2 + gain // 2
