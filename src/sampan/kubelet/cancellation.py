"""Runs work that is cancelled when something else completes first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class WorkCancelled(Exception):
    """The work was cancelled because the other coroutine completed first."""


async def run_until(stop: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or raise its exception. Raise Cancelled if `stop` completes first. Neither coroutine
    outlives the call, even if the caller is cancelled.
    """
    both = task, _ = asyncio.ensure_future(work), asyncio.ensure_future(stop)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise WorkCancelled
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)
