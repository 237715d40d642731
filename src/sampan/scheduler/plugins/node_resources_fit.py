"""NodeResourcesFit: rejects nodes without the requested resources, and scores the others by utilization."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from sampan.api.names import is_native_resource
from sampan.scheduler.cache.arrays import Codes, Ints, Rows, count_of
from sampan.scheduler.cache.node_table import PODS_INDEX, amount_of
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PODS, PodSignature
from sampan.scheduler.config.plugin_args import check_fit, raise_if_invalid, read_args
from sampan.scheduler.devices.device_inventory import PREFIX
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import CycleState, PluginScope
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.plugins.resource_allocation import (
    DEFAULT_RESOURCES,
    RequestedToCapacity,
    ResourceAmounts,
    ResourceSpec,
    ShapePoint,
    Strategy,
    UtilizationShape,
    requested_and_allocatable,
    score_least_allocated,
    score_most_allocated,
)

TOO_MANY_PODS = "Too many pods"
_MAX_PATTERN_BITS = 31
"""The number of resources that are added to the pattern of a node before the patterns are numbered again."""


class CapacityRatioArgs(msgspec.Struct, forbid_unknown_fields=True):
    shape: list[ShapePoint] = []


class ScoringStrategy(msgspec.Struct, forbid_unknown_fields=True):
    type: str = "LeastAllocated"
    resources: list[ResourceSpec] = msgspec.field(default_factory=lambda: list(DEFAULT_RESOURCES))
    requestedToCapacityRatio: CapacityRatioArgs | None = None


class NodeResourcesFitArgs(msgspec.Struct, forbid_unknown_fields=True):
    ignoredResources: list[str] = []
    ignoredResourceGroups: list[str] = []
    scoringStrategy: ScoringStrategy = msgspec.field(default_factory=ScoringStrategy)


class NodeResourcesFit:
    name = "NodeResourcesFit"
    scope = PluginScope.PODS

    def __init__(self, handle: Handle) -> None:
        args = read_args(handle.args, NodeResourcesFitArgs)
        raise_if_invalid(check_fit(args))
        self._ignored = frozenset(args.ignoredResources)
        self._ignored_groups = frozenset(args.ignoredResourceGroups)
        self._resources = args.scoringStrategy.resources
        self._strategy = _strategy(args.scoringStrategy)
        self._table = handle.table

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        """Reject nodes with a reason for each insufficient resource; if even the empty node lacks one, preemption
        cannot help.
        """
        table = cycle.table
        short: list[tuple[str, Any]] = [
            (TOO_MANY_PODS, table.requested[PODS_INDEX, rows] + 1 > table.allocatable[PODS_INDEX, rows])
        ]
        final = np.zeros(count_of(rows), dtype=np.bool_)
        for name, amount in self._list_checked_requests(cycle.signature):
            column = table.resource(name)
            allocatable = table.allocatable[column, rows]
            lacks, never = amount > allocatable - table.requested[column, rows], amount > allocatable
            if name in table.device_resources:  # DynamicResources decides about nodes without the resource
                lacks, never = lacks & (allocatable > 0), never & (allocatable > 0)
            short.append((f"Insufficient {name}", lacks))
            final |= never
        return _codes(cycle, self.name, short, final)

    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        return self._strategy([self._amounts(cycle, spec, rows) for spec in self._resources])

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE), None),
            (ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_REQUESTS), None),
            (ClusterEvent(EventResource.NODE, ActionType.ADD), self._empty_node_fits),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_ALLOCATABLE), self._empty_node_fits),
            (ClusterEvent(EventResource.DEVICE_CLASS, ActionType.ADD), _provides_requested_resource),
            (ClusterEvent(EventResource.DEVICE_CLASS, ActionType.UPDATE), _provides_requested_resource),
            (ClusterEvent(EventResource.POD, ActionType.UPDATE_REQUESTS), None),
        ]

    def _list_checked_requests(self, signature: PodSignature) -> list[tuple[str, int]]:
        if not self._ignored and not self._ignored_groups:
            return list(signature.requests.items())
        return [item for item in signature.requests.items() if not self._is_ignored(item[0])]

    def _is_ignored(self, name: str) -> bool:
        if is_native_resource(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def _amounts(self, cycle: CycleState, spec: ResourceSpec, rows: Rows) -> ResourceAmounts:
        requested, allocatable = requested_and_allocatable(cycle.table, cycle.signature, spec.name, rows, nonzero=True)
        return ResourceAmounts(requested, allocatable, spec.weight)

    def _empty_node_fits(self, info: PodInfo, old: Any, new: Any) -> bool:
        """Whether the empty node would have enough of every resource, or may have devices for it instead."""
        allocatable = new.status.allocatable
        if amount_of(PODS, allocatable.get(PODS)) < 1:
            return False
        amounts = (
            (name, amount, amount_of(name, allocatable.get(name)))
            for name, amount in self._list_checked_requests(info.signature)
        )
        return all(amount <= has or (not has and name in self._table.device_resources) for name, amount, has in amounts)


def _codes(cycle: CycleState, plugin: str, short: list[tuple[str, Any]], final: Any) -> Codes:
    """Return a code for each set of reasons, and none for the nodes that lack nothing."""
    codes = np.zeros(len(final), dtype=np.int32)
    rejected = np.logical_or.reduce([lacking for _, lacking in short])
    if not rejected.any():
        return codes
    patterns = final.astype(np.int64)
    for position, (_, lacking) in enumerate(short, 1):
        if position % _MAX_PATTERN_BITS == 0:  # number the patterns again, so that they stay below 2**63
            patterns = np.unique(patterns, return_inverse=True)[1]
        patterns <<= 1
        patterns |= lacking
    for pattern in np.unique(patterns):
        nodes = patterns == pattern
        first = int(nodes.argmax())
        if rejected[first]:
            reasons = [reason for reason, lacking in short if lacking[first]]
            codes[nodes] = cycle.reject(plugin, *reasons, is_final=bool(final[first]))
    return codes


def _strategy(strategy: ScoringStrategy) -> Strategy:
    if strategy.requestedToCapacityRatio is not None:
        return RequestedToCapacity(UtilizationShape(strategy.requestedToCapacityRatio.shape))
    return score_most_allocated if strategy.type == "MostAllocated" else score_least_allocated


def _provides_requested_resource(info: PodInfo, old: Any, new: Any) -> bool:
    """Whether the device class newly provides a resource that the pod requests."""
    if old is not None and old.spec.extendedResourceName == new.spec.extendedResourceName:
        return False
    names = {new.spec.extendedResourceName, PREFIX + new.metadata.name if old is None else None}
    return not names.isdisjoint(info.signature.requests)
