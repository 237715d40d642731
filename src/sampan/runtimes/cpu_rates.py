"""CPU usage rates in cores, computed from samples of accumulated CPU time."""

from __future__ import annotations

_SHORTEST_S = 0.1
"""CPU times are counted in ticks of 10 ms, so that the rate over a shorter time means nothing."""


class CpuRates:
    """Rates by container id. The first sample of an id yields 0."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float, float]] = {}
        """The time of the last sample, the CPU time in seconds that it showed, and the rate computed from it."""

    def rate(self, id: str, used_s: float, now: float) -> float:
        before = self._last.get(id)
        elapsed_s = now - before[0] if before is not None else 0.0
        if before is None or used_s < before[1]:
            cores = 0.0
        elif 0 <= elapsed_s < _SHORTEST_S:
            return before[2]
        elif elapsed_s < 0:  # the clock was set back
            cores = before[2]
        else:
            cores = (used_s - before[1]) / elapsed_s
        self._last[id] = (now, used_s, cores)
        return cores

    def forget(self, id: str) -> None:
        self._last.pop(id, None)
