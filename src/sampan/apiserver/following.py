"""Configuration files that may change while the server runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from sampan.apiserver.config_file import ConfigFault
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
Content = TypeVar("Content")


class FollowedFile(Generic[Content]):
    """Looks now and then whether the file is another; one that cannot be used changes nothing."""

    def __init__(
        self, path: Path, *, read: Callable[[Path], Content], use: Callable[[Content], None], clock: Clock
    ) -> None:
        self._path, self._read, self._use, self._clock = path, read, use, clock
        self._seen = self._bytes()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(INTERVAL_S)
            self.look()

    def look(self) -> None:
        now = self._bytes()
        if now is None or now == self._seen:
            return
        self._seen = now
        try:
            content = self._read(self._path)
        except ConfigFault as fault:
            log.error("%s is left as it was: %s", self._path, fault)
            return
        self._use(content)
        log.info("%s was read again", self._path)

    def _bytes(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except OSError:
            return None


__all__ = ["INTERVAL_S", "FollowedFile"]
