"""CPU usage rates in cores, computed from samples of accumulated CPU time."""

from __future__ import annotations

_SHORTEST_S = 0.1


class CpuRates:
    """Rates by container id. The first sample of an id yields 0."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float, float]] = {}
        """The time of the last sample, the CPU time in seconds that it showed, and the rate computed from it."""

    def rate(self, id: str, used_s: float, now: float) -> float:
        before = self._last.get(id)
        if before is None or used_s < before[1]:
            cores = 0.0
        elif now - before[0] < _SHORTEST_S:
            return before[2]
        else:
            cores = (used_s - before[1]) / (now - before[0])
        self._last[id] = (now, used_s, cores)
        return cores

    def forget(self, id: str) -> None:
        self._last.pop(id, None)
