"""Keeping the state as the store is: read everything, then follow the watch, for as long as the store is open."""

import asyncio
import logging
import math

from sampan.api.limits import HISTORY_REPLAYED
from sampan.storage.backend import Backend, Closed, Compacted, Unavailable, Watch
from sampan.storage.cacher.contents import Contents
from sampan.storage.cacher.errors import CorruptValue
from sampan.storage.cacher.item import ItemMaker
from sampan.storage.cacher.state import State

log = logging.getLogger(__name__)

_PAGE = 1000
_SLICE = 250
"""Objects that are read into the cache in one turn of the event loop: about 10 ms."""


class Reflector:
    def __init__(self, *, backend: Backend, state: State, maker: ItemMaker, retry_s: tuple[float, float]) -> None:
        self._backend = backend
        self._state = state
        self._maker = maker
        self._retry_s = retry_s
        self._failures = 0
        self._opened = math.inf
        """When the watch was opened last."""
        self._watch: Watch | None = None
        self.ready = asyncio.Event()
        """Set once everything has been read and the watch is open; stays set."""
        self.fills = 0
        """How often everything was read."""

    async def run(self) -> None:
        """Ends when the backend is closed."""
        try:
            while True:
                await self._fill()
                await self._follow()
        except Closed:
            return

    async def request_progress(self) -> None:
        """Have the state move up to the store's present revision soon. Without an open watch: when there is one."""
        if self._watch is not None:
            await self._watch.request_progress()

    async def _fill(self) -> None:
        while True:
            try:
                await self._read_everything()
                return
            except (Compacted, Unavailable) as fault:
                await self._pause(fault)

    async def _read_everything(self) -> None:
        contents = Contents(self._state.shape)
        corrupt: dict[str, CorruptValue] = {}
        start, revision, remaining = "", await self._first_revision(), 1
        while remaining:
            page = await self._backend.range(self._state.shape.prefix, start=start, limit=_PAGE, revision=revision)
            revision, remaining = page.revision, page.remaining
            for number, entry in enumerate(page.entries):
                if number % _SLICE == _SLICE - 1:
                    await asyncio.sleep(0)  # others must not wait for a whole page
                known = self._state.contents.items.get(entry.key)
                if known is not None and known.revision == entry.revision:
                    contents.put(known, None)
                    continue
                try:
                    contents.put(self._maker.make(entry.key, entry.value, entry.revision), None)
                except CorruptValue as fault:
                    log.error("%s", fault)
                    corrupt[entry.key] = fault
            start = page.entries[-1].key + "\0" if page.entries else start
            if remaining:
                await asyncio.sleep(0)  # a store in this process answers without waiting
        self._state.replace(contents, corrupt, revision)
        self.fills += 1

    async def _first_revision(self) -> int:
        """At the start the state of a while ago is read, and the store's log replayed from there: so the history is
        filled, and clients can resume watches that they had before the server was started again. 0: the present."""
        if self.fills:
            return 0
        return await self._backend.replay_start(HISTORY_REPLAYED)

    async def _follow(self) -> None:
        """Until the store no longer knows where we were."""
        while True:
            try:
                await self._follow_one()
            except Unavailable as fault:
                await self._pause(fault)
            except Compacted as fault:
                await self._pause(fault)
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

    async def _pause(self, fault: Exception) -> None:
        """Longer after each failure in a row; the first retry comes at once. A watch that lasted ends the row."""
        log.warning(
            "watch cache of %s: the watch of the store failed, listing again: %s", self._state.shape.plural, fault
        )
        first, longest = self._retry_s
        if asyncio.get_running_loop().time() - self._opened > longest:
            self._failures = 0
        delay = 0.0 if self._failures == 0 else min(first * 2.0 ** (self._failures - 1), longest)
        self._failures += 1
        await asyncio.sleep(delay)
