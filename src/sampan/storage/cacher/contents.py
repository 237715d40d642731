"""The objects of a resource with the indexes to find them, in the current state and in a recent past state."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from sampan.storage.cacher.history import Change
from sampan.storage.cacher.index import FieldIndexes, LabelIndexes
from sampan.storage.cacher.item import Item
from sampan.storage.cacher.keys import KeySpace
from sampan.storage.cacher.selection import Matcher
from sampan.storage.cacher.shape import Shape


class Found(NamedTuple):
    items: list[Item]
    has_more: bool
    """Whether more items may follow the last one.

    As in kube-apiserver, objects that the selector does not match count as well, unless a field index excludes them.
    """


class Contents:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.items: dict[str, Item] = {}
        self.bytes = 0
        self.keys = KeySpace(shape)
        self._fields = FieldIndexes([at for at, field in enumerate(shape.fields) if field.indexed])
        self._labels = LabelIndexes()

    def put(self, new: Item, old: Item | None) -> None:
        """Store an item in place of `old`, the current item of the same key."""
        self.items[new.key] = new
        self.bytes += len(new.body)
        if old is None:
            self.keys.add(new.namespace, new.key)
        else:
            self.bytes -= len(old.body)
        self._fields.move(old, new)
        self._labels.move(old, new)

    def remove(self, old: Item) -> None:
        del self.items[old.key]
        self.bytes -= len(old.body)
        self.keys.remove(old.namespace, old.key)
        self._fields.move(old, None)
        self._labels.move(old, None)

    def select(self, matcher: Matcher, *, start: str = "", limit: int = 0) -> Found:
        """Return the matching items in key order from `start` on, at most `limit` (0: all)."""
        if matcher.name and (matcher.namespace or not self.shape.is_namespaced):
            return self._one(matcher, start)
        keys, is_exact = self._indexed(matcher)
        if keys is None:
            return _taken(self.keys.blocks(matcher.namespace, start), self.items, matcher, limit)
        selected = _taken([sorted([key for key in keys if key >= start])], self.items, matcher, limit)
        if limit and not is_exact and not selected.has_more and len(selected.items) == limit:
            return Found(selected.items, self.keys.last(matcher.namespace) > selected.items[-1].key)
        return selected

    def count(self, namespace: str, start: str) -> int:
        return self.keys.count(namespace, start)

    def _one(self, matcher: Matcher, start: str) -> Found:
        item = self.items.get(self.shape.key(matcher.namespace, matcher.name))
        return Found([item] if item is not None and item.key >= start and matcher.matches(item) else [], False)

    def _indexed(self, matcher: Matcher) -> tuple[Set[str] | None, bool]:
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
            for label, value in matcher.required.items():
                keys = self._labels.keys(label, value, self.items.values())
                if len(keys) * 2 < worth:
                    best, worth = keys, len(keys)
        return best, is_field


class Past:
    """The contents at an older revision, reconstructed from the changes since then."""

    def __init__(self, contents: Contents, since: Iterable[Change]) -> None:
        self._contents = contents
        self._then: dict[str, Item | None] = {}
        for change in since:
            self._then.setdefault(change.key, change.old)
        self._gone = sorted([key for key, item in self._then.items() if item is not None and key not in contents.items])

    def select(self, matcher: Matcher, *, start: str = "", limit: int = 0) -> Found:
        if not self._then:
            return self._contents.select(matcher, start=start, limit=limit)
        return _taken(self._blocks(matcher.namespace, start), _Then(self._contents.items, self._then), matcher, limit)

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
        gone = [key for key in self._gone if key >= start and key.startswith(scope)]
        at = 0
        for block in self._contents.keys.blocks(namespace, start):
            end = bisect_left(gone, block[-1], lo=at)
            yield sorted(gone[at:end] + block) if end > at else block
            at = end
        yield gone[at:]


class _Then(dict[str, Item | None]):
    """Lookups that prefer the past state of an item."""

    def __init__(self, now: Mapping[str, Item], then: dict[str, Item | None]) -> None:
        super().__init__(then)
        self._now = now

    def __missing__(self, key: str) -> Item | None:
        return self._now[key]


def _taken(
    blocks: Iterable[list[str]], items: Mapping[str, Item] | Mapping[str, Item | None], matcher: Matcher, limit: int
) -> Found:
    if matcher.is_whole and not limit and type(items) is dict:
        return Found([items[key] for block in blocks for key in block], False)
    selected: list[Item] = []
    matches, lookup = matcher.matches, items.__getitem__
    for block in blocks:
        for item in map(lookup, block):
            if item is None:
                continue
            if limit and len(selected) >= limit:
                return Found(selected, True)
            if matches(item):
                selected.append(item)
    return Found(selected, False)
