"""CPU time of a piece of work at two sizes, and whether it grows faster than n log n."""

from __future__ import annotations

import gc
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

FACTOR = 4
"""The larger input has this many times the items of the smaller one."""
MOST_GROWTH = 7.0
"""How many times the CPU time of the smaller input the larger one may take: linear work takes 4 times, n log n work
below 5, quadratic work 16 times. The rest is for caches and for machines that are busy with something else."""
FLOOR_S = 0.06
"""What the larger input may take in any case, however it grows."""
REPEATS = 3

Work = Callable[[int], Awaitable[Any]]
"""Sends a request of that size. Everything that is not to be measured has been prepared before."""


@dataclass(frozen=True, slots=True)
class Growth:
    """CPU times of one kind of request with `count` items and with a quarter of them."""

    name: str
    count: int
    small_s: float
    large_s: float

    @property
    def ratio(self) -> float:
        return self.large_s / max(self.small_s, 1e-6)

    @property
    def is_too_fast(self) -> bool:
        return self.large_s > FLOOR_S and self.ratio > MOST_GROWTH

    def __str__(self) -> str:
        sizes = (
            f"{self.count // FACTOR} items {self.small_s * 1e3:.1f} ms, {self.count} items {self.large_s * 1e3:.1f} ms"
        )
        return f"{self.name}: {sizes}, {self.ratio:.1f} times as much"


@contextmanager
def without_collector() -> Iterator[None]:
    """Garbage collections come at odd times, and cost what other tests left behind."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def cpu_time(work: Work, count: int) -> float:
    start = time.process_time()
    await work(count)
    return time.process_time() - start


async def growth(name: str, work: Work, count: int, prepare: Work | None = None) -> Growth:
    """The growth from a quarter of `count` to `count`. Cheap requests are sent once; those that look too expensive are
    measured again, and the best times count. What `prepare` does for a size before it is measured costs nothing."""

    async def best(size: int, repeats: int) -> float:
        if prepare is not None:
            await prepare(size)
        return min([await cpu_time(work, size) for _ in range(repeats)])

    with without_collector():
        large = await best(count, 1)
        if large <= FLOOR_S:
            return Growth(name, count, large, large)
        small = await best(count // FACTOR, REPEATS)
        if large > small * MOST_GROWTH:
            large = min(large, await best(count, REPEATS))
        if large > small * MOST_GROWTH:
            small = min(small, await best(count // FACTOR, REPEATS))
        return Growth(name, count, small, large)


def report(offenders: list[Growth]) -> str:
    """The offenders for a failed test, the worst first."""
    worst = sorted(offenders, key=lambda growth: -growth.large_s)
    return "\n".join([f"{len(worst)} kinds of requests cost more than n log n:", *map(str, worst[:50])])
