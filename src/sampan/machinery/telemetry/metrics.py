"""Counters, gauges and histograms, and their Prometheus text format; the metrics of the process and its event loop.

The composition root creates a `Metrics` and passes it to the components, which register their metrics with it. Counting
is a dictionary lookup and an addition; all formatting is done when the metrics are scraped.

prometheus_client does more for each sample, such as locking: to find a counter by its labels and to increment it takes
1.5 microseconds instead of 0.2, an observation 2.0 instead of 0.3, and the text of 400 histograms 83 ms instead of 32.
Importing it takes 70 ms.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Sample = tuple[Labels, float]
Read = Callable[[], float | Iterable[Sample]]
"""Returns the current value, or one sample for each combination of labels."""

DURATION_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)

_MAX_LABEL_NAMES = 1000
OTHER = "other"
"""The label value in place of the names that exceed the maximum number of names."""

LAG_INTERVAL_S = 0.1
_PROC = Path("/proc/self")
_STARTED = time.time()
_LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class MetricNumber:
    """A counter or a gauge with all label values set."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        self.value += by

    def dec(self, by: float = 1) -> None:
        self.value -= by

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """A histogram with all label values set."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Observations per bucket, not cumulative; the text format adds them up."""
        self.total: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Histogram) -> None:
        """Add the observations of a histogram that has at least the bounds of this one."""
        for bound, count in zip((*other.bounds, float("inf")), other.counts, strict=True):
            self.counts[bisect_left(self.bounds, bound)] += count
        self.total += other.total


C = TypeVar("C", MetricNumber, Histogram)


class MetricFamily(Generic[C]):
    """All values of one metric name, by their label values."""

    def __init__(self, *, name: str, kind: str, help: str, labels: Labels, make: Callable[[], C]) -> None:
        self.name, self.kind, self.help, self.label_names = name, kind, help, labels
        self._make: Callable[[], C] = make
        self._children: dict[Labels, C] = {}

    def labels(self, *values: str) -> C:
        """Return the value with these label values, in the order in which the labels were declared. Hot paths should
        keep the result."""
        child = self._children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, not {values}")
            child = self._children[values] = self._make()
        return child

    def remove(self, *values: str) -> None:
        self._children.pop(values, None)

    def lines(self) -> Iterator[str]:
        for values in sorted(self._children):
            child, labels = self._children[values], _labels(self.label_names, values)
            if isinstance(child, Histogram):
                yield from _distribution(self.name, labels, child)
            else:
                yield _line(self.name, labels, child.value)


class LabelNames:
    """The names of objects that are used as label values; at most `most` different ones. Objects with generated names
    would otherwise let the number of label values grow without bounds."""

    def __init__(self, maximum: int = _MAX_LABEL_NAMES) -> None:
        self._maximum = maximum
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= self._maximum:
                return OTHER
            self._names.add(name)
        return name


ReadDistributions = Callable[[], Iterable[tuple[Labels, Histogram]]]
"""Returns one distribution for each combination of labels."""


class ComputedMetric:
    """A metric whose values are computed at each scrape."""

    def __init__(self, *, name: str, kind: str, help: str, labels: Labels, read: Read) -> None:
        self.name, self.kind, self.help, self.label_names = name, kind, help, labels
        self._read = read

    def lines(self) -> Iterator[str]:
        measured = self._read()
        samples: Iterable[Sample] = [((), measured)] if isinstance(measured, int | float) else measured
        for values, value in sorted(samples):
            yield _line(self.name, _labels(self.label_names, values), value)


class ComputedHistogram:
    """A histogram whose distributions are computed at each scrape."""

    kind = "histogram"

    def __init__(self, *, name: str, help: str, labels: Labels, read: ReadDistributions) -> None:
        self.name, self.help, self.label_names = name, help, labels
        self._read = read

    def lines(self) -> Iterator[str]:
        for values, distribution in sorted(self._read(), key=lambda sample: sample[0]):
            yield from _distribution(self.name, _labels(self.label_names, values), distribution)


class WritableMetric(Protocol):
    name: str
    kind: str
    help: str

    def lines(self) -> Iterator[str]: ...


class Metrics:
    def __init__(self) -> None:
        self._families: dict[str, WritableMetric] = {}

    def counter(self, name: str, help: str, labels: Labels = ()) -> MetricFamily[MetricNumber]:
        return self._add(MetricFamily(name=name, kind="counter", help=help, labels=labels, make=MetricNumber))

    def gauge(self, name: str, help: str, labels: Labels = ()) -> MetricFamily[MetricNumber]:
        return self._add(MetricFamily(name=name, kind="gauge", help=help, labels=labels, make=MetricNumber))

    def histogram(
        self, name: str, help: str, labels: Labels = (), buckets: Sequence[float] = DURATION_BUCKETS
    ) -> MetricFamily[Histogram]:
        bounds = tuple(sorted(buckets))
        return self._add(
            MetricFamily(name=name, kind="histogram", help=help, labels=labels, make=lambda: Histogram(bounds))
        )

    def function(self, name: str, help: str, read: Read, labels: Labels = (), kind: str = "gauge") -> None:
        """Register a metric whose value `read` returns at each scrape."""
        self._add(ComputedMetric(name=name, kind=kind, help=help, labels=labels, read=read))

    def distributions(self, name: str, help: str, read: ReadDistributions, labels: Labels = ()) -> None:
        """Register a histogram whose distributions `read` returns at each scrape."""
        self._add(ComputedHistogram(name=name, help=help, labels=labels, read=read))

    def include(self, family: WritableMetric) -> None:
        """Include a metric that was registered elsewhere."""
        self._add(family)

    def text(self) -> str:
        lines: list[str] = []
        for name in sorted(self._families):
            family = self._families[name]
            values = list(family.lines())
            if values:
                lines += (f"# HELP {name} {_escape_help(family.help)}", f"# TYPE {name} {family.kind}", *values)
        return "\n".join(lines) + "\n" if lines else ""

    def _add(self, family: F) -> F:
        if family.name in self._families:
            raise ValueError(f"metric {family.name} is already registered")
        self._families[family.name] = family
        return family


F = TypeVar("F", bound=WritableMetric)


def _distribution(name: str, labels: list[str], distribution: Histogram) -> Iterator[str]:
    count = 0
    for bound, inside in zip((*distribution.bounds, float("inf")), distribution.counts, strict=True):
        count += inside
        yield _line(f"{name}_bucket", [*labels, f'le="{_number(bound)}"'], count)
    yield _line(f"{name}_sum", labels, distribution.total)
    yield _line(f"{name}_count", labels, count)


def _line(name: str, labels: list[str], value: float) -> str:
    return f"{name}{{{','.join(labels)}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _labels(names: Labels, values: Labels) -> list[str]:
    return [f'{name}="{escape_label(value)}"' for name, value in zip(names, values, strict=True)]


def escape_label(text: str) -> str:
    """Escape the value of a label for the Prometheus text format."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    whole = int(value) if value == value else 0
    return str(whole) if value == whole and abs(whole) < 1 << 53 else repr(float(value)).replace("nan", "NaN")


def export_process(metrics: Metrics) -> None:
    """Export the standard process metrics, under the names that every Prometheus client uses."""
    metrics.function(
        "process_cpu_seconds_total", "User and system CPU time of the process in seconds.", _cpu_s, kind="counter"
    )
    export_start_time(metrics)
    metrics.function("process_resident_memory_bytes", "Resident memory in bytes.", lambda: _memory()[0])
    metrics.function("process_virtual_memory_bytes", "Virtual memory in bytes.", lambda: _memory()[1])
    metrics.function("process_open_fds", "Number of open file descriptors.", _open_files)
    metrics.function("process_max_fds", "Largest number of open file descriptors.", _max_open_files)


def export_start_time(metrics: Metrics) -> None:
    metrics.function(
        "process_start_time_seconds", "Start time of the process in seconds since the Unix epoch.", lambda: _STARTED
    )


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system


def _memory() -> tuple[int, int]:
    """Return the resident and the virtual memory in bytes."""
    try:
        virtual, resident, *_ = (_PROC / "statm").read_text().split()
    except OSError:  # not Linux: use the peak resident size
        import resource

        maximum = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return maximum if sys.platform == "darwin" else maximum * 1024, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(virtual) * page


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0


def _max_open_files() -> int:
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class LoopLag:
    """Wakes up at regular intervals and measures how late it is: for that long something else blocked the event loop.

    `on_beat` is called each time, so that a watchdog knows that the loop is running.
    """

    def __init__(
        self, *, metrics: Metrics, interval_s: float = LAG_INTERVAL_S, on_beat: Callable[[], None] | None = None
    ) -> None:
        self._interval_s, self._on_beat = interval_s, on_beat
        self._lag = metrics.histogram(
            "sampan_loop_lag_seconds", "Delay of the event loop in running scheduled calls.", buckets=_LAG_BUCKETS
        ).labels()
        self.worst_s = 0.0
        metrics.function(
            "sampan_loop_lag_max_seconds",
            "Largest delay of the event loop since the process started.",
            lambda: self.worst_s,
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self._interval_s
        while True:
            await asyncio.sleep(due - loop.time())
            now = loop.time()
            late = max(now - due, 0.0)
            self._lag.observe(late)
            self.worst_s = max(self.worst_s, late)
            if self._on_beat is not None:
                self._on_beat()
            due = now + self._interval_s
