"""The objects of a resource with the indexes to find them, in the current state and in a recent past state.

The indexes lead from a field value or a label to the keys of the objects that have it. Field indexes are kept for the
fields that the shape marks. The index of a label is built when the label is first used in a selector, maintained from
then on, and dropped when other labels are used more recently."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import NamedTuple

from sampan.storage.cacher.history import CacheChange
from sampan.storage.cacher.item import CacheItem
from sampan.storage.cacher.keys import KeySpace
from sampan.storage.cacher.object_fields import CachedResource
from sampan.storage.cacher.selection import ItemMatcher

_MAX_COMPARED_LABELS = 4
"""For how many labels of a selector an index may be built."""
Keys = set[str]
_NONE: Keys = set()


class ValueIndex:
    """An index from the values of a field or label to the keys of the objects that have them."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[str, Keys] = {}

    def move(self, key: str, old: str | None, new: str | None) -> None:
        """Move `key` from the value `old` to the value `new`; None stands for no value."""
        if old is not None:
            keys = self._keys[old]
            keys.discard(key)
            if not keys:
                del self._keys[old]
        if new is not None:
            keys = self._keys.get(new, _NONE)
            if keys is _NONE:
                self._keys[new] = {key}
            else:
                keys.add(key)

    def keys(self, value: str) -> Set[str]:
        return self._keys.get(value, _NONE)

    def __len__(self) -> int:
        return len(self._keys)


class FieldIndexes:
    def __init__(self, positions: Iterable[int]) -> None:
        self._indexes = {position: ValueIndex() for position in positions}

    def move(self, old: CacheItem | None, new: CacheItem | None) -> None:
        if old is not None and new is not None and old.fields is new.fields:
            return
        key = new.key if new is not None else old.key if old is not None else ""
        for position, index in self._indexes.items():
            before = None if old is None else old.fields[position]
            after = None if new is None else new.fields[position]
            if before != after:
                index.move(key, before, after)

    def __contains__(self, position: int) -> bool:
        return position in self._indexes

    def keys(self, position: int, value: str) -> Set[str]:
        return self._indexes[position].keys(value)


class LabelIndexes:
    def __init__(self, *, maximum: int = 16) -> None:
        self._maximum = maximum
        self._indexes: dict[str, ValueIndex] = {}
        """Indexes by label, most recently used last."""

    def move(self, old: CacheItem | None, new: CacheItem | None) -> None:
        if not self._indexes or (old is not None and new is not None and old.labels is new.labels):
            return
        key = new.key if new is not None else old.key if old is not None else ""
        for label, index in self._indexes.items():
            before = None if old is None else old.labels.get(label)
            after = None if new is None else new.labels.get(label)
            if before != after:
                index.move(key, before, after)

    def keys(self, label: str, value: str, items: Iterable[CacheItem]) -> Set[str]:
        """Return the keys of the items that have the label with this value; `items` are all items of the resource."""
        index = self._indexes.pop(label, None)
        if index is None:
            index = _build_index(label, items)
            if len(self._indexes) >= self._maximum:
                del self._indexes[next(iter(self._indexes))]
        self._indexes[label] = index
        return index.keys(value)


def _build_index(label: str, items: Iterable[CacheItem]) -> ValueIndex:
    index = ValueIndex()
    for item in items:
        value = item.labels.get(label)
        if value is not None:
            index.move(item.key, None, value)
    return index


class SelectedItems(NamedTuple):
    items: list[CacheItem]
    has_more: bool
    """Whether more items may follow the last one on later pages. As in kube-apiserver, objects that the selector does
    not match count as well, unless a field index excludes them."""


class CacheContents:
    def __init__(self, shape: CachedResource) -> None:
        self.shape = shape
        self.items: dict[str, CacheItem] = {}
        self.bytes = 0
        self.keys = KeySpace(shape)
        self._fields = FieldIndexes([index for index, field in enumerate(shape.fields) if field.indexed])
        self._labels = LabelIndexes()

    def put(self, new: CacheItem, old: CacheItem | None) -> None:
        """Store an item in place of `old`, the current item of the same key."""
        self.items[new.key] = new
        self.bytes += len(new.body)
        if old is None:
            self.keys.add(new.namespace, new.key)
        else:
            self.bytes -= len(old.body)
        self._fields.move(old, new)
        self._labels.move(old, new)

    def remove(self, old: CacheItem) -> None:
        del self.items[old.key]
        self.bytes -= len(old.body)
        self.keys.remove(old.namespace, old.key)
        self._fields.move(old, None)
        self._labels.move(old, None)

    def select(self, matcher: ItemMatcher, *, start: str = "", limit: int = 0) -> SelectedItems:
        """Return the matching items in key order from `start` on, at most `limit` (0: all)."""
        if matcher.name and (matcher.namespace or not self.shape.is_namespaced):
            return self._select_by_name(matcher, start)
        if matcher.name and not limit:
            named = [key for key in self.keys.list_named(matcher.name) if key in self.items and key >= start]
            return _select([named], self.items, matcher, limit)
        keys, is_exact = self._find_indexed_keys(matcher)
        if keys is None:
            return _select(self.keys.blocks(matcher.namespace, start), self.items, matcher, limit)
        selected = _select([sorted([key for key in keys if key >= start])], self.items, matcher, limit)
        if limit and not is_exact and not selected.has_more and len(selected.items) == limit:
            return SelectedItems(selected.items, self.keys.get_last(matcher.namespace) > selected.items[-1].key)
        return selected

    def count(self, namespace: str, start: str) -> int:
        return self.keys.count(namespace, start)

    def _select_by_name(self, matcher: ItemMatcher, start: str) -> SelectedItems:
        item = self.items.get(self.shape.key(matcher.namespace, matcher.name))
        return SelectedItems([item] if item is not None and item.key >= start and matcher.matches(item) else [], False)

    def _find_indexed_keys(self, matcher: ItemMatcher) -> tuple[Set[str] | None, bool]:
        """Return the smallest set of keys from an index, and whether it is a field index.

        Return None if scanning all keys of the namespace is no more work.
        """
        best: Set[str] | None = None
        is_field = False
        for position, value in matcher.equal:
            if position in self._fields:
                keys = self._fields.keys(position, value)
                if best is None or len(keys) < len(best):
                    best, is_field = keys, True
        worth = len(best) if best is not None else self.keys.count(matcher.namespace)
        if worth > 64:
            for label, value in islice(matcher.required_labels.items(), _MAX_COMPARED_LABELS):
                keys = self._labels.keys(label, value, self.items.values())
                if len(keys) * 2 < worth:
                    best, worth = keys, len(keys)
        return best, is_field


class PastContents:
    """The contents at an older revision, reconstructed from the changes since then."""

    def __init__(self, contents: CacheContents, since: Iterable[CacheChange]) -> None:
        self._contents = contents
        self._then: dict[str, CacheItem | None] = {}
        for change in since:
            self._then.setdefault(change.key, change.old)
        self._deleted = sorted(
            [key for key, item in self._then.items() if item is not None and key not in contents.items]
        )

    def select(self, matcher: ItemMatcher, *, start: str = "", limit: int = 0) -> SelectedItems:
        if not self._then:
            return self._contents.select(matcher, start=start, limit=limit)
        return _select(
            self._blocks(matcher.namespace, start), _PastItems(self._contents.items, self._then), matcher, limit
        )

    def count(self, namespace: str, start: str) -> int:
        scope, present = self._contents.shape.scope(namespace), self._contents.items
        count = self._contents.count(namespace, start)
        for key, item in self._then.items():
            if key >= start and key.startswith(scope):
                count += (item is not None) - (key in present)
        return count

    def _blocks(self, namespace: str, start: str) -> Iterator[list[str]]:
        """Yield the keys of the past and the current state, in order."""
        scope = self._contents.shape.scope(namespace)
        deleted = [key for key in self._deleted if key >= start and key.startswith(scope)]
        position = 0
        for block in self._contents.keys.blocks(namespace, start):
            end = bisect_left(deleted, block[-1], lo=position)
            yield sorted(deleted[position:end] + block) if end > position else block
            position = end
        yield deleted[position:]


class _PastItems(dict[str, CacheItem | None]):
    """A mapping from keys to items that prefers the past state of an item to its current state."""

    def __init__(self, now: Mapping[str, CacheItem], then: dict[str, CacheItem | None]) -> None:
        super().__init__(then)
        self._now = now

    def __missing__(self, key: str) -> CacheItem | None:
        return self._now[key]


def _select(
    blocks: Iterable[list[str]],
    items: Mapping[str, CacheItem] | Mapping[str, CacheItem | None],
    matcher: ItemMatcher,
    limit: int,
) -> SelectedItems:
    if matcher.is_whole and not limit and type(items) is dict:
        return SelectedItems([items[key] for block in blocks for key in block], False)
    selected: list[CacheItem] = []
    matches, lookup = matcher.matches, items.__getitem__
    for block in blocks:
        for item in map(lookup, block):
            if item is None:
                continue
            if limit and len(selected) >= limit:
                return SelectedItems(selected, True)
            if matches(item):
                selected.append(item)
    return SelectedItems(selected, False)
