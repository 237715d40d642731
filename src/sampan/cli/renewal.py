"""Certificates of the cluster's own CA are renewed in time, while it runs."""

from __future__ import annotations

import logging
from typing import Protocol

from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

BEFORE_S = 60 * 24 * 3600
"""How long before they end certificates are renewed."""
_LONGEST_S = 3600
_RETRY_S = 300


class Renewable(Protocol):
    def due(self) -> float:
        """When it should be renewed, in seconds since the epoch."""

    def renew(self, now: float) -> None:
        """Make it anew and put it to use: some milliseconds in a year. `OSError` if that cannot be done now,
        `ValueError` if what it is made from is of no use."""


class Renewals:
    """`run()` until cancelled. What is added later is looked at within an hour; so is a wall clock that was set."""

    def __init__(self) -> None:
        self._all: list[Renewable] = []

    def add(self, one: Renewable) -> None:
        self._all.append(one)

    async def run(self, clock: Clock) -> None:
        while True:
            await clock.sleep(self._renewed(clock.now()))

    def _renewed(self, now: float) -> float:
        """In how many seconds to look again. One that fails keeps no other from it."""
        soonest = min((self._next(one, now) for one in self._all), default=now + _LONGEST_S)
        return min(max(soonest - now, _RETRY_S), _LONGEST_S)

    def _next(self, one: Renewable, now: float) -> float:
        """When to look at it again; as soon as possible if it could not be renewed."""
        try:
            if one.due() <= now:
                one.renew(now)
            return one.due()
        except (OSError, ValueError) as fault:
            log.error("cannot renew a certificate: %s", fault)
            return now


__all__ = ["BEFORE_S", "Renewable", "Renewals"]
