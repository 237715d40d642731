"""NodeDeclaredFeatures: rejects nodes that do not declare the features that the pod requires."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.api.types.core_v1 import Node
from sampan.scheduler.arrays import Codes, Rows, count_of, numbers_of
from sampan.scheduler.framework.contract import (
    SKIP,
    Action,
    ClusterEvent,
    Cycle,
    Events,
    Handle,
    Resource,
    Scope,
    Status,
)
from sampan.scheduler.needs import declared_features
from sampan.scheduler.pod_info import PodInfo

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"
    scope = Scope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: Cycle) -> Status | None:
        return None if cycle.needs.parsed(self.name, declared_features) else SKIP

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        features = cycle.needs.parsed(self.name, declared_features)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        lacking = [at for at, row in enumerate(numbers_of(rows)) if not _has(cycle.table.nodes[int(row)], features)]
        codes[lacking] = cycle.refuse(self.name, REASON, is_final=True)
        return codes

    def events(self) -> Events:
        return [
            (ClusterEvent(Resource.NODE, Action.ADD), _may_help),
            (ClusterEvent(Resource.NODE, Action.UPDATE_FEATURES), _may_help),
        ]


def _has(node: Node | None, wanted: frozenset[str]) -> bool:
    return node is not None and wanted.issubset(node.status.declaredFeatures)


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    return _has(new, info.needs.parsed(NodeDeclaredFeatures.name, declared_features))
