"""Why no node fits a pod: node counts per reason, and the message of the FailedScheduling event."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from sampan.scheduler.arrays import Codes
from sampan.scheduler.framework.verdicts import Verdict, Verdicts

NO_NODES = "no nodes available to schedule pods"


@dataclass(slots=True)
class Diagnosis:
    count: int
    """The number of nodes in the cluster."""
    codes: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """The verdict code of each row; 0 also for rows without a node."""
    verdicts: Verdicts = field(default_factory=Verdicts)
    pre_filter: str = ""
    """The message of a PreFilter plug-in that rejected the pod."""
    post_filter: str = ""
    plugins: set[str] = field(default_factory=set)
    """The plug-ins that rejected nodes or the pod as a whole."""

    def tallied(self) -> list[tuple[Verdict, int]]:
        numbers, counts = np.unique(self.codes, return_counts=True)
        return [(self.verdicts[int(code)], int(count)) for code, count in zip(numbers, counts, strict=True) if code]

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
        for verdict, count in self.tallied():
            for reason in verdict.reasons:
                counts[reason] += count
        return sorted(f"{count} {reason}" for reason, count in counts.items())
