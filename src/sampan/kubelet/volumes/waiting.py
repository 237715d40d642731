"""Waits for events with a timeout by the injected clock, and for threads even when cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from sampan.machinery.clock import Clock

T = TypeVar("T")


async def happens_by(clock: Clock, event: asyncio.Event, until: float) -> bool:
    """Wait until the event is set or the monotonic time `until` is reached. Return whether the event is set."""
    if clock.monotonic() >= until:
        return event.is_set()
    async with asyncio.TaskGroup() as group:
        waiter, sleeper = group.create_task(event.wait()), group.create_task(clock.sleep_monotonic(until))
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        sleeper.cancel()
    return event.is_set()


async def in_thread(call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Like `asyncio.to_thread`, but a cancelled caller waits until the thread has finished. Otherwise the thread might
    continue to mount while the caller assumes that nothing happens any more.
    """
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **options))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait((work,))
        raise
