"""Batches of requests that are likely to fail for the same reason: small at first, doubled after each success."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

FIRST = 1
"""The default size of the first batch."""
BURST = 500
"""The maximum number of pods created or deleted in one sync, as in Kubernetes. The rest follows in later syncs."""


class Outcome(NamedTuple):
    successes: int
    error: Exception | None = None
    """The first error of the last batch."""


async def slow_start(count: int, first: int, step: Callable[[int], Awaitable[Any]]) -> Outcome:
    """Call `step(0)` to `step(count - 1)` in concurrent batches: `first` calls, then twice as many, and so on.

    No further batch is started after one with an error.
    """
    done, size = 0, min(first, count)
    while size > 0:
        failures = [error for error in await _together(done, size, step) if error is not None]
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
    """Call `step(0)` to `step(count - 1)` concurrently. All of them run; the first error is returned."""
    if not count:
        return None
    return next((error for error in await _together(0, count, step) if error is not None), None)


async def _failure(call: Awaitable[Any]) -> Exception | None:
    try:
        await call
    except Exception as error:
        return error
    return None
