"""Many calls of which all may fail for the same reason: few at first, more as they succeed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

FIRST = 1
"""How many calls the first batch has, unless told."""
BURST = 500
"""So many pods are created or deleted in one sync, as in the real controllers; the rest when these are seen."""


class Outcome(NamedTuple):
    successes: int
    error: Exception | None = None
    """The first failure of the batch that was the last."""


async def slow_start(count: int, first: int, step: Callable[[int], Awaitable[Any]]) -> Outcome:
    """Call `step(0)` to `step(count - 1)`: `first` of them at a time, then twice as many, and so on. A batch with a
    failure is the last."""
    done, size = 0, min(first, count)
    while size > 0:
        failures = [found for found in await _together(done, size, step) if found is not None]
        if failures:
            return Outcome(done + size - len(failures), failures[0])
        done += size
        size = min(2 * size, count - done)
    return Outcome(done)


async def _together(start: int, size: int, step: Callable[[int], Awaitable[Any]]) -> list[Exception | None]:
    if size == 1:
        return [await _failure(step(start))]
    return await asyncio.gather(*(_failure(step(at)) for at in range(start, start + size)))


async def all_at_once(count: int, step: Callable[[int], Awaitable[Any]]) -> Exception | None:
    """Call `step(0)` to `step(count - 1)`, all of them whatever happens; the first failure."""
    if not count:
        return None
    return next((found for found in await _together(0, count, step) if found is not None), None)


async def _failure(call: Awaitable[Any]) -> Exception | None:
    try:
        await call
    except Exception as error:
        return error
    return None


__all__ = ["BURST", "FIRST", "Outcome", "all_at_once", "slow_start"]
