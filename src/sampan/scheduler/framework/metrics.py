"""How long plug-ins take, by extension point: stamped by the runner, so that no plug-in needs to.

What waits (preemption, binding) is always measured. The plug-ins of a decision are many and quick: they are measured in
one of `EVERY` decisions, for which their methods are wrapped; the other decisions pay nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sampan.scheduler.metrics import SchedulerMetrics

EVERY = 32
_SAMPLED = {
    "PreFilter": ("preFilter", "pre_filter"),
    "Filter": ("filter", "filter"),
    "PreScore": ("preScore", "pre_score"),
    "Score": ("score", "score"),
    "ScoreExtensionNormalize": ("score", "normalize"),
}
_SUCCESS = "Success"


class PointMetrics:
    def __init__(self, *, profile: str = "", metrics: SchedulerMetrics | None = None) -> None:
        self._profile, self._metrics = profile, metrics
        self._turn = 0

    @contextmanager
    def measured(self, point: str, plugin: str) -> Iterator[None]:
        """One plug-in at a point that waits."""
        if self._metrics is None:
            yield
            return
        began, status = time.perf_counter(), "Error"
        try:
            yield
            status = _SUCCESS
        finally:
            took = time.perf_counter() - began
            self._metrics.plugins.labels(plugin, point, status).observe(took)
            self._metrics.points.labels(point, status, self._profile).observe(took)

    def is_turn(self) -> bool:
        """Whether this decision is one to measure."""
        if self._metrics is None:
            return False
        self._turn += 1
        return self._turn % EVERY == 1

    @contextmanager
    def sampled(self, points: Mapping[str, Sequence[Any]]) -> Iterator[None]:
        """The plug-ins' methods are wrapped for the length of the block, in which nothing may wait."""
        spent: dict[str, float] = {}
        undo = [
            _wrap(plugin, method, self._timed(getattr(plugin, method), point, plugin.name, spent))
            for point, (key, method) in _SAMPLED.items()
            for plugin in points.get(key, ())
            if hasattr(plugin, method) and hasattr(plugin, "__dict__")
        ]
        try:
            yield
        finally:
            for back in undo:
                back()
            assert self._metrics is not None
            for point, took in spent.items():
                self._metrics.points.labels(point, _SUCCESS, self._profile).observe(took)

    def _timed(
        self, method: Callable[..., Any], point: str, plugin: str, spent: dict[str, float]
    ) -> Callable[..., Any]:
        assert self._metrics is not None
        family = self._metrics.plugins

        def timed(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*given)
            finally:
                took = time.perf_counter() - began
                family.labels(plugin, point, _SUCCESS).observe(took)
                spent[point] = spent.get(point, 0.0) + took

        return timed


def _wrap(plugin: Any, method: str, wrapped: Callable[..., Any]) -> Callable[[], None]:
    """What undoes it."""
    own = vars(plugin).get(method)
    setattr(plugin, method, wrapped)
    if own is None:
        return lambda: delattr(plugin, method)
    return lambda: setattr(plugin, method, own)


__all__ = ["EVERY", "PointMetrics"]
