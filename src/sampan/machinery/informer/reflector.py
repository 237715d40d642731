"""The reflector: lists a resource and then watches it forever, across failures of the connection.

The sink sees each object in the order of its versions, and nothing twice. After a gap that the server cannot fill (410)
the reflector lists again, and the sink gets the difference. Pauses are measured in the event loop's time, with jitter.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sampan.host.backoff import Backoff, RetryDelays
from sampan.host.time_slice import TimeSlice
from sampan.machinery import errors
from sampan.machinery.client.client import ResourceClient
from sampan.machinery.client.options import EVERYTHING, Selection
from sampan.machinery.client.transport import BOOKMARK, DELETED, ConnectionFailed, Events, WatchEvent
from sampan.machinery.object_key import NamespacedName, key_of

_RANDOM = random.Random()
"""The random number generator for timeouts and pauses. It is not the shared one, because tests seed that."""

log = logging.getLogger(__name__)

_MIN_WATCH_S = 1.0
"""A watch without events that lasted less than this counts as a failure, or a server could keep the reflector in a busy
loop."""


class ReflectorSink(Protocol):
    """The receiver of the objects. Its methods must be fast and may not raise."""

    def put(self, key: NamespacedName, obj: Any) -> None:
        """Add or update an object."""

    def remove(self, key: NamespacedName) -> None:
        """Remove an object, if it is known."""

    def list_keys(self) -> Sequence[NamespacedName]:
        """Return the keys of the objects that were added and not removed."""

    def mark_synced(self) -> None:
        """Called when all objects that existed at the start of the list have been added."""


@dataclass(frozen=True, slots=True)
class ReflectorConfig:
    retry_s: tuple[float, float] = (0.05, 30.0)
    """The first and the longest pause after failures; up to half of it is subtracted at random."""
    watch_s: tuple[int, int] = (300, 600)
    """The range of the requested watch timeout; random, so that watches do not all expire at once."""


class Reflector:
    def __init__(
        self,
        *,
        source: ResourceClient[Any],
        sink: ReflectorSink,
        selection: Selection = EVERYTHING,
        config: ReflectorConfig | None = None,
    ) -> None:
        self._source, self._sink, self._selection = source, sink, selection
        self._config = config or ReflectorConfig()
        self._version = ""
        """The resource version up to which the sink is current; empty when a list is needed."""
        self._streams = True
        """Whether the server supports streaming lists (`sendInitialEvents`)."""
        self._delays = RetryDelays(Backoff(*self._config.retry_s))
        self.fills = 0

    async def run(self) -> None:
        """List and watch until cancelled. After an unexpected exception, such as one of the sink, it may be called
        again, and begins with a list."""
        try:
            await self._list_and_watch()
        except Exception:
            self._version = ""
            raise

    async def _list_and_watch(self) -> None:
        while True:
            try:
                await (self._follow() if self._version else self._fill())
                continue
            except (errors.Expired, errors.Gone) as error:
                log.debug("watch of %s expired, listing again: %s", self._name, error)
                self._version = ""
            except (errors.ApiError, ConnectionFailed) as failure:
                log.log(
                    logging.DEBUG if self._delays.failures < 3 else logging.WARNING,
                    "cannot list or watch %s: %s",
                    self._name,
                    failure,
                )
            await self._pause()

    async def _fill(self) -> None:
        """List all objects into the sink, and remove those that no longer exist.

        If the server rejects the streaming list, for whatever reason, the objects are listed in pages instead, as
        client-go does: a server may announce streaming lists although its etcd is too old for them. Only errors that
        concern every request are not a rejection.
        """
        if self._streams:
            try:
                async with self._watch(initial_events=True) as events:
                    return await self._fill_by_stream(events)
            except (errors.Expired, errors.Gone, errors.TooManyRequests):
                raise
            except errors.ApiError as error:
                if self._version:
                    raise
                log.debug("streaming list of %s failed, using a paginated list: %s", self._name, error)
                self._streams = not isinstance(error, errors.Invalid | errors.BadRequest)
        await self._fill_by_list()

    async def _fill_by_stream(self, events: Events) -> None:
        keys: set[NamespacedName] = set()
        async for batch in events:
            time_slice = TimeSlice()
            for index, event in enumerate(batch):
                if event.ends_initial_events:
                    self._complete(keys, event.resource_version)
                    await self._apply_batch(batch[index + 1 :])
                    return await self._apply_batches(events)
                self._apply_initial_event(event, keys)
                await time_slice.pause_if_used_up()
        raise ConnectionFailed("the watch was closed before all initial events were received", may_have_happened=False)

    def _apply_initial_event(self, event: WatchEvent, keys: set[NamespacedName]) -> None:
        if event.type == BOOKMARK:
            return
        key = event.key
        if event.type == DELETED:
            keys.discard(key)
            self._sink.remove(key)
        else:
            keys.add(key)
            self._sink.put(key, event.object)

    async def _fill_by_list(self) -> None:
        keys: set[NamespacedName] = set()
        async for page in self._source.pages(self._selection):
            for obj in page.items:
                key = key_of(obj)
                keys.add(key)
                self._sink.put(key, obj)
            version = page.resource_version
        if not version:
            raise ConnectionFailed("the list has no resource version", may_have_happened=False)
        self._complete(keys, version)

    def _complete(self, keys: set[NamespacedName], version: str) -> None:
        for key in self._sink.list_keys():
            if key not in keys:
                self._sink.remove(key)
        self._version = version
        self.fills += 1
        self._delays.reset()
        self._sink.mark_synced()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        began, version = loop.time(), self._version
        async with self._watch(resource_version=version) as events:
            await self._apply_batches(events)
        if self._version == version and loop.time() - began < _MIN_WATCH_S:
            raise ConnectionFailed("the watch was closed immediately", may_have_happened=False)

    async def _apply_batches(self, events: Events) -> None:
        async for batch in events:
            await self._apply_batch(batch)
            self._delays.reset()

    async def _apply_batch(self, batch: Sequence[WatchEvent]) -> None:
        """Pass a batch of events to the sink, yielding to other tasks in between."""
        sink, time_slice = self._sink, TimeSlice()
        for event in batch:
            if event.type == DELETED:
                sink.remove(event.key)
            elif event.type != BOOKMARK:
                sink.put(event.key, event.object)
            self._version = event.resource_version
            await time_slice.pause_if_used_up()

    def _watch(self, *, resource_version: str = "", initial_events: bool | None = None) -> Any:
        return self._source.watch(
            self._selection,
            resource_version=resource_version,
            initial_events=initial_events,
            timeout_s=_RANDOM.randint(*self._config.watch_s),
        )

    async def _pause(self) -> None:
        await asyncio.sleep(self._delays.next_s() * (1 - _RANDOM.random() / 2))

    @property
    def _name(self) -> str:
        return self._source.resource.qualified
