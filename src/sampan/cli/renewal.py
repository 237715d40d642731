"""Certificates of the cluster's own CA are renewed in time, while it runs."""

from __future__ import annotations

import logging
from typing import Protocol

from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

BEFORE_S = 60 * 24 * 3600
"""How long before they end certificates are renewed."""
_LONGEST_S = 24 * 3600
_RETRY_S = 300


class Renewable(Protocol):
    def due(self) -> float:
        """When it should be renewed, in seconds since the epoch."""

    def renew(self, now: float) -> None:
        """Make it anew and put it to use: some milliseconds in a year. `OSError` if that cannot be done now."""


class Renewals:
    """`run()` until cancelled. What is added later is looked at within a day."""

    def __init__(self) -> None:
        self._all: list[Renewable] = []

    def add(self, one: Renewable) -> None:
        self._all.append(one)

    async def run(self, clock: Clock) -> None:
        while True:
            await clock.sleep(self._renewed(clock.now()))

    def _renewed(self, now: float) -> float:
        """In how many seconds to look again."""
        for one in self._all:
            if one.due() > now:
                continue
            try:
                one.renew(now)
            except OSError as fault:
                log.error("a certificate could not be renewed: %s", fault)
                return _RETRY_S
        soonest = min((one.due() for one in self._all), default=now + _LONGEST_S)
        return min(max(soonest - now, _RETRY_S), _LONGEST_S)


__all__ = ["BEFORE_S", "Renewable", "Renewals"]
