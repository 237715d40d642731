"""An informer: a cache of a resource's objects that is kept in sync by list and watch, and handlers that are called on
every change."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from sampan.machinery.activity import Activity
from sampan.machinery.client.options import EVERYTHING, Selection
from sampan.machinery.client.resource import ResourceClient
from sampan.machinery.informer.cache import Lister, ObjectCache
from sampan.machinery.informer.reflector import Reflector, ReflectorConfig
from sampan.machinery.object_key import NamespacedName, key_of

log = logging.getLogger(__name__)

T = TypeVar("T")

_TURN_S = 0.01
"""How long `follow` calls the handler before it yields to other tasks."""

Handler = Callable[[Any | None, Any | None], None]
"""Called with (None, new) for an addition, (old, new) for an update and (old, None) for a deletion, in the order of the
server's events, after the cache was updated. Both objects are read-only. A handler must be fast; its exceptions are
logged."""


class Informer(Generic[T]):
    def __init__(
        self,
        *,
        source: ResourceClient[T],
        selection: Selection = EVERYTHING,
        activity: Activity | None = None,
        config: ReflectorConfig | None = None,
    ) -> None:
        self.resource = source.resource
        self.synced = asyncio.Event()
        """Set once all objects that existed at the start are in the cache and were passed to the handlers."""
        self._activity = activity or Activity()
        self._cache: ObjectCache[T] = ObjectCache()
        self._handlers: list[Handler] = []
        self._reflector = Reflector(source=source, sink=_Sink(self), selection=selection, config=config)

    @property
    def lister(self) -> Lister[T]:
        return self._cache

    @property
    def fills(self) -> int:
        """The number of full lists: one at the start, and one after each gap in the watch."""
        return self._reflector.fills

    def subscribe(self, handler: Handler) -> Callable[[], None]:
        """Call `handler` for the cached objects, as additions, and for every change from now on. Return a function that
        unsubscribes it."""
        for obj in self._cache:
            _call(handler, None, obj)
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    async def follow(self, handler: Handler) -> Callable[[], None]:
        """Like `subscribe`, but yield to other tasks while the handler is called for the cached objects.

        Use it for many objects or a slow handler. The handler still gets the events of each object in order: a change
        to an object that it has not been called for is not passed on, because the later addition has the newest state.
        """
        remaining = dict.fromkeys(self._cache.keys())

        def pass_on(old: Any | None, new: Any | None) -> None:
            key = key_of(new if new is not None else old)
            if key not in remaining:
                _call(handler, old, new)
            elif new is None:
                del remaining[key]  # deleted before the handler was called for it

        self._handlers.append(pass_on)
        try:
            await self._call_for_cached(handler, remaining)
        except BaseException:
            self._handlers.remove(pass_on)
            raise
        return lambda: self._handlers.remove(pass_on)

    async def _call_for_cached(self, handler: Handler, remaining: dict[NamespacedName, None]) -> None:
        began = time.perf_counter()
        while remaining:
            key = next(iter(remaining))
            del remaining[key]
            _call(handler, None, self._cache.by_key(key))
            if time.perf_counter() - began > _TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    def _put(self, key: NamespacedName, obj: Any) -> None:
        old: Any = self._cache.by_key(key)
        if old is not None:
            if old.metadata.resourceVersion == obj.metadata.resourceVersion:
                return
            if old.metadata.uid != obj.metadata.uid:
                self._remove(key)
                old = None
        self._cache.put(key, obj)
        self._notify(old, obj)

    def _remove(self, key: NamespacedName) -> None:
        old = self._cache.remove(key)
        if old is not None:
            self._notify(old, None)

    def _notify(self, old: Any | None, new: Any | None) -> None:
        self._activity.step()
        for handler in tuple(self._handlers):
            _call(handler, old, new)


def _call(handler: Handler, old: Any | None, new: Any | None) -> None:
    try:
        handler(old, new)
    except Exception:
        changed = old if new is None else new
        log.exception("an informer event handler failed for %s %s", type(changed).__name__, key_of(changed))


class _Sink:
    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer
        self.put, self.remove = informer._put, informer._remove

    def known(self) -> Sequence[NamespacedName]:
        return self._informer.lister.keys()

    def filled(self) -> None:
        self._informer.synced.set()
