"""NodeDeclaredFeatures: rejects nodes that do not declare the features that the pod requires."""

from __future__ import annotations

from typing import Any

import numpy as np

from sampan.api.types.core_v1 import Node
from sampan.scheduler.cache.arrays import Codes, Rows, count_of, numbers_of
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import declared_features
from sampan.scheduler.framework.cluster_event import ActionType, ClusterEvent, EventResource, QueueingHints
from sampan.scheduler.framework.contract import SKIP, CycleState, PluginScope, Status
from sampan.scheduler.framework.handle import Handle

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"
    scope = PluginScope.NODE

    def __init__(self, handle: Handle) -> None:
        pass

    def pre_filter(self, cycle: CycleState) -> Status | None:
        return None if cycle.signature.parse_once(self.name, declared_features) else SKIP

    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        features = cycle.signature.parse_once(self.name, declared_features)
        codes = np.zeros(count_of(rows), dtype=np.int32)
        lacking = [
            index for index, row in enumerate(numbers_of(rows)) if not _has(cycle.table.nodes[int(row)], features)
        ]
        codes[lacking] = cycle.reject(self.name, REASON, is_final=True)
        return codes

    def events_to_register(self) -> QueueingHints:
        return [
            (ClusterEvent(EventResource.NODE, ActionType.ADD), _may_help),
            (ClusterEvent(EventResource.NODE, ActionType.UPDATE_FEATURES), _may_help),
        ]


def _has(node: Node | None, features: frozenset[str]) -> bool:
    return node is not None and features.issubset(node.status.declaredFeatures)


def _may_help(info: PodInfo, old: Any, new: Any) -> bool:
    return _has(new, info.signature.parse_once(NodeDeclaredFeatures.name, declared_features))
