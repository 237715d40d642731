"""Frames of a page from a trace of Chromium: which were dropped because of the page, and which because the machine had
no time for the browser."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

FRAME_US = 1e6 / 60
MOST_OF_A_FRAME_US = FRAME_US * 0.8
LONG_TASK_US = 50_000

TraceEvent = dict[str, Any]


class FrameReport(NamedTuple):
    drawn: int
    dropped_by_page: int
    """Dropped frames before which the main thread of the page computed for most of a frame."""
    dropped_by_machine: int
    """Other dropped frames: the main thread was idle or waited for a processor."""
    long_tasks: int
    """Tasks that computed for more than 50 ms."""
    longest_task_ms: float
    busy_ms_per_frame: float
    """The 99th percentile of the CPU time of the main thread in an interval of one frame."""
    busy_percent: float
    """The share of a core that the main thread used."""


def frame_report(events: Iterable[TraceEvent]) -> FrameReport:
    """Compute the report for the page that computed most. Times of CPU are those of its main thread."""
    events = list(events)
    tasks = _main_tasks(events)
    drawn = [event["ts"] for event in events if event["name"] == "DrawFrame"]
    dropped = [event["ts"] for event in events if event["name"] == "DroppedFrame"]
    by_page = sum(_cpu_us(tasks, time - FRAME_US, time) >= MOST_OF_A_FRAME_US for time in dropped)
    times = sorted([*drawn, *dropped])
    per_frame = sorted(_shares(tasks, times[0], times[-1])) if len(times) > 1 else [0.0]
    span_us = max(1.0, times[-1] - times[0]) if times else 1.0
    return FrameReport(
        drawn=len(drawn),
        dropped_by_page=by_page,
        dropped_by_machine=len(dropped) - by_page,
        long_tasks=sum(task["tdur"] > LONG_TASK_US for task in tasks),
        longest_task_ms=max((task["tdur"] for task in tasks), default=0.0) / 1000,
        busy_ms_per_frame=per_frame[int(len(per_frame) * 0.99) - 1] / 1000,
        busy_percent=sum(task["tdur"] for task in tasks) / span_us * 100,
    )


def _main_tasks(events: Sequence[TraceEvent]) -> list[TraceEvent]:
    """Return the tasks of the main thread of the busiest page, with their CPU times in `tdur`."""
    threads = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event
        for event in events
        if event["name"] == "RunTask" and "tdur" in event and (event["pid"], event["tid"]) in threads
    ]
    busy: Counter[int] = Counter()
    for task in tasks:
        busy[task["pid"]] += task["tdur"]
    busiest = busy.most_common(1)[0][0] if busy else 0
    return sorted((task for task in tasks if task["pid"] == busiest), key=lambda task: task["ts"])


def _cpu_us(tasks: Sequence[TraceEvent], start: float, end: float) -> float:
    """Return the CPU time between two times. A task is taken to compute evenly from its start to its end."""
    total = 0.0
    for task in tasks:
        overlap = min(end, task["ts"] + task["dur"]) - max(start, task["ts"])
        if overlap > 0:
            total += task["tdur"] * overlap / max(1, task["dur"])
    return total


def _shares(tasks: Sequence[TraceEvent], start: float, end: float) -> list[float]:
    """Return the CPU time in each interval of one frame."""
    shares = [0.0] * (int((end - start) / FRAME_US) + 1)
    for task in tasks:
        first = max(0, int((task["ts"] - start) / FRAME_US))
        last = min(len(shares) - 1, int((task["ts"] + task["dur"] - start) / FRAME_US))
        for index in range(first, last + 1):
            left = max(task["ts"], start + index * FRAME_US)
            right = min(task["ts"] + task["dur"], start + (index + 1) * FRAME_US)
            shares[index] += task["tdur"] * max(0.0, right - left) / max(1, task["dur"])
    return shares
