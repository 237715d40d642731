"""Updates the volume limits of CSI drivers that request periodic updates (nodeAllocatableUpdatePeriodSeconds)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from sampan.api.types.storage_v1 import CSIDriver
from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.csi.client import Drivers
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

_TICK_S = 10.0
"""The shortest update period."""


class Limits:
    def __init__(
        self,
        *,
        drivers: Drivers,
        informers: InformerFactory,
        clock: Clock,
        refresh: Callable[[str], Awaitable[None]],
    ) -> None:
        """`refresh` queries the named driver and publishes the result."""
        self._drivers, self._informers, self._clock, self._refresh = drivers, informers, clock, refresh
        self._asked_at: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            for name in self._drivers.names():
                if await self._is_due(name):
                    await self._ask(name)

    async def _is_due(self, name: str) -> bool:
        informer = self._informers.of(CSIDriver)
        await informer.synced.wait()
        period_s = period(informer.lister.get(name))
        since = self._asked_at.setdefault(name, self._clock.monotonic() - _TICK_S)
        return period_s > 0 and self._clock.monotonic() - since >= period_s

    async def _ask(self, name: str) -> None:
        self._asked_at[name] = self._clock.monotonic()
        try:
            await self._refresh(name)
        except (VolumeFault, errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot read the volume limit of CSI driver %s: %s", name, error)


def period(info: CSIDriver | None) -> int:
    """Return the update period in seconds; 0 if there is none. Pure."""
    return (info.spec.nodeAllocatableUpdatePeriodSeconds or 0) if info is not None else 0
