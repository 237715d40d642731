"""Durations of plug-ins by extension point, recorded by the framework so that plug-ins do not have to.

PostFilter and the points from Reserve on are always measured. The plug-ins of a scheduling cycle are many and fast:
they are measured in one of `EVERY` cycles, in which their methods are wrapped; the other cycles have no overhead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from sampan.scheduler.framework.contract import Code

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
_COUNTED = ("PreFilter", "Filter", "PreScore", "Score")
"""Points whose plug-in evaluations are counted; each evaluation in a measured cycle counts `EVERY` times."""


class Outcome:
    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = Code.SUCCESS


class _Timed:
    """Times a block that raises nothing but cancellation; the block stores its status in the Outcome of the `with`."""

    __slots__ = ("_began", "_outcome", "_tell")

    def __init__(self, tell: Callable[[str, float], None] | None) -> None:
        self._tell, self._outcome, self._began = tell, Outcome(), 0.0

    def __enter__(self) -> Outcome:
        self._began = time.perf_counter()
        return self._outcome

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._tell is not None:
            code = self._outcome.code if kind is None else Code.ERROR
            self._tell(code.value, time.perf_counter() - self._began)


class PointMetrics:
    def __init__(self, *, profile: str = "", metrics: SchedulerMetrics | None = None) -> None:
        self._profile, self._metrics = profile, metrics
        self._turn = 0

    def point(self, name: str) -> _Timed:
        """Time all plug-ins of an extension point."""
        return _Timed(None if self._metrics is None else partial(self._point_took, name))

    def plugin(self, point: str, name: str) -> _Timed:
        """Time one plug-in at an extension point."""
        return _Timed(None if self._metrics is None else partial(self._plugin_took, point, name))

    def _point_took(self, point: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.points.labels(point, status, self._profile).observe(seconds)

    def _plugin_took(self, point: str, plugin: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.plugins.labels(plugin, point, status).observe(seconds)

    def is_turn(self) -> bool:
        """Count a scheduling cycle and return whether to measure it."""
        if self._metrics is None:
            return False
        self._turn += 1
        return self._turn % EVERY == 1

    @contextmanager
    def sampled(self, points: Mapping[str, Sequence[Any]]) -> Iterator[None]:
        """Wrap the plug-ins' methods for the duration of the block, which must not await."""
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
                self._metrics.points.labels(point, Code.SUCCESS.value, self._profile).observe(took)

    def _timed(
        self, method: Callable[..., Any], point: str, plugin: str, spent: dict[str, float]
    ) -> Callable[..., Any]:
        assert self._metrics is not None
        family, evaluations = self._metrics.plugins, self._metrics.evaluations
        is_counted = point not in _COUNTED

        def timed(*given: Any) -> Any:
            nonlocal is_counted
            if not is_counted:
                is_counted = True
                evaluations.labels(plugin, point, self._profile).inc(EVERY)
            began = time.perf_counter()
            try:
                return method(*given)
            finally:
                took = time.perf_counter() - began
                family.labels(plugin, point, Code.SUCCESS.value).observe(took)
                spent[point] = spent.get(point, 0.0) + took

        return timed


def _wrap(plugin: Any, method: str, wrapped: Callable[..., Any]) -> Callable[[], None]:
    """Replace the method and return a function that restores it."""
    own = vars(plugin).get(method)
    setattr(plugin, method, wrapped)
    if own is None:
        return lambda: delattr(plugin, method)
    return lambda: setattr(plugin, method, own)
