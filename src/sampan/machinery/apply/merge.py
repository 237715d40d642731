"""Merging of an applied object into the live one: maps by key, associative lists by item, leaves replaced.

A merged list has the items of both sides in the applied order, with the items that only the live list has kept at their
places between them.
"""

from typing import Any

from sampan.machinery.apply import items
from sampan.machinery.apply.atoms import MISSING, Atom


def merge(live: Any, applied: Any, atom: Atom) -> Any:
    """Return the merged value, which shares parts with both; MISSING if nothing is left."""
    form = atom.form(live) if applied is MISSING else atom.form(applied)
    if form == "map" and not atom.is_atomic_map:
        left, right = (side if isinstance(side, dict) else {} for side in (live, applied))
        if left or right:
            return _merge_maps(left, right, atom)
    if form == "list" and not atom.is_atomic_list:
        first, second = (side if isinstance(side, list) else [] for side in (live, applied))
        if first or second:
            return _merge_lists(first, second, atom)
    return live if applied is MISSING else applied


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], atom: Atom) -> Any:
    out: dict[str, Any] = {}
    for name in [*live, *(name for name in applied if name not in live)]:
        left, right = live.get(name, MISSING), applied.get(name, MISSING)
        if left is MISSING or right is MISSING:
            merged = left if right is MISSING else right
        else:
            child = atom.child(name)
            merged = merge(left, right, child) if child is not None else right
        if merged is not MISSING:
            out[name] = merged
    return out or MISSING


def _merge_lists(live: list[Any], applied: list[Any], atom: Atom) -> Any:
    merging = _ListMerge(live, applied, atom)
    merging.run()
    return merging.out or MISSING


class _ListMerge:
    def __init__(self, live: list[Any], applied: list[Any], atom: Atom) -> None:
        self._live, self._below = live, atom.item()
        self._ours = [items.element(item, atom) for item in live]
        self._theirs = [items.element(item, atom) for item in applied]
        self._live_at: dict[str, Any] = {}
        for element, item in zip(self._ours, live, strict=True):
            # Duplicates are not merged with anything; None stands for a null item, which is not the same as no item.
            self._live_at[element] = None if element in self._live_at else item
        self._applied_at = dict(zip(self._theirs, applied, strict=True))
        self._shared = iter([element for element in self._theirs if element in self._live_at])
        self._next_shared = next(self._shared, None)
        """The first element, in the applied order, that both lists have and that is not merged yet."""
        self._used: set[str] = set()
        self.out: list[Any] = []

    def run(self) -> None:
        left = right = 0
        while left < len(self._ours) or right < len(self._theirs):
            element = self._ours[left] if left < len(self._ours) else None
            if element is not None and right < len(self._theirs):
                if element == self._theirs[right]:
                    self._take(element)
                    left, right = left + 1, right + 1
                    continue
                if element in self._applied_at and self._next_shared not in (None, element):
                    left += 1  # both lists have the item, but another item is next in the applied order
                    continue
            if element is not None:
                if element not in self._applied_at:
                    self._keep(left)
                    left += 1
                    continue
                if element in self._used:
                    left += 1
            if right < len(self._theirs):
                self._take(self._theirs[right])
                right += 1

    def _take(self, element: str) -> None:
        """Add an item of the applied list, merged with the item of the live list that has the same element, if there is
        one."""
        self._used.add(element)
        if self._next_shared == element:
            self._next_shared = next(self._shared, None)
        self._add(merge(self._live_at.get(element, MISSING), self._applied_at[element], self._below))

    def _keep(self, index: int) -> None:
        self._add(self._live[index])

    def _add(self, merged: Any) -> None:
        if merged is not MISSING:
            self.out.append(merged)
