"""Why nodes do not fit a pod: rejections as small integers, their counts, and the text of the FailedScheduling event.

A rejection code fits into an array over the nodes; 0 means that the node is not rejected.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sampan.scheduler.cache.arrays import Codes


class NodeRejection(NamedTuple):
    plugin: str
    is_final: bool
    """Whether preemption on the node would not help."""
    reasons: tuple[str, ...]


class RejectionTable:
    def __init__(self) -> None:
        self._all: list[NodeRejection] = [NodeRejection("", False, ())]
        self._numbers: dict[NodeRejection, int] = {}

    def code(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        rejection = NodeRejection(plugin, is_final, reasons)
        number = self._numbers.get(rejection)
        if number is None:
            number = self._numbers[rejection] = len(self._all)
            self._all.append(rejection)
        return number

    def __getitem__(self, code: int) -> NodeRejection:
        return self._all[code]


NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    count: int
    """The number of nodes in the cluster."""
    codes: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """The rejection code of each row; 0 also for rows without a node."""
    rejections: RejectionTable = field(default_factory=RejectionTable)
    pre_filter: str = ""
    """The message of a PreFilter plugin that rejected the pod."""
    post_filter: str = ""
    plugins: set[str] = field(default_factory=set)
    """The plugins that rejected nodes or the pod as a whole."""

    def count_rejections(self) -> list[tuple[NodeRejection, int]]:
        numbers, counts = np.unique(self.codes, return_counts=True)
        return [(self.rejections[int(code)], int(count)) for code, count in zip(numbers, counts, strict=True) if code]

    @property
    def message(self) -> str:
        if not self.count:
            return NO_NODES
        parts = [f"0/{self.count} nodes are available:"]
        if self.pre_filter:
            parts.append(f"{self.pre_filter}.")
        elif reasons := self._reasons():
            parts.append(f"{', '.join(reasons)}.")
        if self.post_filter:
            parts.append(self.post_filter)
        return " ".join(parts)

    def _reasons(self) -> list[str]:
        counts: Counter[str] = Counter()
        for rejection, count in self.count_rejections():
            for reason in rejection.reasons:
                counts[reason] += count
        return sorted(f"{count} {reason}" for reason, count in counts.items())
