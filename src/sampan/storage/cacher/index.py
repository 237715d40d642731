"""Indexes from a field value or a label to the keys of the objects that have it.

Field indexes are kept for the fields that the shape marks. The index of a label is built when it is first used in a
selector, maintained from then on, and dropped when other labels are used more recently.
"""

from collections.abc import Iterable, Set

from sampan.storage.cacher.item import Item

Keys = set[str]
_NONE: Keys = set()


class ValueIndex:
    """An index from values to keys."""

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

    def move(self, old: Item | None, new: Item | None) -> None:
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
    def __init__(self, *, most: int = 16) -> None:
        self._most = most
        self._indexes: dict[str, ValueIndex] = {}
        """Indexes by label, most recently used last."""

    def move(self, old: Item | None, new: Item | None) -> None:
        if not self._indexes or (old is not None and new is not None and old.labels is new.labels):
            return
        key = new.key if new is not None else old.key if old is not None else ""
        for label, index in self._indexes.items():
            before = None if old is None else old.labels.get(label)
            after = None if new is None else new.labels.get(label)
            if before != after:
                index.move(key, before, after)

    def keys(self, label: str, value: str, items: Iterable[Item]) -> Set[str]:
        """Return the keys of the items that have the label with this value; `items` are all items of the resource."""
        index = self._indexes.pop(label, None)
        if index is None:
            index = _built(label, items)
            if len(self._indexes) >= self._most:
                del self._indexes[next(iter(self._indexes))]
        self._indexes[label] = index
        return index.keys(value)


def _built(label: str, items: Iterable[Item]) -> ValueIndex:
    index = ValueIndex()
    for item in items:
        value = item.labels.get(label)
        if value is not None:
            index.move(item.key, None, value)
    return index
