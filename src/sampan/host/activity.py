"""Idle detection for a virtual clock, which must not advance before all work that it triggered is finished.

An owner of work (a transport, a set of queues) has an `Activity`. It wraps work that finishes without the clock
advancing in `with activity:`, and calls `step()` for work that proceeds on its own within a few turns of the event
loop. The composition root registers `idle` with `VirtualClock.on_idle`. With a real clock `idle` is never called, and
the counting costs next to nothing.
"""

import asyncio


class Activity:
    def __init__(self) -> None:
        self._under_way = 0
        self._steps = 0
        self._reported = 0
        """The value of `_steps` at the last call of `idle`."""
        self._rest: asyncio.Event | None = None

    def step(self) -> None:
        """Record that something happened that other tasks will react to."""
        self._steps += 1

    def __enter__(self) -> None:
        self._under_way += 1
        self._steps += 1

    def __exit__(self, *exc: object) -> None:
        self._under_way -= 1
        if self._under_way == 0 and self._rest is not None:
            self._rest.set()

    async def idle(self) -> bool:
        """Wait until no work is in progress; return whether there was any work or step since the last call."""
        while self._under_way:
            self._rest = asyncio.Event()
            await self._rest.wait()
        self._rest = None
        happened = self._steps != self._reported
        self._reported = self._steps
        return happened
