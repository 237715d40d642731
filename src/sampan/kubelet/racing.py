"""Work that may take long, and is given up when something else happens first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class GivenUp(Exception):
    """The other was sooner."""


async def unless(sooner: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, or raises; GivenUp where `sooner` is done before it. Neither goes on afterwards, also if who
    waits here is cancelled."""
    both = task, _ = asyncio.ensure_future(work), asyncio.ensure_future(sooner)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise GivenUp
    finally:
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)


__all__ = ["GivenUp", "unless"]
