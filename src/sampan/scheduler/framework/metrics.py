"""How long plug-ins take, by extension point: stamped by the runner, so that no plug-in needs to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PointMetrics:
    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = {}
        """By point and plug-in."""
        self.calls: dict[tuple[str, str], int] = {}

    @contextmanager
    def measured(self, point: str, plugin: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            key = (point, plugin)
            self.seconds[key] = self.seconds.get(key, 0.0) + time.perf_counter() - began
            self.calls[key] = self.calls.get(key, 0) + 1


__all__ = ["PointMetrics"]
