"""Deletes the ResourceSlices of drivers that are gone, so that no pod is scheduled to this node for their devices."""

from __future__ import annotations

import asyncio
import logging

from sampan.api.types.resource_v1 import ResourceSlice
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

_DELAY_S = 30.0
"""A driver that is being restarted registers again within this time."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0


class SliceWiper:
    def __init__(self, *, client: Client, node_name: str, clock: Clock) -> None:
        self._slices, self._node, self._clock = client.of(ResourceSlice), node_name, clock
        self._group: asyncio.TaskGroup | None = None
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Run until cancelled. All slices of the node are deleted first, since drivers publish them again when they
        register.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._wipe("")
            await asyncio.Event().wait()

    def wipe_later(self, driver: str) -> None:
        if self._group is not None and driver not in self._pending:
            self._pending[driver] = self._group.create_task(self._wipe_in(driver, _DELAY_S))

    def keep(self, driver: str) -> None:
        """Cancel a pending deletion because the driver is registered again."""
        task = self._pending.pop(driver, None)
        if task is not None:
            task.cancel()

    async def _wipe_in(self, driver: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._wipe(driver)
        self._pending.pop(driver, None)

    async def _wipe(self, driver: str) -> None:
        """Delete the slices of the driver, or of all drivers if the name is empty."""
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._slices.delete_collection(Selection(fields=fields))
                return
            except errors.NotFound:
                return
            except (errors.ApiError, ConnectionFailed) as error:
                log.info("cannot delete the ResourceSlices of %s: %s", driver or "all drivers", error)
            await self._clock.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
