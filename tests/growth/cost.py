"""CPU time of a piece of work at several sizes, and whether it grows faster than n log n."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sampan.host.bounded_cache import BoundedCache

FACTOR = 4
"""The larger input has this many times the items of the smaller one."""
MOST_GROWTH = 7.0
"""How many times the CPU time of the smaller input the larger one may take: linear work takes 4 times, n log n work
below 5, quadratic work 16 times. The rest is for caches and for machines that are busy with something else."""
MOST_GROWTH_OF_HALVES = 2.6
"""How many times the CPU time of half of the items all of them may take if the whole range grows too fast. Work that is
done in another way above a certain size (in a thread, in pieces) has one step in its cost, and so exceeds this in one
half of the range; work above n log n exceeds it in both: n ** 1.5 takes 2.8 times."""
FLOOR_S = 0.06
"""The CPU time that the larger input may take, whatever its growth."""
REPEATS = 5

Work = Callable[[int], Awaitable[Any]]
"""Sends a request of that size. Everything that is not to be measured has been prepared before."""


@dataclass(frozen=True, slots=True)
class Growth:
    """CPU times of one kind of request with `count` items, half of them and a quarter of them."""

    name: str
    count: int
    small_s: float
    middle_s: float
    large_s: float

    @property
    def ratio(self) -> float:
        return self.large_s / max(self.small_s, 1e-6)

    @property
    def is_suspect(self) -> bool:
        return self.large_s > FLOOR_S and self.ratio > MOST_GROWTH

    @property
    def is_too_fast(self) -> bool:
        lower, upper = self.middle_s / max(self.small_s, 1e-6), self.large_s / max(self.middle_s, 1e-6)
        return self.is_suspect and min(lower, upper) > MOST_GROWTH_OF_HALVES

    def __str__(self) -> str:
        sizes = (
            f"{self.count // FACTOR} items {self.small_s * 1e3:.1f} ms, {self.count // 2} items "
            f"{self.middle_s * 1e3:.1f} ms, {self.count} items {self.large_s * 1e3:.1f} ms"
        )
        return f"{self.name}: {sizes}, {self.ratio:.1f} times as much"


@contextmanager
def without_collector() -> Iterator[None]:
    """Disable the garbage collector, which runs at odd times and collects the garbage of other tests."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def without_value_caches() -> Iterator[None]:
    """Bypass the caches of parsed values (quantities, times): values that fit into a cache are cheaper than those of a
    larger input that do not, which is a step and no growth."""
    caches = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("sampan.")
        for value in vars(module).values()
        if isinstance(value, BoundedCache)
    ]
    sizes = [cache.max_entries for cache in caches]
    for cache in caches:
        cache.max_entries = 0
        cache.clear()
    try:
        yield
    finally:
        for cache, max_entries in zip(caches, sizes, strict=True):
            cache.max_entries = max_entries


async def cpu_time(work: Work, count: int) -> float:
    start = time.process_time()
    await work(count)
    return time.process_time() - start


async def measure_growth(name: str, work: Work, count: int, prepare: Work | None = None) -> Growth:
    """Measure the growth from a quarter of `count` to `count`.

    Cheap requests are sent once; those that look too expensive are measured again, all sizes in turn, and the best
    times count. The cost of `prepare`, which is called before each measurement, does not count.
    """
    sizes = (count // FACTOR, count // 2, count)
    best = dict.fromkeys(sizes, float("inf"))

    async def measure(size: int) -> float:
        if prepare is not None:
            await prepare(size)
        best[size] = min(best[size], await cpu_time(work, size))
        return best[size]

    def result() -> Growth:
        return Growth(name, count, *(best[size] for size in sizes))

    with without_collector():
        large = await measure(count)
        if large <= FLOOR_S:
            return Growth(name, count, large, large, large)
        if large <= await measure(sizes[0]) * MOST_GROWTH:
            return Growth(name, count, best[sizes[0]], best[sizes[0]], large)
    with without_collector(), without_value_caches():
        best = dict.fromkeys(sizes, float("inf"))
        for _ in range(REPEATS):
            for size in sizes:
                await measure(size)
            if not result().is_suspect:
                break
        return result()


def report(offenders: list[Growth]) -> str:
    """Return the message of a failed test, with the most expensive requests first."""
    worst = sorted(offenders, key=lambda growth: -growth.large_s)
    return "\n".join([f"{len(worst)} kinds of requests cost more than n log n:", *map(str, worst[:50])])
