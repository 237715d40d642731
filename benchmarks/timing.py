"""CPU time of single calls, and how long one of them blocks the event loop."""

import asyncio
import time
from collections.abc import Callable


def best_us(work: Callable[[], object], *, rounds: int = 7, times: int = 500) -> float:
    """Return the CPU microseconds of a call in the best of some rounds."""
    return min(_cpu_s(work, times) for _ in range(rounds)) / times * 1e6


def best_ns(work: Callable[[], object], *, rounds: int = 9, times: int = 20_000) -> float:
    """Return the CPU nanoseconds of a call in the best of some rounds, without those of the loop around it."""
    best = empty = float("inf")
    for _ in range(rounds):
        best = min(best, _cpu_s(work, times))
        empty = min(empty, _cpu_s(lambda: None, times))
    return (best - empty) / times * 1e9


def _cpu_s(work: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


async def longest_hold(until: asyncio.Event) -> float:
    """Return the most CPU seconds between two turns of this task, which the event loop spent in another one."""
    longest = 0.0
    while not until.is_set():
        start = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - start)
    return longest
