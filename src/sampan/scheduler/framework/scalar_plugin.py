"""A base class for plugins that evaluate one node at a time: simpler to write, slower to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sampan.api.types.core_v1 import Node, Pod
from sampan.scheduler.cache.arrays import Codes, Ints, Rows, numbers_of
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.framework.contract import CycleState, PluginScope
from sampan.scheduler.framework.handle import Handle


class NodeView:
    """A read-only view of one node and its pods."""

    __slots__ = ("_row", "_table", "node")

    def __init__(self, table: NodeTable, row: int) -> None:
        self._table, self._row = table, row
        self.node: Node = table.node_of(row)

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def pods(self) -> Sequence[Pod]:
        return [info.pod for info in self._table.pods[self._row].values()]

    def allocatable(self, resource: str) -> int:
        """The allocatable amount of a resource: CPU in millicores, others in whole units."""
        return int(self._table.allocatable[self._table.resource(resource), self._row])

    def requested(self, resource: str) -> int:
        return int(self._table.requested[self._table.resource(resource), self._row])


class ScalarPlugin:
    """Base class for plugins: set `name` and override `filter_node`, `score_node` or both.

    `filter_node(pod, node)` returns why the pod does not fit the node, or "" if it does. `score_node(pod, node)`
    returns 0 to 100.
    """

    name = ""
    scope = PluginScope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        for point in ("filter", "score"):
            if getattr(type(self), f"{point}_node") is not getattr(ScalarPlugin, f"{point}_node"):
                setattr(self, point, getattr(self, f"_{point}"))

    def filter_node(self, pod: Pod, node: NodeView) -> str:
        return ""

    def score_node(self, pod: Pod, node: NodeView) -> int:
        return 0

    def _filter(self, cycle: CycleState, rows: Rows) -> Codes:
        codes = [self._filter_row(cycle, int(row)) for row in numbers_of(rows)]
        return np.array(codes, dtype=np.int32)

    def _filter_row(self, cycle: CycleState, row: int) -> int:
        if not cycle.table.valid[row]:
            return 0
        reason = self.filter_node(cycle.pod, NodeView(cycle.table, row))
        return cycle.reject(self.name, reason) if reason else 0

    def _score(self, cycle: CycleState, rows: Rows) -> Ints:
        table, pod = cycle.table, cycle.pod
        scores = [
            self.score_node(pod, NodeView(table, int(row))) if table.valid[row] else 0 for row in numbers_of(rows)
        ]
        return np.array(scores, dtype=np.int64)
