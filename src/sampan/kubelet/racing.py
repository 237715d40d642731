"""Runs work that is abandoned when something else completes first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class GivenUp(Exception):
    """The other coroutine completed first."""


async def unless(sooner: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, or raise its exception. Raise GivenUp if `sooner` completes first. Neither coroutine
    outlives the call, even if the caller is cancelled.
    """
    both = task, _ = asyncio.ensure_future(work), asyncio.ensure_future(sooner)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise GivenUp
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)
