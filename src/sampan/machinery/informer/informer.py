"""An informer: a cache of a resource's objects that is kept in sync by list and watch, and handlers that are called on
every change. All objects in the cache are shared and read-only."""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from sampan.api.selectors import labels
from sampan.host.activity import Activity
from sampan.host.time_slice import TimeSlice
from sampan.machinery.client.client import ResourceClient
from sampan.machinery.client.options import EVERYTHING, Selection
from sampan.machinery.informer.reflector import Reflector, ReflectorConfig
from sampan.machinery.object_key import NamespacedName, key_of

T = TypeVar("T")

IndexFunction = Callable[[Any], Iterable[Hashable]]
"""Maps an object to the values under which an index lists it."""

log = logging.getLogger(__name__)

Handler = Callable[[Any | None, Any | None], None]
"""Called with (None, new) for an addition, (old, new) for an update and (old, None) for a deletion, in the order of the
server's events, after the cache was updated. Both objects are read-only. A handler must be fast; its exceptions are
logged."""


def by_namespace(obj: Any) -> Iterable[Hashable]:
    return (obj.metadata.namespace,)


def by_owner(obj: Any) -> Iterable[Hashable]:
    """Index objects by the UIDs of all owners."""
    return [owner.uid for owner in obj.metadata.ownerReferences]


def by_controller(obj: Any) -> Iterable[Hashable]:
    """Index objects by the UID of their controller."""
    return [owner.uid for owner in obj.metadata.ownerReferences if owner.controller]


class Lister(Generic[T]):
    """The read-only interface of an informer's cache."""

    def __init__(self) -> None:
        self._objects: dict[NamespacedName, T] = {}
        self._indexes: dict[IndexFunction, dict[Hashable, dict[NamespacedName, T]]] = {}

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get(NamespacedName(namespace, name))

    def get_by_key(self, key: NamespacedName) -> T | None:
        return self._objects.get(key)

    def list(self, namespace: str = "", selector: labels.Selector = labels.EVERYTHING) -> Sequence[T]:
        """Return all objects, or those of a namespace, that the selector matches."""
        objects = self.find(by_namespace, namespace) if namespace else list(self._objects.values())
        if selector.is_everything:
            return objects
        return [obj for obj in objects if selector.matches(obj.metadata.labels)]  # type: ignore[attr-defined]

    def find(self, index: IndexFunction, value: Hashable) -> Sequence[T]:
        """Return the objects that the index has under the value. The index is maintained from its first use on."""
        objects = self._index(index).get(value)
        return list(objects.values()) if objects else []

    def add_index(self, index: IndexFunction) -> None:
        """Maintain an index from now on. Adding the same one twice has no effect."""
        self._index(index)

    def values(self, index: IndexFunction) -> Sequence[Hashable]:
        """Return all values of the index."""
        return list(self._index(index))

    def keys(self) -> Sequence[NamespacedName]:
        return list(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def _index(self, function: IndexFunction) -> Mapping[Hashable, dict[NamespacedName, T]]:
        index = self._indexes.get(function)
        if index is None:
            index = self._indexes[function] = {}
            for key, obj in self._objects.items():
                for value in function(obj):
                    index.setdefault(value, {})[key] = obj
        return index


class ObjectCache(Lister[T]):
    """The cache of an informer, which fills it; other components use it as a lister."""

    def put(self, key: NamespacedName, obj: T) -> None:
        old = self._objects.get(key)
        self._objects[key] = obj
        for function, index in self._indexes.items():
            values = set(function(obj))
            if old is not None:
                _remove(index, key, set(function(old)) - values)
            for value in values:
                index.setdefault(value, {})[key] = obj

    def remove(self, key: NamespacedName) -> T | None:
        old = self._objects.pop(key, None)
        if old is not None:
            for function, index in self._indexes.items():
                _remove(index, key, function(old))
        return old


def _remove(index: dict[Hashable, dict[NamespacedName, T]], key: NamespacedName, values: Iterable[Hashable]) -> None:
    for value in values:
        objects = index.get(value)
        if objects is not None:
            objects.pop(key, None)
            if not objects:
                del index[value]


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
        self._reflector = Reflector(source=source, sink=_InformerSink(self), selection=selection, config=config)

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
        time_slice = TimeSlice()
        while remaining:
            key = next(iter(remaining))
            del remaining[key]
            _call(handler, None, self._cache.get_by_key(key))
            await time_slice.pause_if_used_up()

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    def _put(self, key: NamespacedName, obj: Any) -> None:
        old: Any = self._cache.get_by_key(key)
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


class _InformerSink:
    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer
        self.put, self.remove = informer._put, informer._remove

    def list_keys(self) -> Sequence[NamespacedName]:
        return self._informer.lister.keys()

    def mark_synced(self) -> None:
        self._informer.synced.set()
