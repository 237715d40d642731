"""The reflector, which keeps the cache in sync with the store: it lists everything, then follows the watch."""

import asyncio
import logging
import math

from sampan.api.limits import HISTORY_REPLAYED
from sampan.host.backoff import Backoff
from sampan.storage.backend import Backend, BackendClosed, Compacted, StoreWatch, Unavailable
from sampan.storage.cacher.contents import CacheContents
from sampan.storage.cacher.errors import CorruptValue
from sampan.storage.cacher.freshness import CacheState
from sampan.storage.cacher.item import ItemMaker

log = logging.getLogger(__name__)

_PAGE = 1000
_SLICE = 250
"""How many objects are added to the cache in one turn of the event loop, which takes about 10 ms."""


class CacheReflector:
    def __init__(self, *, backend: Backend, state: CacheState, maker: ItemMaker, retry_s: tuple[float, float]) -> None:
        self._backend = backend
        self._state = state
        self._maker = maker
        self._retry_s = retry_s
        self._failures = 0
        self._opened = math.inf
        """When the watch was last opened."""
        self._watch: StoreWatch | None = None
        self.ready = asyncio.Event()
        """Set once everything has been listed and the watch is open; it stays set."""
        self.failure: Exception | None = None
        """Why the last attempt to list everything failed."""
        self.fills = 0
        """The number of times that the cache has listed all objects of its resource."""

    async def run(self) -> None:
        """List and watch until the backend is closed."""
        try:
            while True:
                await self._fill()
                await self._follow()
        except BackendClosed:
            return

    async def request_progress(self) -> None:
        """Request that the state advances to the store's current revision; do nothing without an open watch."""
        if self._watch is not None:
            await self._watch.request_progress()

    async def _fill(self) -> None:
        while True:
            try:
                await self._read_everything()
                self.failure = None
                return
            except (Compacted, Unavailable) as error:
                self.failure = error
                await self._pause(error)

    async def _read_everything(self) -> None:
        contents = CacheContents(self._state.shape)
        corrupt: dict[str, CorruptValue] = {}
        start, revision, remaining = "", await self._first_revision(), 1
        while remaining:
            page = await self._backend.range(self._state.shape.prefix, start=start, limit=_PAGE, revision=revision)
            revision, remaining = page.revision, page.remaining
            for number, entry in enumerate(page.entries):
                if number % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)  # let other tasks run in the middle of a page
                cached = self._state.contents.items.get(entry.key)
                if cached is not None and cached.revision == entry.revision:
                    contents.put(cached, None)
                    continue
                try:
                    contents.put(self._maker.make(entry.key, entry.value, entry.revision), None)
                except CorruptValue as error:
                    log.error("%s", error)
                    corrupt[entry.key] = error
            start = page.entries[-1].key + "\0" if page.entries else start
            if remaining:
                await asyncio.sleep(0)  # a store in this process responds without yielding to the event loop
        self._state.replace(contents, corrupt, revision)
        self.fills += 1

    async def _first_revision(self) -> int:
        """Return the revision of the first list, or 0 for the current one.

        The first list is at an older revision, and the store's log is replayed from there. This fills the history, so
        that clients can resume the watches that they had before the server restarted.
        """
        if self.fills:
            return 0
        return await self._backend.replay_start(HISTORY_REPLAYED)

    async def _follow(self) -> None:
        """Follow the watch until the revision to resume from has been compacted."""
        while True:
            try:
                await self._follow_one()
            except Unavailable as error:
                await self._pause(error)
            except Compacted as error:
                await self._pause(error)
                return

    async def _follow_one(self) -> None:
        state = self._state
        watch = self._backend.watch(state.shape.prefix, after=state.revision, on_batch=state.apply)
        async with watch:
            self._watch = watch
            self._opened = asyncio.get_running_loop().time()
            try:
                self.ready.set()
                async for _ in watch:
                    pass
            finally:
                self._watch = None

    async def _pause(self, error: Exception) -> None:
        """Wait before a retry: not at all the first time, then longer after each consecutive failure.

        A watch that lasted longer than the maximum delay resets the series.
        """
        log.warning("watch cache of %s: cannot list or watch the store, retrying: %s", self._state.shape.plural, error)
        first, longest = self._retry_s
        if asyncio.get_running_loop().time() - self._opened > longest:
            self._failures = 0
        delay = 0.0 if self._failures == 0 else Backoff(first, longest).delay_after(self._failures - 1)
        self._failures += 1
        await asyncio.sleep(delay)
