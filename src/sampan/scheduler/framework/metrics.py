"""How long plug-ins take, by extension point: stamped by the runner, so that no plug-in needs to.

What comes after a decision (preemption, reserving, binding) is always measured. The plug-ins of a decision are many and
quick: they are measured in one of `EVERY` decisions, for which their methods are wrapped; the others pay nothing.
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
"""Points of which it is counted how often plug-ins are asked there: each that was in a decision that is measured stands
for as many as are not."""


class Outcome:
    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = Code.SUCCESS


class _Timed:
    """Of a block that never raises but for being cancelled; what came of it is put into what `with` gives."""

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
        """All plug-ins of a point."""
        return _Timed(None if self._metrics is None else partial(self._point_took, name))

    def plugin(self, point: str, name: str) -> _Timed:
        """One plug-in at a point."""
        return _Timed(None if self._metrics is None else partial(self._plugin_took, point, name))

    def _point_took(self, point: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.points.labels(point, status, self._profile).observe(seconds)

    def _plugin_took(self, point: str, plugin: str, status: str, seconds: float) -> None:
        assert self._metrics is not None
        self._metrics.plugins.labels(plugin, point, status).observe(seconds)

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
    """What undoes it."""
    own = vars(plugin).get(method)
    setattr(plugin, method, wrapped)
    if own is None:
        return lambda: delattr(plugin, method)
    return lambda: setattr(plugin, method, own)


__all__ = ["EVERY", "PointMetrics"]
