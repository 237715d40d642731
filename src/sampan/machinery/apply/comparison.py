"""The difference of two states of an object, as sets of fields.

The states are traversed side by side, and only where they differ: equal parts cost one comparison.
"""

from typing import Any, NamedTuple

from sampan.machinery.apply import elements, items
from sampan.machinery.apply.atoms import MISSING, Atom, Form
from sampan.machinery.apply.field_sets import collect_fields
from sampan.machinery.apply.items import are_equal
from sampan.machinery.apply.sets import EMPTY, MEMBER, Fields, sort_level, union


class Comparison(NamedTuple):
    added: Fields
    modified: Fields
    removed: Fields

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


Difference = tuple[Fields | None, Fields | None, Fields | None]
"""The nodes of one place in the sets of added, modified and removed fields; None for a set that has nothing there."""

_SAME: Difference = (None, None, None)


def compare(old: Any, new: Any, atom: Atom) -> Comparison:
    """Compare two states. Raise Misfit if one of them does not match its schema where they differ."""
    return Comparison(*(fields or EMPTY for fields in _compare(old, new, atom)))


def _compare(old: Any, new: Any, atom: Atom) -> Difference:
    if old is MISSING:
        return collect_fields(new, atom), None, None
    if new is MISSING:
        return None, None, collect_fields(old, atom)
    before, after = atom.form(old), atom.form(new)
    differences = _compare_as(after, old, new, atom)
    return differences if before == after else _merge_differences(_compare_as(before, old, new, atom), differences)


def _compare_as(form: Form, old: Any, new: Any, atom: Atom) -> Difference:
    if form == "map" and not atom.is_atomic_map:
        left, right = (side if isinstance(side, dict) else {} for side in (old, new))
        if left or right:
            return _compare_maps(left, right, atom)
    if form == "list" and not atom.is_atomic_list:
        first, second = (side if isinstance(side, list) else [] for side in (old, new))
        if first or second:
            return _compare_lists(first, second, atom)
    return _SAME if are_equal(old, new) else (None, MEMBER, None)


def _compare_maps(old: dict[str, Any], new: dict[str, Any], atom: Atom) -> Difference:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    is_exact = atom.is_exact
    for name in elements.sort_names({*old, *new} if old else new):
        left, right = old.get(name, MISSING), new.get(name, MISSING)
        if left is right or (is_exact and left == right):
            continue
        child = atom.child(name)
        if child is None:
            raise items.SchemaMismatch(f".{name}: field not declared in schema")
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


def _compare_lists(old: list[Any], new: list[Any], atom: Atom) -> Difference:
    added: Fields = {}
    modified: Fields = {}
    removed: Fields = {}
    below = atom.item()
    before, after = items.group_by_element(old, atom), items.group_by_element(new, atom)
    for element in {**before, **after}:
        differences = _compare_items(before.get(element, []), after.get(element, []), below)
        _note(element, differences, added, modified, removed)
    return _sort_if_any(added), _sort_if_any(modified), _sort_if_any(removed)


def _sort_if_any(fields: Fields) -> Fields | None:
    return sort_level(fields) if fields else None


def _compare_items(old: list[Any], new: list[Any], atom: Atom) -> Difference:
    """Compare the items with the same key. Duplicates together form one leaf."""
    if len(old) <= 1 and len(new) <= 1:
        left, right = old[0] if old else MISSING, new[0] if new else MISSING
        return _SAME if atom.is_exact and left == right else _compare(left, right, atom)
    if len(old) > 1 and len(new) > 1:
        return _SAME if are_equal(old, new) else (None, MEMBER, None)
    if len(old) > 1:
        return collect_fields(new[0], atom) if new else None, None, MEMBER
    return MEMBER, None, collect_fields(old[0], atom) if old else None


def _merge_differences(first: Difference, second: Difference) -> Difference:
    return tuple(_merge_nodes(*pair) for pair in zip(first, second, strict=True))  # type: ignore[return-value]


def _merge_nodes(first: Fields | None, second: Fields | None) -> Fields | None:
    if first is None or second is None:
        return second if first is None else first
    return union(first, second)
