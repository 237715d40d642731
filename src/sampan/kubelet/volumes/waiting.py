"""Waiting for something, but not for ever, by the injected clock."""

from __future__ import annotations

import asyncio

from sampan.machinery.clock import Clock


async def happens_by(clock: Clock, event: asyncio.Event, until: float) -> bool:
    """Whether the event comes before that time."""
    if clock.now() >= until:
        return event.is_set()
    async with asyncio.TaskGroup() as group:
        waiter, sleeper = group.create_task(event.wait()), group.create_task(clock.sleep_until(until))
        await asyncio.wait((waiter, sleeper), return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        sleeper.cancel()
    return event.is_set()


__all__ = ["happens_by"]
