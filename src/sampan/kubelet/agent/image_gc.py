"""Images that nobody uses are removed when the disk fills up."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sampan.kubelet.agent.config import AgentConfig
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import ImageInfo, Runtime, RuntimeFailure

log = logging.getLogger(__name__)

PERIOD_S = 300.0


def to_remove(
    images: Sequence[ImageInfo], used_at: Mapping[str, float], in_use: set[str], *, wanted: int, old: float
) -> list[ImageInfo]:
    """Those longest not in use first, until so many bytes are free; none that was in use after `old`. Pure."""
    free, found = 0, []
    idle = [each for each in images if not each.is_pinned and each.id not in in_use and used_at.get(each.id, 0) <= old]
    for image in sorted(idle, key=lambda each: used_at.get(each.id, 0)):
        if free >= wanted:
            break
        found.append(image)
        free += image.size
    return found


class ImageCollector:
    def __init__(self, *, config: AgentConfig, runtime: Runtime, clock: Clock, in_use: Callable[[], set[str]]) -> None:
        """`in_use` gives the ids and names of images that containers are made of."""
        self._config, self._runtime, self._clock, self._in_use = config, runtime, clock, in_use
        self._used_at: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except (RuntimeFailure, OSError) as fault:
                log.warning("images cannot be removed: %s", fault)
            await self._clock.sleep(PERIOD_S)

    async def look(self) -> list[str]:
        """What was removed, where too much of the disk is used."""
        used, capacity = await asyncio.to_thread(_disk, self._config.root)
        percent = used * 100 // capacity if capacity else 0
        images, in_use = await self._noted()
        if percent < self._config.image_gc_high:
            return []
        wanted = used - capacity * self._config.image_gc_low // 100
        return await self._remove(images, in_use, wanted, self._clock.now() - self._config.image_min_age_s)

    async def remove_unused(self) -> bool:
        """All of them, since the node is short of disk; whether there were any."""
        images, in_use = await self._noted()
        return bool(await self._remove(images, in_use, 1 << 62, self._clock.now()))

    async def _noted(self) -> tuple[Sequence[ImageInfo], set[str]]:
        images, named, now = await self._runtime.images(), self._in_use(), self._clock.now()
        in_use = {each.id for each in images if {each.id, *each.names, *each.digests} & named}
        self._used_at = {each.id: now if each.id in in_use else self._used_at.get(each.id, now) for each in images}
        return images, in_use

    async def _remove(self, images: Sequence[ImageInfo], in_use: set[str], wanted: int, old: float) -> list[str]:
        gone = to_remove(images, self._used_at, in_use, wanted=wanted, old=old)
        for image in gone:
            await self._runtime.remove_image(image.names[0] if image.names else image.id)
        return [each.id for each in gone]


def _disk(root: Path) -> tuple[int, int]:
    about = os.statvfs(root)
    capacity = about.f_blocks * about.f_frsize
    return capacity - about.f_bavail * about.f_frsize, capacity


__all__ = ["ImageCollector", "to_remove"]
