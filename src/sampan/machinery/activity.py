"""Knowing when nothing is under way, for a virtual clock that must not move on before everything it set off is done.

An owner of work (a transport, a set of queues) has an `Activity`: `with activity:` around what is sure to end without
the clock moving, `step()` for what goes on by itself within a few turns of the loop. The composition root registers
`idle` with `VirtualClock.on_idle`. Without a virtual clock nobody asks, and the counting costs next to nothing.
"""

import asyncio


class Activity:
    def __init__(self) -> None:
        self._under_way = 0
        self._steps = 0
        self._told = 0
        """How many steps there were when `idle` was last asked."""
        self._rest: asyncio.Event | None = None

    def step(self) -> None:
        """Something happened that others will react to."""
        self._steps += 1

    def __enter__(self) -> None:
        self._under_way += 1
        self._steps += 1

    def __exit__(self, *exc: object) -> None:
        self._under_way -= 1
        if self._under_way == 0 and self._rest is not None:
            self._rest.set()

    async def idle(self) -> bool:
        """Wait until nothing is under way; True if anything was, or happened since this was last asked."""
        while self._under_way:
            self._rest = asyncio.Event()
            await self._rest.wait()
        self._rest = None
        happened = self._steps != self._told
        self._told = self._steps
        return happened


__all__ = ["Activity"]
