"""The directives of a strategic merge patch, and the order of a merged list.

In a merged list, items in the patch have the order of the patch, the others that of the object. An item of the object
goes before the first item of the patch that came after it in the object; no item of the object goes before a new item,
so new items are as far to the front as the patch allows.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any, Final

from sampan.api.go_compat import gotext
from sampan.api.schema.tree import ANY, Schema
from sampan.machinery.patch.errors import MalformedPatch, PatchError, RefusedPatch

Identity = Any
"""A hashable stand-in for a scalar that distinguishes 1, 1.0 and true. A value that is not a scalar equals nothing."""

Ranks = dict[Identity, int]
Marked = list[tuple[Identity, Any]]
"""The items of a list with the values of their merge key."""
_MAX_INSERTION_SORT_ITEMS = 20


def arrange_items(items: Sequence[Any], key: str, *, order: Sequence[Any], live: Sequence[Any]) -> list[Any]:
    """Return `items` in the order of a merged list. `order` has the order of the patch, `live` that of the object; both
    may contain only the merge keys."""
    by_patch, by_object = _ranks(identities(order, key)), _ranks(identities(live, key))
    named: Marked = []
    others: Marked = []
    for mark, item in zip(identities(items, key), items, strict=True):
        (named if mark in by_patch else others).append((mark, item))
    return _interleave(_sort_marked(others, by_object), _sort_marked(named, by_patch), by_object)


def _ranks(marks: Sequence[Identity]) -> Ranks:
    ranks: Ranks = {}
    for rank, mark in enumerate(marks):
        ranks.setdefault(mark, rank)
    return ranks


def _sort_marked(marked: Marked, ranks: Ranks) -> Marked:
    """Sort by rank; items that are deletions (in a patch of a patch) come last, unchanged."""
    pairs = [pair for pair in marked if not _is_deletion(pair[1])]
    deletions = [pair for pair in marked if _is_deletion(pair[1])]
    if len(pairs) <= _MAX_INSERTION_SORT_ITEMS and not all(mark in ranks for mark, _ in pairs):
        return _insertion_sort(pairs, ranks) + deletions
    return sorted(pairs, key=lambda pair: ranks.get(pair[0], -1)) + deletions


def _is_deletion(item: Any) -> bool:
    return isinstance(item, dict) and item.get(PATCH) == "delete"


def _insertion_sort(marked: Marked, ranks: Ranks) -> Marked:
    """Sort as kube-apiserver does: its comparison treats an item without a rank as smaller than all others and all
    others as smaller than it, so the result depends on the algorithm. It sorts short lists by insertion; in long ones
    we put such items first."""
    done: Marked = []
    for pair in marked:
        position = len(done)
        while position and _is_before(pair[0], done[position - 1][0], ranks):
            position -= 1
        done.insert(position, pair)
    return done


def _is_before(left: Identity, right: Identity, ranks: Ranks) -> bool:
    return ranks[left] < ranks[right] if left in ranks and right in ranks else True


def _interleave(others: Marked, named: Marked, by_object: Ranks) -> list[Any]:
    result: list[Any] = []
    position = 0
    for mark, item in named:
        rank = by_object.get(mark)
        while rank is not None and position < len(others) and by_object.get(others[position][0], rank) < rank:
            result.append(others[position][1])
            position += 1
        result.append(item)
    result.extend(item for _, item in others[position:])
    return result


PATCH = "$patch"
"""The directive in an object or list item that it is replaced or deleted instead of merged."""
RETAIN_KEYS = "$retainKeys"
"""The directive that lists the keys of an object that are kept; all other keys are removed."""
DELETE_FROM = "$deleteFromPrimitiveList"
"""The directive that lists values to remove from a list of scalars; /FIELD follows and names the list."""
SET_ORDER = "$setElementOrder"
"""The directive that gives the order of the items of a list; /FIELD follows and names the list."""


class _Omission(Enum):
    OMITTED = auto()


OMITTED: Final = _Omission.OMITTED
"""The result of `without_directives` for a value that is a directive itself."""


def field_named_by(key: str, prefix: str) -> str:
    """Return the field in a key like $setElementOrder/containers. Raise MalformedPatch."""
    start, slash, field = key.partition("/")
    if start != prefix or not slash:
        kind = "primitive" if prefix == DELETE_FROM else "setElementOrder"
        raise MalformedPatch(f"invalid patch format of {kind} list")
    return field


def without_directives(value: Any, *, keep_nulls: bool) -> Any:
    """Return a value of a patch that has no counterpart in the object: unchanged, but without objects that contain
    `$patch`, and without nulls unless these are still to be sent to a server."""
    if isinstance(value, dict):
        return OMITTED if PATCH in value else _clean_object(value, keep_nulls)
    if isinstance(value, list):
        return _clean_list(value, keep_nulls)
    return value


def _clean_object(value: dict[str, Any], keep_nulls: bool) -> dict[str, Any]:
    parts = {
        key: without_directives(part, keep_nulls=keep_nulls)
        for key, part in value.items()
        if keep_nulls or part is not None
    }
    return {key: part for key, part in parts.items() if part is not OMITTED}


def _clean_list(value: list[Any], keep_nulls: bool) -> list[Any]:
    items = [without_directives(item, keep_nulls=keep_nulls) for item in value]
    return [item for item in items if item is not OMITTED]


def lookup(schema: Schema, field: str) -> Schema:
    """Return the schema of a field; ANY if any content is allowed. Raise PatchError for an unknown field of a known
    type."""
    child = schema.child(field)
    if child is not None:
        return child
    if schema.properties and not schema.preserve_unknown:
        struct = schema.name.rpartition(".")[2]
        raise PatchError(f"unable to find api field in struct {struct} for the json field {gotext.quote(field)}")
    return ANY


def holds_objects(*lists: Iterable[Any]) -> bool:
    """Whether the items of these lists are objects rather than scalars. Raise PatchError if they have different types
    or are lists."""
    first: type | None = None
    for item in (item for items in lists for item in items):
        if first is None:
            first = type(item)
            if first is list:
                raise RefusedPatch("lists of lists are not supported")
        if type(item) is not first or item is None:
            raise PatchError(f"list element types are not identical: {gotext.value(list(lists))}")
    if first is None:
        raise PatchError("no elements in any of the given slices")
    return first is dict


def wrong_type(expected: type, value: Any) -> PatchError:
    return PatchError(f"expected a {gotext.type_name(expected())}, but received a {gotext.type_name(value)}")


def identity(scalar: Any) -> Identity:
    if isinstance(scalar, str):
        return scalar
    if isinstance(scalar, dict | list):
        return object()
    return type(scalar), scalar


def identities(items: Iterable[Any], key: str) -> list[Identity]:
    """Return the identities of the items of a list: the value of their merge key, or for scalars (no key) the item
    itself."""
    return [identity(merge_value(item, key)) for item in items] if key else [identity(item) for item in items]


def merge_value(item: Any, key: str) -> Any:
    if not isinstance(item, dict):
        raise wrong_type(dict, item)
    if key not in item:
        raise PatchError(f"map: {gotext.value(item)} does not contain declared merge key: {key}")
    return item[key]
