"""Delays the shutdown of the machine until pods have terminated."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from sampan.kubelet.agent.logind.bus import Bus, BusFault, connected
from sampan.kubelet.agent.logind.login import FOLDER, Logind
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

_LOOKS, _FIRST_LOOK_S = 5, 0.1
_AGAIN_S = 1.0


class ShutdownWatch:
    """`run()` runs until cancelled. Without logind it logs an error once and returns."""

    def __init__(
        self,
        *,
        wanted_s: float,
        clock: Clock,
        on_shutdown: Callable[[], Awaitable[None]],
        on_cancel: Callable[[], None],
        address: str = "",
        folder: Path = FOLDER,
    ) -> None:
        self._wanted_s, self._clock, self._address, self._folder = wanted_s, clock, address, folder
        self._on_shutdown, self._on_cancel = on_shutdown, on_cancel
        self.ready = asyncio.Event()
        """Set while an inhibitor lock is held."""

    async def run(self) -> None:
        has_begun = False
        while True:
            try:
                async with connected(self._address) as bus:
                    await self._follow(bus)
            except BusFault as error:
                if not (has_begun or self.ready.is_set()):
                    log.error("graceful node shutdown is not available: %s", error)
                    return
                log.warning("cannot talk to systemd-logind: %s", error)
            has_begun = True
            self.ready.clear()
            await self._clock.sleep(_AGAIN_S)

    async def _follow(self, bus: Bus) -> None:
        """Handle shutdowns until the connection ends. The signal is subscribed to before the lock is taken, so that
        none is missed, and the lock is released when the pods have terminated.
        """
        logind, news = Logind(bus, folder=self._folder), asyncio.Queue[bool | None]()
        bus.on_end = lambda: news.put_nowait(None)
        await self._see_to_delay(logind)
        await logind.follow(news.put_nowait)
        lock = await logind.inhibit()
        try:
            self.ready.set()
            while (is_going_down := await news.get()) is not None:
                if is_going_down:
                    await self._on_shutdown()
                    lock = _closed(lock)
                else:
                    self._on_cancel()
                    lock = lock if lock >= 0 else await logind.inhibit()
        finally:
            _closed(lock)

    async def _see_to_delay(self, logind: Logind) -> None:
        if await logind.delay_s() >= self._wanted_s:
            return
        await logind.allow(self._wanted_s)
        for number in range(_LOOKS):
            if await logind.delay_s() >= self._wanted_s:
                return
            await self._clock.sleep(_FIRST_LOOK_S * 2**number)
        raise BusFault(f"logind does not put the machine's end off for {self._wanted_s:g} s")


def _closed(lock: int) -> int:
    if lock >= 0:
        os.close(lock)
    return -1
