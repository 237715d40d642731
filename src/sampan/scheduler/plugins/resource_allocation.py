"""Scores by utilization: least allocated, most allocated, and a shape over the ratio; amounts are arrays over nodes.

The counterpart is `pkg/scheduler/framework/plugins/noderesources/resource_allocation.go`. A resource that a node does
not have is not counted for that node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from sampan.scheduler.cache.arrays import Ints, Rows
from sampan.scheduler.cache.node_table import CPU_INDEX, MEMORY_INDEX, NodeTable
from sampan.scheduler.cache.pod_signature import CPU, MEMORY, PodSignature

MAX_SCORE = 100
_SHAPE_MAX = 10


class ResourceAmounts(NamedTuple):
    """The requested and allocatable amounts of one resource, and its weight."""

    requested: Ints
    allocatable: Ints
    weight: int


Strategy = Callable[[Sequence[ResourceAmounts]], Ints]


def score_least_allocated(resources: Sequence[ResourceAmounts]) -> Ints:
    return _average_by_weight([(resource, _free_share(resource)) for resource in resources])


def score_most_allocated(resources: Sequence[ResourceAmounts]) -> Ints:
    return _average_by_weight([(resource, _allocated_share(resource)) for resource in resources])


def _free_share(amounts: ResourceAmounts) -> Ints:
    capacity = np.maximum(amounts.allocatable, 1)
    return np.where(amounts.requested > amounts.allocatable, 0, (capacity - amounts.requested) * MAX_SCORE // capacity)


def _allocated_share(amounts: ResourceAmounts) -> Ints:
    capacity = np.maximum(amounts.allocatable, 1)
    return np.minimum(amounts.requested, capacity) * MAX_SCORE // capacity


def _average_by_weight(parts: Sequence[tuple[ResourceAmounts, Ints]]) -> Ints:
    total: Ints = np.zeros_like(parts[0][1])
    weights: Ints = np.zeros_like(total)
    for resource, scores in parts:
        weight = np.where(resource.allocatable > 0, resource.weight, 0)
        total += scores * weight
        weights += weight
    return total // np.maximum(weights, 1)


class ShapePoint(msgspec.Struct, forbid_unknown_fields=True):
    utilization: int
    score: int


class UtilizationShape:
    """A piecewise linear function from utilization (0..100) to score (0..10 in the configuration)."""

    def __init__(self, points: Sequence[ShapePoint]) -> None:
        self._points = [(point.utilization, point.score * (MAX_SCORE // _SHAPE_MAX)) for point in points]

    def __call__(self, utilization: Ints) -> Ints:
        points = self._points
        scores: Ints = np.full_like(utilization, points[-1][1])
        for (left, low), (right, high) in reversed(list(pairwise(points))):
            step = (high - low) * (utilization - left)
            inner = low + _divide_toward_zero(step, right - left)
            scores = np.where(utilization <= right, inner, scores)
        return np.where(utilization <= points[0][0], points[0][1], scores)


class RequestedToCapacity:
    def __init__(self, shape: UtilizationShape) -> None:
        self._shape = shape

    def __call__(self, resources: Sequence[ResourceAmounts]) -> Ints:
        total: Ints = np.zeros_like(resources[0].requested)
        weights: Ints = np.zeros_like(total)
        for resource in resources:
            scores = self._score(resource)
            weight = np.where((resource.allocatable > 0) & (scores > 0), resource.weight, 0)
            total += scores * weight
            weights += weight
        return round_half_up(total, weights)

    def _score(self, amounts: ResourceAmounts) -> Ints:
        capacity = np.maximum(amounts.allocatable, 1)
        ratio = np.where(amounts.requested > amounts.allocatable, 100, amounts.requested * 100 // capacity)
        return self._shape(ratio)


def _divide_toward_zero(number: Ints, divisor: int) -> Ints:
    quotient: Ints = np.sign(number) * (np.abs(number) // divisor)
    return quotient


def round_half_up(total: Ints, weights: Ints) -> Ints:
    """Return the weighted mean rounded half up; scores are never negative."""
    return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)


def score_balance(requested: Sequence[Ints], allocatable: Sequence[Ints]) -> Ints:
    """Return 100 where all resources would be utilized equally, and less the more their utilization differs."""
    has = np.array([amount > 0 for amount in allocatable])
    fractions = np.array(
        [
            np.minimum(request / np.maximum(capacity, 1), 1.0)
            for request, capacity in zip(requested, allocatable, strict=True)
        ]
    )
    if len(fractions) == 2:
        spread = np.abs((fractions[0] - fractions[1]) / 2)
        return ((1 - np.where(has.all(axis=0), spread, 0.0)) * MAX_SCORE).astype(np.int64)
    scores: Ints = ((1 - _deviation(np.where(has, fractions, 0.0), has)) * MAX_SCORE).astype(np.int64)
    return scores


def _deviation(fractions: Any, has: Any) -> Any:
    """Return the standard deviation over the resources that a node has."""
    counted = has.sum(axis=0)
    number = np.maximum(counted, 1)
    mean = fractions.sum(axis=0) / number
    squares = (np.where(has, fractions - mean, 0.0) ** 2).sum(axis=0)
    deviation = np.sqrt(squares / number)
    if len(fractions) > 2:
        pair = counted == 2
        if pair.any():  # the same as half the difference; computed that way to avoid rounding errors
            high = np.where(has, fractions, -np.inf).max(axis=0)
            low = np.where(has, fractions, np.inf).min(axis=0)
            deviation = np.where(pair, (high - low) / 2, deviation)
    return np.where(counted > 1, deviation, 0.0)


class ResourceSpec(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: int = 1


DEFAULT_RESOURCES = (ResourceSpec(CPU), ResourceSpec(MEMORY))


def requested_and_allocatable(
    table: NodeTable, signature: PodSignature, name: str, rows: Rows, *, nonzero: bool
) -> tuple[Ints, Ints]:
    """Return the requested amount including the pod, and the allocatable amount, of each row.

    Both are zero for an extended resource that the pod does not request.
    """
    column = table.resource(name)
    allocatable: Ints = table.allocatable[column, rows]
    if nonzero and column in (CPU_INDEX, MEMORY_INDEX):
        index = 0 if column == CPU_INDEX else 1
        return table.nonzero[index, rows] + signature.nonzero[index], allocatable
    request = signature.requests.get(name, 0)
    if not request and "/" in name:
        return np.zeros_like(allocatable), np.zeros_like(allocatable)
    return table.requested[column, rows] + request, allocatable
