"""The difference of two states of an object, as sets of fields.

The states are traversed side by side, and only where they differ: equal parts cost one comparison.
"""

from typing import Any, NamedTuple

from sampan.machinery.apply import elements, items
from sampan.machinery.apply.atoms import MISSING, Atom, Form
from sampan.machinery.apply.field_sets import whole
from sampan.machinery.apply.items import equal
from sampan.machinery.apply.sets import EMPTY, MEMBER, Fields, in_order, union


class Comparison(NamedTuple):
    added: Fields
    modified: Fields
    removed: Fields

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


Difference = tuple[Fields | None, Fields | None, Fields | None]
"""The nodes of one place in the three sets; None if a set has nothing there."""

_SAME: Difference = (None, None, None)


def compare(old: Any, new: Any, atom: Atom) -> Comparison:
    """Compare two states. Raise Misfit if one of them does not match its schema where they differ."""
    return Comparison(*(fields or EMPTY for fields in _compare(old, new, atom)))


def _compare(old: Any, new: Any, atom: Atom) -> Difference:
    if old is MISSING:
        return whole(new, atom), None, None
    if new is MISSING:
        return None, None, whole(old, atom)
    before, after = atom.form(old), atom.form(new)
    differences = _as(after, old, new, atom)
    return differences if before == after else _both(_as(before, old, new, atom), differences)


def _as(form: Form, old: Any, new: Any, atom: Atom) -> Difference:
    if form == "map" and not atom.is_atomic_map:
        left, right = (side if isinstance(side, dict) else {} for side in (old, new))
        if left or right:
            return _maps(left, right, atom)
    if form == "list" and not atom.is_atomic_list:
        first, second = (side if isinstance(side, list) else [] for side in (old, new))
        if first or second:
            return _lists(first, second, atom)
    return _SAME if equal(old, new) else (None, MEMBER, None)


def _maps(old: dict[str, Any], new: dict[str, Any], atom: Atom) -> Difference:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    is_exact = atom.is_exact
    for name in elements.sorted_names({*old, *new} if old else new):
        left, right = old.get(name, MISSING), new.get(name, MISSING)
        if left is right or (is_exact and left == right):
            continue
        child = atom.child(name)
        if child is None:
            raise items.Misfit(f".{name}: field not declared in schema")
        if child.is_exact and left == right:
            continue
        _note("f:" + name, _compare(left, right, child), added, modified, removed)
    return added or None, modified or None, removed or None


def _note(element: str, difference: Difference, added: Fields, modified: Fields, removed: Fields) -> None:
    if difference[0] is not None:
        added[element] = difference[0]
    if difference[1] is not None:
        modified[element] = difference[1]
    if difference[2] is not None:
        removed[element] = difference[2]


def _lists(old: list[Any], new: list[Any], atom: Atom) -> Difference:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    below = atom.item()
    before, after = items.by_element(old, atom), items.by_element(new, atom)
    for element in {**before, **after}:
        differences = _same_element(before.get(element, []), after.get(element, []), below)
        _note(element, differences, added, modified, removed)
    return _ordered(added), _ordered(modified), _ordered(removed)


def _ordered(fields: Fields) -> Fields | None:
    return in_order(fields) if fields else None


def _same_element(old: list[Any], new: list[Any], atom: Atom) -> Difference:
    """Compare the items with the same key. Duplicates together form one leaf."""
    if len(old) <= 1 and len(new) <= 1:
        left, right = old[0] if old else MISSING, new[0] if new else MISSING
        return _SAME if atom.is_exact and left == right else _compare(left, right, atom)
    if len(old) > 1 and len(new) > 1:
        return _SAME if equal(old, new) else (None, MEMBER, None)
    if len(old) > 1:
        return whole(new[0], atom) if new else None, None, MEMBER
    return MEMBER, None, whole(old[0], atom) if old else None


def _both(first: Difference, second: Difference) -> Difference:
    return tuple(_joined(*pair) for pair in zip(first, second, strict=True))  # type: ignore[return-value]


def _joined(first: Fields | None, second: Fields | None) -> Fields | None:
    if first is None or second is None:
        return second if first is None else first
    return union(first, second)
