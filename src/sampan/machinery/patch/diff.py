"""Computes patches: strategic merge patches from two versions of an object, or from three as `kubectl apply` does, and
JSON patches (RFC 6902) from two versions of a document, as in the response of a mutating webhook."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from sampan.api.go_compat import gotext
from sampan.api.schema.tree import Schema
from sampan.machinery.patch.directives import (
    DELETE_FROM,
    PATCH,
    RETAIN_KEYS,
    SET_ORDER,
    holds_objects,
    identities,
    lookup,
    merge_value,
)
from sampan.machinery.patch.errors import are_identical, limit_depth
from sampan.machinery.patch.json_patch import Operation
from sampan.machinery.patch.strategic import join_strategic_patches


@limit_depth
def json_diff(original: Any, modified: Any) -> list[Operation]:
    """Return the operations that turn `original` into `modified`, both objects or lists."""
    return list(_changes(original, modified, ""))


def _changes(old: Any, new: Any, path: str) -> Iterator[Operation]:
    if are_identical(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_changes(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(old, new, path)
    else:
        yield {"op": "replace", "path": path, "value": new}


def _object_changes(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Operation]:
    for key in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escape_key(key)}"}
    for key, value in new.items():
        if key in old:
            yield from _changes(old[key], value, f"{path}/{_escape_key(key)}")
        else:
            yield {"op": "add", "path": f"{path}/{_escape_key(key)}", "value": value}


def _list_changes(old: list[Any], new: list[Any], path: str) -> Iterator[Operation]:
    """Yield the changes of a list: equal items at either end are kept; between them, items are changed in place, and
    the rest is removed or added."""
    start, end = _common_ends(old, new)
    changed = min(len(old), len(new)) - end
    for i in range(start, changed):
        yield from _changes(old[i], new[i], f"{path}/{i}")
    for i in range(len(old) - end - 1, changed - 1, -1):
        yield {"op": "remove", "path": f"{path}/{i}"}
    for i in range(changed, len(new) - end):
        yield {"op": "add", "path": f"{path}/{i}", "value": new[i]}


def _common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and are_identical(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and are_identical(old[-1 - end], new[-1 - end]):
        end += 1
    return start, end


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiffScope:
    """The differences that a patch includes: additions and changes, removals, and the order of lists."""

    changes: bool = True
    removals: bool = True
    order: bool = True


_ALL = _DiffScope()


@limit_depth
def strategic_diff(original: Object, modified: Object, schema: Schema) -> Object:
    """Return the strategic merge patch that turns `original` into `modified`. Nulls in `modified` count as missing
    keys."""
    return _diff_objects(original, modified, schema, _ALL)


@limit_depth
def three_way_strategic_diff(original: Object, modified: Object, current: Object, schema: Schema) -> Object:
    """Return the strategic merge patch that brings `current` to the state that `modified` specifies.

    Fields of `modified` are set; fields that `original` (the last applied version) had and `modified` no longer has are
    removed; the other fields of `current` have other owners and are kept.
    """
    changes = _diff_objects(current, modified, schema, _DiffScope(removals=False))
    removals = _diff_objects(original, modified, schema, _DiffScope(changes=False))
    return join_strategic_patches(removals, changes, schema)


def _diff_objects(
    original: Object, modified: Object, schema: Schema, scope: _DiffScope, retain: bool = False
) -> Object:
    patch: Object = {}
    for key, new in modified.items():
        if key not in original:
            if scope.changes:
                patch[key] = new
        else:
            _diff_field(patch, key, original[key], new, schema, scope)
    if scope.removals:
        patch.update((key, None) for key in original if key not in modified)
    if retain:
        _retain_keys(patch, original, modified)
    return patch


def _retain_keys(patch: Object, original: Object, modified: Object) -> None:
    """List the keys to retain, because other writers may have set keys that exclude ours (such as another source of a
    volume)."""
    keys = sorted(key for key, value in modified.items() if value is not None)
    has_more = any(value is not None and key not in modified for key, value in original.items())
    if keys and (patch or has_more):
        patch[RETAIN_KEYS] = keys


def _diff_field(patch: Object, key: str, old: Any, new: Any, schema: Schema, scope: _DiffScope) -> None:
    if are_identical(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        field = lookup(schema, key)
        if "replace" not in field.patch_strategy:
            if below := _diff_objects(old, new, field, scope, "retainKeys" in field.patch_strategy):
                patch[key] = below
            return
    elif isinstance(old, list) and isinstance(new, list):
        field = lookup(schema, key)
        if "merge" in field.patch_strategy:
            _diff_lists(patch, key, old, new, field, scope)
            return
    if scope.changes:
        patch[key] = new


def _diff_lists(patch: Object, key: str, old: list[Any], new: list[Any], field: Schema, scope: _DiffScope) -> None:
    if not old:
        if new and scope.changes:
            patch[key] = new
        return
    if holds_objects(old, new):
        _diff_object_lists(patch, key, old, new, field, scope)
    else:
        _diff_scalar_lists(patch, key, old, new, scope)


def _diff_object_lists(
    patch: Object, key: str, old: list[Any], new: list[Any], field: Schema, scope: _DiffScope
) -> None:
    merge_key = field.patch_key
    items = [*_changed_items(old, new, field, scope), *_removed_items(old, new, merge_key, scope)]
    if items:
        patch[key] = items
    moved = scope.changes and identities(old, merge_key) != identities(new, merge_key)
    if scope.order and new and (items or moved):
        patch[f"{SET_ORDER}/{key}"] = [{merge_key: item[merge_key]} for item in new]


def _changed_items(old: list[Any], new: list[Any], field: Schema, scope: _DiffScope) -> Iterator[Object]:
    """Yield patches of kept items and the new items, in the order of the new list."""
    merge_key, retain = field.patch_key, "retainKeys" in field.patch_strategy
    before, after = _group_by_key(old, merge_key), _group_by_key(new, merge_key)
    for text, items in after.items():
        for previous, item in zip_longest(before.get(text, [])[: len(items)], items):
            if previous is None:
                if scope.changes:
                    yield item
            elif below := _diff_objects(previous, item, field.items or field, scope, retain):
                yield {**below, merge_key: item[merge_key]}


def _removed_items(old: list[Any], new: list[Any], key: str, scope: _DiffScope) -> Iterator[Object]:
    before, after = _group_by_key(old, key), _group_by_key(new, key)
    for text in sorted(before) if scope.removals else ():
        for item in before[text][len(after.get(text, [])) :]:
            yield {key: item[key], PATCH: "delete"}


def _group_by_key(items: list[Any], key: str) -> dict[str, list[Object]]:
    """Return the items by the text of their key (80 and "80" are the same), keys in the order of the list. Of several
    items with one key the last comes first, because Kubernetes pairs them in that order."""
    groups: dict[str, list[Object]] = {}
    for item in items:
        groups.setdefault(gotext.value(merge_value(item, key)), []).append(item)
    for same_key in groups.values():
        same_key.reverse()
    return groups


def _diff_scalar_lists(patch: Object, key: str, old: list[Any], new: list[Any], scope: _DiffScope) -> None:
    old_counts, new_counts = Counter(map(gotext.value, old)), Counter(map(gotext.value, new))
    added = _exclude_items(new, old_counts) if scope.changes else []
    removed = sorted(_exclude_items(old, new_counts), key=gotext.value) if scope.removals else []
    if added:
        patch[key] = added
    if removed:
        patch[f"{DELETE_FROM}/{key}"] = list({gotext.value(item): item for item in removed}.values())
    if scope.order and new and (removed or (scope.changes and not are_identical(old, new))):
        patch[f"{SET_ORDER}/{key}"] = new


def _exclude_items(items: list[Any], others: Counter[str]) -> list[Any]:
    remaining = others.copy()
    remaining_items = []
    for item in items:
        text = gotext.value(item)
        if remaining[text] > 0:
            remaining[text] -= 1
        else:
            remaining_items.append(item)
    return remaining_items
