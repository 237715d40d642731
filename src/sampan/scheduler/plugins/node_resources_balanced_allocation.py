"""NodeResourcesBalancedAllocation: prefers nodes on which the utilization of resources is balanced."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sampan.scheduler import arg_faults
from sampan.scheduler.arg_faults import refuse
from sampan.scheduler.arrays import Ints, Rows
from sampan.scheduler.framework.contract import MAX_SCORE, SKIP, Cycle, Handle, Scope, Status
from sampan.scheduler.plugin_args import read_args
from sampan.scheduler.resource_amounts import DEFAULT_RESOURCES, ResourceSpec, considered
from sampan.scheduler.resource_scoring import balanced


class BalancedArgs(msgspec.Struct, forbid_unknown_fields=True):
    resources: list[ResourceSpec] = msgspec.field(default_factory=lambda: list(DEFAULT_RESOURCES))


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"
    scope = Scope.PODS

    def __init__(self, handle: Handle) -> None:
        resources = read_args(handle.args, BalancedArgs).resources
        refuse(arg_faults.balanced(resources))
        self._names: Sequence[str] = [spec.name for spec in resources]

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        return None if any(cycle.needs.requests.get(name) for name in self._names) else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """Score by how much the pod improves the balance of the node: 75 if it changes nothing."""
        needs, table = cycle.needs, cycle.table
        pairs = [considered(table, needs, name, rows, nonzero=False) for name in self._names]
        capacities = [allocatable for _, allocatable in pairs]
        after = balanced([requested for requested, _ in pairs], capacities)
        requests = [needs.requests.get(name, 0) for name in self._names]
        before = balanced([requested - own for (requested, _), own in zip(pairs, requests, strict=True)], capacities)
        gain = MAX_SCORE // 2 + after - before
        return MAX_SCORE // 2 + gain // 2
