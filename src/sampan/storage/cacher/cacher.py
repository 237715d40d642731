"""The watch cache of one resource, which serves GET, LIST and WATCH from cached bytes.

`run()` fills it from the store. If the connection is lost, it resumes at its last revision; if that revision has been
compacted, it lists everything again and ends its watchers with `VersionExpired`, because they would miss events.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.storage.backend import Backend, ConversionFailed, StorageError
from sampan.storage.cacher import list_options, reads
from sampan.storage.cacher.errors import (
    CorruptValue,
    InvalidContinue,
    NotReady,
    TooLargeVersion,
    TooSlow,
    UndecipherableValue,
    VersionExpired,
    WatchClosed,
)
from sampan.storage.cacher.freshness import CacheState
from sampan.storage.cacher.history import HistoryBudget, HistoryLimits
from sampan.storage.cacher.item import ADDED, CacheEvent, CacheItem, ItemMaker, bookmark
from sampan.storage.cacher.list_options import (
    ReadVersion,
    VersionRule,
    parse_get_version,
    parse_list_version,
    parse_version,
)
from sampan.storage.cacher.object_fields import CachedResource, DecodeValue, require_json
from sampan.storage.cacher.reads import ListQuery, ListResult
from sampan.storage.cacher.reflector import CacheReflector
from sampan.storage.cacher.selection import ItemMatcher, ObjectSelection
from sampan.storage.cacher.watch_budget import WatchBudget
from sampan.storage.cacher.watcher import INTERVAL_S, BookmarkSchedule, Watcher, WatchLimits, WatchQuery
from sampan.storage.cacher.watcher_routes import as_event, classify_change


@dataclass(frozen=True, slots=True)
class CacherConfig:
    history: HistoryLimits = field(default_factory=HistoryLimits)
    watch: WatchLimits = field(default_factory=WatchLimits)
    wait_s: float = 3.0
    """How long a read waits for a resource version that has not been reached, in seconds."""
    ready_s: float = 10.0
    """How long a read waits for the cache to be filled for the first time, in seconds."""
    retry_s: tuple[float, float] = (0.05, 5.0)
    """The initial and the maximum delay before a retry after an error of the store, in seconds."""
    bookmark_s: float = INTERVAL_S


@dataclass(frozen=True, slots=True)
class CacherStats:
    revision: int
    items: int
    item_bytes: int
    corrupt: int
    history_events: int
    history_bytes: int
    history_floor: int
    watchers: int
    queued_events: int
    cut_off: int
    fills: int


class Cacher:
    def __init__(
        self,
        *,
        backend: Backend,
        shape: CachedResource,
        decode: Callable[[bytes], Any],
        decode_value: DecodeValue = require_json,
        convert_value: DecodeValue | None = None,
        config: CacherConfig | None = None,
        history_budget: HistoryBudget | None = None,
        watch_budget: WatchBudget | None = None,
    ) -> None:
        """Create the cache of one resource.

        `decode` makes the object from the bytes of an item, for `object`. `decode_value` converts a value that
        kube-apiserver stored (protobuf, or JSON with a newline) to JSON. `convert_value` converts JSON of another kind
        or version, as stored by older servers, to the kind and version of the shape. The budgets let the cachers of one
        server share their limits.
        """
        self.shape = shape
        self._backend = backend
        self._config = config or CacherConfig()
        self._decode = decode
        self._maker = ItemMaker(shape=shape, decode_value=decode_value, convert_value=convert_value)
        self._state = CacheState(
            shape=shape,
            maker=self._maker,
            limits=self._config.history,
            now=time.monotonic,
            history_budget=history_budget,
            watch_budget=watch_budget,
        )
        self._terminated = 0
        """The number of watchers that were ended because they were too slow."""
        retry_s = self._config.retry_s
        self._reflector = CacheReflector(backend=backend, state=self._state, maker=self._maker, retry_s=retry_s)
        self._bookmarks = BookmarkSchedule(send=self._send_bookmarks, interval_s=self._config.bookmark_s)

    async def run(self) -> None:
        """Fill the cache and keep it up to date until the backend is closed or this is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                chores = [group.create_task(self._bookmarks.run()), group.create_task(self._trim())]
                await self._reflector.run()
                for chore in chores:
                    chore.cancel()
        finally:
            for watcher in list(self._state.routes.watchers()):
                watcher.end(WatchClosed(f"the watch cache of {self.shape.plural} has stopped"))

    @property
    def is_ready(self) -> bool:
        return self._reflector.ready.is_set()

    @property
    def revision(self) -> int:
        return self._state.revision

    async def wait_ready(self) -> None:
        """Wait until the cache is filled for the first time; raise `NotReady` after a timeout."""
        if self.is_ready:
            return
        if isinstance(failure := self._reflector.failure, ConversionFailed):
            raise failure
        try:
            async with asyncio.timeout(self._config.ready_s):
                await self._reflector.ready.wait()
        except TimeoutError:
            raise NotReady(f"the watch cache of {self.shape.plural} is not filled yet") from None

    async def wait_filled(self) -> None:
        """Wait until the cache is filled for the first time, without a timeout."""
        await self._reflector.ready.wait()

    async def wait_for(self, revision: int, *, timeout_s: float | None = None) -> None:
        """Wait until the cache has reached `revision`; raise `TooLargeVersion` after a timeout."""
        timeout_s = self._config.wait_s if timeout_s is None else timeout_s
        await self._state.fresh.wait_for(revision, timeout_s=timeout_s, ask=self._reflector.request_progress)

    async def get(self, namespace: str, name: str, resource_version: str = "") -> CacheItem | None:
        requirement = parse_get_version(resource_version)
        key = self.shape.key(namespace, name)
        if requirement.rule is not VersionRule.CONSISTENT:
            await self.wait_ready()
        elif not self.is_ready:
            return await self._read_from_store(key)
        if not await self._wait_until_fresh(requirement):
            return await self._read_from_store(key)
        if error := self._state.corrupt.get(key):
            raise CorruptValue(key, error.reason)
        return self._state.contents.items.get(key)

    def __len__(self) -> int:
        """Return the number of objects currently in the cache."""
        return len(self._state.contents.items)

    def peek(self, namespace: str, name: str) -> CacheItem | None:
        """Return the object currently in the cache, without waiting for freshness."""
        return self._state.contents.items.get(self.shape.key(namespace, name))

    def peek_all(self) -> Sequence[CacheItem]:
        """Return all objects currently in the cache, without waiting for freshness."""
        return [*self._state.contents.items.values()]

    def peek_selected(self, selection: ObjectSelection) -> Sequence[CacheItem]:
        """Return the selected objects currently in the cache, without waiting for freshness."""
        return self._state.contents.select(ItemMatcher(selection, self.shape)).items

    def peek_in(self, namespace: str) -> Sequence[CacheItem]:
        """Return the objects of a namespace currently in the cache, in key order, without waiting for freshness."""
        contents = self._state.contents
        return [contents.items[key] for block in contents.keys.blocks(namespace) for key in block]

    async def list(self, query: ListQuery) -> ListResult:
        requirement, start = self._page(query)
        await self.wait_ready()
        is_reached = await self._wait_until_fresh(requirement)
        state = self._state
        if state.corrupt:
            self._refuse_undecipherable(query)
        revision, oldest = state.revision, state.history.floor
        if requirement.rule is VersionRule.EXACT:
            # The cache may remember more than the store, but the age of a list is limited by compaction, as in etcd.
            revision, oldest = requirement.revision, max(oldest, self._backend.compacted_revision)
        if is_reached and revision >= oldest:
            return reads.list_from_cache(state.contents, state.history, query, start, revision, state.revision)
        revision = requirement.revision if requirement.rule is VersionRule.EXACT else 0
        return await reads.list_from_store(self._backend, self._maker, self.shape, query, start, revision)

    def watch(self, query: WatchQuery) -> Watcher:
        """Return a watcher; an invalid query or an expired resource version raises when the watcher is entered."""
        return Watcher(query=query, host=self, limits=self._config.watch)

    def end_watches(self) -> None:
        """End all watches without an error, because the resource is not served in this form any more."""
        for watcher in list(self._state.routes.watchers()):
            watcher.end()

    def object(self, item: CacheItem) -> Any:
        """Return the decoded object, which is shared by all callers and must not be modified."""
        return item.object(self._decode)

    def stats(self) -> CacherStats:
        state = self._state
        return CacherStats(
            revision=state.revision,
            items=len(state.contents.items),
            item_bytes=state.contents.bytes,
            corrupt=len(state.corrupt),
            history_events=len(state.history),
            history_bytes=state.history.bytes,
            history_floor=state.history.floor,
            watchers=len(state.routes),
            queued_events=sum([watcher.queued for watcher in state.routes.watchers()]),
            cut_off=self._terminated,
            fills=self._reflector.fills,
        )

    async def open(self, watcher: Watcher) -> None:
        query, state = watcher.query, self._state
        matcher = ItemMatcher(query.selection, self.shape)
        revision = parse_version(query.resource_version)
        await self.wait_ready()
        if not query.resource_version:
            revision = await self._backend.current_revision()
        if _wants_initial(query):
            await self.wait_for(revision)
            end = bookmark(self.shape, state.revision, ends_initial_events=True) if query.allow_bookmarks else None
            initial = state.contents.select(matcher).items
            events = (CacheEvent(ADDED, item) for item in initial)
            watcher.begin(after=state.revision, initial=events, initial_end=end)
        else:
            after = state.revision if query.resource_version == "0" else revision
            if after < state.history.floor:
                raise VersionExpired.for_watch(after, state.history.floor)
            changes = state.history.list_changes_after(after)
            events = (
                as_event(kind, change) for change in changes if (kind := classify_change(matcher, change)) is not None
            )
            watcher.begin(after=after, initial=events if changes else None, initial_end=None)
        if watcher.is_ended:
            return
        state.routes.add(watcher, matcher)
        if query.allow_bookmarks:
            self._bookmarks.add(watcher)

    def close(self, watcher: Watcher) -> None:
        self._terminated += isinstance(watcher.error, TooSlow)
        self._state.routes.remove(watcher)

    def _page(self, query: ListQuery) -> tuple[ReadVersion, str]:
        """Return the required resource version and the first key of the page."""
        if not query.continue_token:
            return parse_list_version(query.resource_version, query.match, query.limit), ""
        token = list_options.decode_continue(query.continue_token, self.shape.scope(query.selection.namespace))
        if query.resource_version not in ("", "0"):
            raise InvalidContinue("specifying resource version is not allowed when using continue")
        if token.revision < 0:
            return ReadVersion(VersionRule.CONSISTENT), token.start
        return ReadVersion(VersionRule.EXACT, token.revision), token.start

    async def _wait_until_fresh(self, version: ReadVersion) -> bool:
        """Wait until the cache is as fresh as required; return False if the store has to serve the read instead."""
        if version.rule is not VersionRule.CONSISTENT:
            await self.wait_for(version.revision)
            return True
        try:
            await self.wait_for(await self._backend.current_revision())
        except TooLargeVersion:
            return False
        return True

    def _refuse_undecipherable(self, query: ListQuery) -> None:
        namespace = query.selection.namespace
        for key, error in self._state.corrupt.items():
            if isinstance(error, UndecipherableValue) and (not namespace or self.shape.namespace_of(key) == namespace):
                raise UndecipherableValue(key, error.reason)

    async def _read_from_store(self, key: str) -> CacheItem | None:
        entry, _ = await self._backend.get(key)
        return None if entry is None else self._maker.make(key, entry.value, entry.revision)

    async def _send_bookmarks(self, watchers: Sequence[Watcher]) -> None:
        with contextlib.suppress(StorageError):
            await self._reflector.request_progress()
        revision = self._state.revision
        event = bookmark(self.shape, revision)
        for watcher in watchers:
            if revision > watcher.after:
                watcher.offer(event, len(event.item.body))

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(60)
            self._state.history.trim()


def _wants_initial(query: WatchQuery) -> bool:
    if query.send_initial_events is None:
        return query.resource_version in ("", "0")
    return query.send_initial_events
