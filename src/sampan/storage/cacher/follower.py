"""Follows a resource for as long as its server runs, for the parts of the server that act on stored objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from sampan.machinery.errors import ApiError
from sampan.storage.backend import StorageError
from sampan.storage.cacher.cacher import Cacher
from sampan.storage.cacher.errors import CacheError
from sampan.storage.cacher.watcher import Watcher, WatchQuery

log = logging.getLogger(__name__)

RETRY_S: Final = 0.2
_ALL: Final = WatchQuery()


async def follow_events(
    cacher: Cacher, subject: str, use: Callable[[Watcher], Awaitable[None]], query: WatchQuery = _ALL
) -> NoReturn:
    """Call `use` with a watcher, again each time the watch ends, until cancelled.

    Errors of the store and of requests that `use` sends are logged with the subject, and end that watch only.
    """
    while True:
        try:
            await cacher.wait_filled()
            async with cacher.watch(query) as watcher:
                await use(watcher)
        except (CacheError, StorageError, ApiError) as error:
            log.warning("cannot follow %s, retrying: %s", subject, error)
        await asyncio.sleep(RETRY_S)


async def follow_changes(
    cacher: Cacher, subject: str, sync: Callable[[], Awaitable[None]], query: WatchQuery = _ALL
) -> NoReturn:
    """Call `sync` at the start, after changes, and after an interruption in which changes may have been missed. As with
    `follow_events`, an error of `sync` is logged, and it is called again."""

    async def sync_on_events(watcher: Watcher) -> None:
        await sync()
        async for _ in watcher:
            await sync()

    await follow_events(cacher, subject, sync_on_events, query)
