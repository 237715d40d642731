"""How often and how long a request is tried."""

import asyncio
import random

from msgspec import Struct

_CHANCE = random.Random()
"""Of its own: the one that all share is for tests to seed."""

MAX_GROWTH = 4
FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.5


class Timeouts(Struct, frozen=True, kw_only=True):
    """Transport time, in seconds of the event loop."""

    connect_s: float = 2.0
    attempt_s: float = 2.0
    """For the first attempt; the next may take longer. A leader that dies takes with it, unanswered, what members had
    passed on to it, and they wait longer for it than we do."""
    request_s: float = 15.0
    """For a request with all its attempts: a leader election fits in several times over."""


class Attempts:
    """The attempts at one request. The second comes at once, since another member may do it; later ones after longer
    and longer pauses. Each may take longer than the one before, so that what is slow for a reason gets through."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._end = asyncio.get_running_loop().time() + timeouts.request_s
        self._attempt_s, self._longest_s = timeouts.attempt_s, timeouts.attempt_s * MAX_GROWTH
        self._count = 0

    async def next(self) -> float | None:
        """How long the next attempt may take, None if there is no time for one."""
        count, self._count = self._count, self._count + 1
        if count >= 2:
            await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (count - 2), LAST_PAUSE_S) * _CHANCE.uniform(0.5, 1))
        left_s = self._end - asyncio.get_running_loop().time()
        attempt_s, self._attempt_s = self._attempt_s, min(self._attempt_s * 2, self._longest_s)
        return min(attempt_s, left_s) if left_s > 0 else None
