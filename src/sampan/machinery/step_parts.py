"""The parts of a step of the flight recorder, such as the plug-ins and webhooks that admitted a request. One text takes
less memory than a record for each part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_MOST_PARTS = 64
WEBHOOK = "webhook "
"""The start of the name of a part that is the call of an admission webhook."""
QUEUE = "wait in the queue"
"""The name of the part before a scheduling cycle: the time since the pod was first added to the queue."""


class StepParts:
    """As text, parts are separated by semicolons, and each is `NAME=START+DURATION` in microseconds since the start of
    the step."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._texts: list[str] = []

    def add(self, name: str, start: float, end: float) -> None:
        """Add a part; start and end are values of `time.perf_counter()`."""
        if len(self._texts) < _MOST_PARTS:
            self._texts.append(f"{name}={round((start - self._began) * 1e6)}+{round((end - start) * 1e6)}")

    def __str__(self) -> str:
        return ";".join(self._texts)


_current: ContextVar[StepParts | None] = ContextVar("step_parts", default=None)
"""The step that the current task carries out. Code far below the step adds its parts without knowing the recorder."""


def current_parts() -> StepParts | None:
    """Return where parts of the current step are collected, or None if nobody collects them."""
    return _current.get()


@contextmanager
def collect_parts() -> Iterator[StepParts]:
    """Collect the parts of the step that the block carries out."""
    parts = StepParts()
    token = _current.set(parts)
    try:
        yield parts
    finally:
        _current.reset(token)


@contextmanager
def step_part(name: str) -> Iterator[None]:
    """Add the block as a part of the current step, even if it raises an exception."""
    parts, start = _current.get(), time.perf_counter()
    try:
        yield
    finally:
        if parts is not None:
            parts.add(name, start, time.perf_counter())


def parse_parts(text: str) -> Iterator[tuple[str, float, float]]:
    """Return the name, the start in seconds since the start of the step, and the duration in seconds of each part.
    Malformed parts are left out."""
    for part in text.split(";"):
        name, _, times = part.rpartition("=")
        start, _, took = times.partition("+")
        if name and start.removeprefix("-").isdecimal() and took.isdecimal():
            yield name, int(start) / 1e6, int(took) / 1e6
