"""The cost of input of up to 100 kB: at most half a second of CPU time and 100 MB of memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Final

from benchmarks.machine import calibration

MOST_CPU_S: Final = 0.5
"""On the reference machine of the benchmarks, in the speed that this one has at the moment."""
MOST_MEMORY: Final = 100 << 20


def check_cost(work: Callable[[], object]) -> None:
    """Run the work for its CPU time and once more for its memory, since tracing makes Python several times slower.

    Work that looks expensive is measured again, and the best time counts: a busy machine makes everything slower.
    """
    assert is_quick(work)
    assert peak_memory(work) < MOST_MEMORY


def is_quick(work: Callable[[], object], limit_s: float = MOST_CPU_S) -> bool:
    """Whether the work takes less CPU time than the limit, which is larger on a slower or busy machine."""
    return is_cpu_time_within(min_cpu_s(work, limit_s), limit_s)


def is_cpu_time_within(spent_s: float, limit_s: float) -> bool:
    """Whether the CPU time is below a limit for the reference machine, in the speed that this machine has now: other
    processes on its cores make every second of CPU time do less."""
    return spent_s < limit_s or spent_s < limit_s * calibration(tries=3)


def min_cpu_s(work: Callable[[], object], enough_s: float = MOST_CPU_S) -> float:
    """Return the CPU time of the quickest of up to three runs; a run that takes less than `enough_s` is the last."""
    best = cpu_s(work)
    for _ in range(2):
        if best < enough_s:
            break
        best = min(best, cpu_s(work))
    return best


def cpu_s(work: Callable[[], object]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def peak_memory(work: Callable[[], object]) -> int:
    """Return the most memory that the work takes, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
