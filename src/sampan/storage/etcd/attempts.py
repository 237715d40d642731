"""How often and how long a request is attempted."""

import asyncio
import random

from msgspec import Struct

_CHANCE = random.Random()
"""A separate generator, because tests may seed the shared one."""

MAX_GROWTH = 4
FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.5


class Timeouts(Struct, frozen=True, kw_only=True):
    """Timeouts of requests, in seconds of the event loop's clock."""

    connect_s: float = 2.0
    attempt_s: float = 2.0
    """The timeout of the first attempt; later ones may take longer.

    If a leader dies, requests that members had forwarded to it are lost, and members wait for it longer than this.
    """
    request_s: float = 15.0
    """The timeout of a request with all its attempts, several times as long as a leader election."""


class Attempts:
    """The attempts of one request.

    The second follows at once, because another member may succeed; later ones follow after growing delays. Each may
    take longer than the one before, so that a request that is slow for a reason eventually succeeds.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._end = asyncio.get_running_loop().time() + timeouts.request_s
        self._attempt_s, self._longest_s = timeouts.attempt_s, timeouts.attempt_s * MAX_GROWTH
        self._count = 0

    async def next(self) -> float | None:
        """Wait for the next attempt and return its timeout, or None if no time is left."""
        count, self._count = self._count, self._count + 1
        if count >= 2:
            await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (count - 2), LAST_PAUSE_S) * _CHANCE.uniform(0.5, 1))
        left_s = self._end - asyncio.get_running_loop().time()
        attempt_s, self._attempt_s = self._attempt_s, min(self._attempt_s * 2, self._longest_s)
        return min(attempt_s, left_s) if left_s > 0 else None
