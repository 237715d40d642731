"""The object cache of an informer, with its indexes. All objects in it are shared and read-only."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from sampan.api import labels
from sampan.machinery.object_key import NamespacedName

T = TypeVar("T")

IndexFunction = Callable[[Any], Iterable[Hashable]]
"""Maps an object to the values under which an index lists it."""


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

    def by_key(self, key: NamespacedName) -> T | None:
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
    """A lister that its informer fills."""

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
