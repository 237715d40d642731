"""Metrics of the process's resource usage and of the event loop's lag."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sampan.machinery.metrics import Metrics

LAG_INTERVAL_S = 0.1
_PROC = Path("/proc/self")
_STARTED = time.time()
_LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


def export_process(metrics: Metrics) -> None:
    """Export the standard process metrics, under the names that every Prometheus client uses."""
    metrics.function(
        "process_cpu_seconds_total", "User and system CPU time of the process in seconds.", _cpu_s, kind="counter"
    )
    metrics.function(
        "process_start_time_seconds", "Start time of the process in seconds since the Unix epoch.", lambda: _STARTED
    )
    metrics.function("process_resident_memory_bytes", "Resident memory in bytes.", lambda: _memory()[0])
    metrics.function("process_virtual_memory_bytes", "Virtual memory in bytes.", lambda: _memory()[1])
    metrics.function("process_open_fds", "Number of open file descriptors.", _open_files)
    metrics.function("process_max_fds", "Largest number of open file descriptors.", _most_files)


def _cpu_s() -> float:
    used = os.times()
    return used.user + used.system


def _memory() -> tuple[int, int]:
    """Return the resident and the virtual memory in bytes."""
    try:
        virtual, resident, *_ = (_PROC / "statm").read_text().split()
    except OSError:  # not Linux: use the peak resident size
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(virtual) * page


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0


def _most_files() -> int:
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
