"""Durations of plugins by extension point, recorded by the framework so that plugins do not have to.

PostFilter and the points from Reserve on are always measured. The plugins of a scheduling cycle are many and fast:
they are measured in one of `SAMPLE_INTERVAL` cycles, in which their methods are wrapped; the other cycles have no
overhead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sampan.scheduler.framework.contract import Code
from sampan.scheduler.framework.extension_points import ExtensionPoints, SchedulerPlugin, ScoreExtensions

if TYPE_CHECKING:
    from sampan.scheduler.metrics import SchedulerMetrics

SAMPLE_INTERVAL = 32
_COUNTED_POINTS = ("PreFilter", "Filter", "PreScore", "Score")
"""Points whose plugin evaluations are counted; each evaluation in a measured cycle counts `SAMPLE_INTERVAL` times."""


class MeasuredStatus:
    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = Code.SUCCESS


class _Timer:
    """Times a block that raises nothing but cancellation; the block stores its status in the MeasuredStatus."""

    __slots__ = ("_observe", "_start", "_status")

    def __init__(self, observe: Callable[[str, float], None] | None) -> None:
        self._observe, self._status, self._start = observe, MeasuredStatus(), 0.0

    def __enter__(self) -> MeasuredStatus:
        self._start = time.perf_counter()
        return self._status

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if self._observe is not None:
            code = self._status.code if kind is None else Code.ERROR
            self._observe(code.value, time.perf_counter() - self._start)


class PointMetrics:
    def __init__(self, *, profile: str = "", metrics: SchedulerMetrics | None = None) -> None:
        self._profile, self._metrics = profile, metrics
        self._cycles = 0

    def point(self, name: str) -> _Timer:
        """Time all plugins of an extension point."""
        return _Timer(None if self._metrics is None else partial(self._observe_point, name))

    def plugin(self, point: str, name: str) -> _Timer:
        """Time one plugin at an extension point."""
        return _Timer(None if self._metrics is None else partial(self._observe_plugin, point, name))

    def _observe_point(self, point: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.points.labels(point, status, self._profile).observe(seconds)

    def _observe_plugin(self, point: str, plugin: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.plugins.labels(plugin, point, status).observe(seconds)

    def start_cycle(self) -> bool:
        """Count a scheduling cycle and return whether to measure it."""
        if self._metrics is None:
            return False
        self._cycles += 1
        return self._cycles % SAMPLE_INTERVAL == 1

    @contextmanager
    def measure_methods(self, methods: Sequence[SampledMethod]) -> Iterator[None]:
        """Wrap the plugins' methods for the duration of the block, which must not await."""
        spent: dict[str, float] = {}
        undo = [
            _wrap(plugin, method, self._time_method(getattr(plugin, method), point, plugin.name, spent))
            for point, plugin, method in methods
        ]
        try:
            yield
        finally:
            for restore in undo:
                restore()
            assert self._metrics is not None
            for point, took in spent.items():
                self._metrics.points.labels(point, Code.SUCCESS.value, self._profile).observe(took)

    def _time_method(
        self, method: Callable[..., Any], point: str, plugin: str, spent: dict[str, float]
    ) -> Callable[..., Any]:
        assert self._metrics is not None
        family, evaluations = self._metrics.plugins, self._metrics.evaluations
        is_counted = point not in _COUNTED_POINTS

        def call_and_measure(*args: Any) -> Any:
            nonlocal is_counted
            if not is_counted:
                is_counted = True
                evaluations.labels(plugin, point, self._profile).inc(SAMPLE_INTERVAL)
            began = time.perf_counter()
            try:
                return method(*args)
            finally:
                took = time.perf_counter() - began
                family.labels(plugin, point, Code.SUCCESS.value).observe(took)
                spent[point] = spent.get(point, 0.0) + took

        return call_and_measure


class SampledMethod(NamedTuple):
    """A method of a plugin that runs in the scheduling cycle."""

    point: str
    """The extension point as named in metrics."""
    plugin: SchedulerPlugin
    method: str


def sampled_methods(points: ExtensionPoints) -> list[SampledMethod]:
    """Return the methods to measure; a plugin without instance attributes is left out: it cannot be wrapped."""
    normalizing = [plugin for plugin in points.score if isinstance(plugin, ScoreExtensions)]
    methods = [
        *(SampledMethod("PreFilter", plugin, "pre_filter") for plugin in points.pre_filter),
        *(SampledMethod("Filter", plugin, "filter") for plugin in points.filter),
        *(SampledMethod("PreScore", plugin, "pre_score") for plugin in points.pre_score),
        *(SampledMethod("Score", plugin, "score") for plugin in points.score),
        *(SampledMethod("ScoreExtensionNormalize", plugin, "normalize") for plugin in normalizing),
    ]
    return [method for method in methods if type(method.plugin).__dictoffset__]


def _wrap(plugin: SchedulerPlugin, method: str, wrapped: Callable[..., Any]) -> Callable[[], None]:
    """Replace the method and return a function that restores it."""
    own = vars(plugin).get(method)
    setattr(plugin, method, wrapped)
    if own is None:
        return lambda: delattr(plugin, method)
    return lambda: setattr(plugin, method, own)
