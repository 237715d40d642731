"""Sorted keys, which define the order of lists, pages and initial events.

Storage keys are ordered as a whole, so that namespaces are ordered by name *and slash* (`a-b/` before `a/`).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from sampan.storage.cacher.object_fields import CachedResource


class SortedKeys:
    """A sorted list of strings split into blocks, so that an insertion moves few entries.

    Lists and pages are built from whole blocks, which `sortedcontainers.SortedList` does not expose: 200 pages of 500
    of 100,000 keys take 2.1 ms here and 4.0 ms with its `irange`. Insertions and removals take the same time (0.9
    microseconds each).
    """

    _BLOCK = 1024

    def __init__(self) -> None:
        self._blocks: list[list[str]] = []
        self._lasts: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, key: str) -> None:
        """Add a key that is not present yet."""
        self._size += 1
        if not self._blocks:
            self._blocks, self._lasts = [[key]], [key]
            return
        index = min(bisect_left(self._lasts, key), len(self._lasts) - 1)
        block = self._blocks[index]
        insort(block, key)
        self._lasts[index] = block[-1]
        if len(block) > 2 * self._BLOCK:
            self._blocks[index : index + 1] = [block[: self._BLOCK], block[self._BLOCK :]]
            self._lasts.insert(index, block[self._BLOCK - 1])

    def remove(self, key: str) -> None:
        """Remove a key that is present."""
        index = bisect_left(self._lasts, key)
        block = self._blocks[index]
        del block[bisect_left(block, key)]
        self._size -= 1
        if block:
            self._lasts[index] = block[-1]
        else:
            del self._blocks[index], self._lasts[index]

    def blocks(self, start: str = "") -> Iterator[list[str]]:
        """Yield the keys from `start` on in lists, which must not be modified and are valid until the next change."""
        index = bisect_left(self._lasts, start)
        if index == len(self._blocks):
            return
        first = self._blocks[index]
        cut = bisect_left(first, start)
        yield first[cut:] if cut else first
        yield from self._blocks[index + 1 :]

    def count(self, start: str = "") -> int:
        """Return the number of keys from `start` on."""
        index = bisect_left(self._lasts, start)
        if index == len(self._blocks):
            return 0
        before = sum(map(len, self._blocks[:index])) + bisect_left(self._blocks[index], start)
        return self._size - before

    def get_last(self) -> str:
        return self._lasts[-1] if self._lasts else ""


class KeySpace:
    """The keys of a resource by namespace; those of a cluster-scoped resource are all in the namespace ''."""

    def __init__(self, shape: CachedResource) -> None:
        self._shape = shape
        self._spaces: dict[str, SortedKeys] = {}
        """Keys by the prefix of their namespace, for namespaces that have keys."""
        self._scopes: list[str] = []
        """The key prefixes of the scopes, in order."""

    def add(self, namespace: str, key: str) -> None:
        scope = self._shape.scope(namespace)
        keys = self._spaces.get(scope)
        if keys is None:
            keys = self._spaces[scope] = SortedKeys()
            insort(self._scopes, scope)
        keys.add(key)

    def remove(self, namespace: str, key: str) -> None:
        scope = self._shape.scope(namespace)
        keys = self._spaces[scope]
        keys.remove(key)
        if not keys:
            del self._spaces[scope]
            self._scopes.remove(scope)

    def blocks(self, namespace: str = "", start: str = "") -> Iterator[list[str]]:
        """Yield the keys of a namespace, or of all, from `start` on; see `SortedKeys.blocks`."""
        for keys in self._list_spaces_from(namespace, start):
            yield from keys.blocks(start)

    def count(self, namespace: str = "", start: str = "") -> int:
        return sum([keys.count(start) for keys in self._list_spaces_from(namespace, start)])

    def list_named(self, name: str) -> list[str]:
        """Return the keys that objects of that name would have, in order, in all namespaces that have objects."""
        return [scope + name for scope in self._scopes]

    def get_last(self, namespace: str = "") -> str:
        spaces = self._list_spaces_from(namespace, "")
        return spaces[-1].get_last() if spaces else ""

    def _list_spaces_from(self, namespace: str, start: str) -> list[SortedKeys]:
        if namespace or not self._shape.is_namespaced:
            keys = self._spaces.get(self._shape.scope(namespace))
            return [] if keys is None else [keys]
        first = max(bisect_right(self._scopes, start) - 1, 0)
        return [self._spaces[scope] for scope in self._scopes[first:]]
