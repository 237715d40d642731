"""Configuration files that are reloaded when they change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
Content = TypeVar("Content")


class FollowedFile(Generic[Content]):
    """Checks periodically whether the file, or one of the files beside it, has changed, and reloads it. While a file
    cannot be read nothing changes; invalid contents are logged once and ignored until the next change."""

    def __init__(
        self,
        path: Path,
        *,
        beside: Sequence[Path] = (),
        read: Callable[[Path], Content],
        use: Callable[[Content], None],
        clock: Clock,
    ) -> None:
        self._path, self._paths = path, (path, *beside)
        self._read, self._use, self._clock = read, use, clock
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
            self._use(self._read(self._path))
        except (OSError, ValueError) as error:  # ConfigFault is a ValueError
            log.error("cannot reload %s, keeping the previous contents: %s", self._path, error)
            return
        log.info("reloaded %s", self._path)

    def _bytes(self) -> list[bytes] | None:
        try:
            return [path.read_bytes() for path in self._paths]
        except OSError:
            return None
