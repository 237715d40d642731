"""Strategic merge patch: a merge patch that merges lists by the keys in the schema.

Lists with the strategy `merge` are merged item by item, others are replaced; directives in the patch (`directives`)
delete, replace and order. The same rules join two patches into one, which a three-way diff needs: then directives are
kept for the server instead of executed (`_MergeState.join`).
"""

from typing import Any

from sampan.api import limits
from sampan.api.go_compat import gotext
from sampan.api.schema.tree import Schema
from sampan.machinery.patch.directives import (
    DELETE_FROM,
    OMITTED,
    PATCH,
    RETAIN_KEYS,
    SET_ORDER,
    arrange_items,
    field_named_by,
    holds_objects,
    identities,
    identity,
    lookup,
    merge_value,
    without_directives,
    wrong_type,
)
from sampan.machinery.patch.errors import (
    MalformedPatch,
    PatchError,
    TooManyOperations,
    are_identical,
    cannot_unmarshal,
    limit_depth,
)

Object = dict[str, Any]


class _MergeState:
    """The state of one application of a patch: whether it is joined with another patch, and the remaining budget for
    merging items of lists that the patch names repeatedly."""

    __slots__ = ("join", "repeated", "room")

    def __init__(self, *, join: bool) -> None:
        self.join = join
        self.repeated = 0
        """The current nesting depth of repeated items that are being merged."""
        self.room = limits.PATCH_REPEATED_ITEMS

    def spend(self, items: int) -> None:
        if self.repeated:
            self.room -= items
            if self.room < 0:
                raise TooManyOperations("The patch merges the same items of lists too often")


def check_strategic_patch(patch: Any) -> Object:
    """Return a decoded patch body. Raise MalformedPatch with kube-apiserver's message."""
    if not isinstance(patch, dict | None):
        raise MalformedPatch(cannot_unmarshal(patch, "value of type map[string]interface {}"))
    return patch or {}


@limit_depth
def apply_strategic_patch(document: Object, patch: Object, schema: Schema) -> Object:
    """Return the document after the patch. It shares unchanged parts with both."""
    return _merge_object(document, patch, schema, _MergeState(join=False))


@limit_depth
def join_strategic_patches(first: Object, second: Object, schema: Schema) -> Object:
    """Return one patch with the effect of the two, one after the other."""
    return _merge_object(first, second, schema, _MergeState(join=True))


def _merge_object(original: Object, patch: Object, schema: Schema, run: _MergeState) -> Object:
    if PATCH in patch:
        return _apply_directive(patch)
    run.spend(len(original) + len(patch))
    result = original.copy()
    if any(key[:1] == "$" for key in patch):
        patch = patch.copy()
        _retain_keys(result, patch, run)
        _order_lists(result, patch, schema, run)
        _delete_from_lists(result, patch, schema, run)
    for key, value in patch.items():
        _merge_field(result, key, value, schema, run)
    return result


def _apply_directive(patch: Object) -> Object:
    match patch[PATCH]:
        case "replace":
            return {key: value for key, value in patch.items() if key != PATCH}
        case "delete":
            return {}
    raise _unknown_directive(patch)


def _unknown_directive(patch: Object) -> PatchError:
    return PatchError(f"unknown patch type: {gotext.text(patch[PATCH])} in map: {gotext.value(patch)}")


def _merge_field(result: Object, key: str, value: Any, schema: Schema, run: _MergeState) -> None:
    current = result.get(key)
    if value is None:
        result.pop(key, None)
        if run.join:
            result[key] = None
    elif isinstance(value, dict) and isinstance(current, dict):
        field = lookup(schema, key)
        is_replaced = "replace" in field.patch_strategy
        result[key] = value if is_replaced else _merge_object(current, value, field, run)
    elif isinstance(value, list) and isinstance(current, list):
        field = lookup(schema, key)
        result[key] = _merge_list(current, value, field, run) if "merge" in field.patch_strategy else value
    else:
        _take(result, key, without_directives(value, keep_nulls=run.join))


def _take(result: Object, key: str, value: Any) -> None:
    if value is OMITTED:
        result.pop(key, None)
    else:
        result[key] = value


def _retain_keys(result: Object, patch: Object, run: _MergeState) -> None:
    """Execute $retainKeys on the result and remove it from the patch."""
    if RETAIN_KEYS not in patch:
        return
    listed = patch.pop(RETAIN_KEYS)
    if run.join:
        if not are_identical(result.setdefault(RETAIN_KEYS, listed), listed):
            mismatch = f"{gotext.value(result[RETAIN_KEYS])} and {gotext.value(listed)} are not deep equal"
            raise PatchError(f"{mismatch}: this may happen when calculating the 3-way diff patch")
        return
    if not isinstance(listed, list):
        raise MalformedPatch("invalid patch format of retainKeys")
    keys = {key for key in listed if isinstance(key, str)}
    if any(value is not None and key not in keys for key, value in patch.items() if not _is_about_a_list(key)):
        raise MalformedPatch("invalid patch format of retainKeys")
    for key in result.keys() - keys:
        del result[key]


def _is_about_a_list(key: str) -> bool:
    return key.startswith((DELETE_FROM, SET_ORDER))


def _order_lists(result: Object, patch: Object, schema: Schema, run: _MergeState) -> None:
    """Merge the lists for which the patch gives an order, sort them, and remove the lists and their orders from the
    patch."""
    for key in [key for key in patch if key.startswith(SET_ORDER)]:
        order = patch.pop(key)
        if run.join and not are_identical(result.setdefault(key, order), order):
            raise MalformedPatch("invalid patch format of setElementOrder list")
        if not isinstance(order, list):
            raise wrong_type(list, order)
        _order_list(result, patch, field_named_by(key, SET_ORDER), order, schema, run)


def _order_list(result: Object, patch: Object, name: str, order: list[Any], schema: Schema, run: _MergeState) -> None:
    current, value = result.get(name, []), patch.get(name, [])
    for part in (current, value):
        if not isinstance(part, list):
            raise wrong_type(list, part)
    field = _lookup_list(schema, name)
    _check_against_order(value, order, field.patch_key)
    if name not in result and name not in patch:
        return
    key = field.patch_key
    if holds_objects(current, value):
        key = _merge_key(field)
    merged, live = current, current
    if name not in result:
        merged = without_directives(value, keep_nulls=True)
    elif name in patch and "merge" in field.patch_strategy:
        merged, live = _merge_list(current, value, field, run), _live_order(current, value, key)
    elif name in patch:
        merged = value
    result[name] = arrange_items(merged, key, order=order, live=live)
    patch.pop(name, None)


def _live_order(current: list[Any], patch: list[Any], key: str) -> list[Any]:
    """Return the order of the object's list as kube-apiserver sees it after merging. It removes deleted items from the
    list in place, and new items reuse the freed space at its end, as many as fit. These new items count as items of the
    object that come after all others."""
    if not key or not current or any(item.get(PATCH) == "replace" for item in patch):
        return current
    remaining, plain = _apply_item_directives(current, patch, key)
    marks = set(identities(remaining, key))
    new = {mark: item for mark, item in zip(identities(plain, key), plain, strict=True) if mark not in marks}
    return remaining + list(new.values())[: len(current) - len(remaining)]


def _lookup_list(schema: Schema, name: str) -> Schema:
    field = lookup(schema, name)
    if field.type not in ("array", ""):
        raise PatchError("expected slice or array type, but got: struct")
    return field


def _check_against_order(patch: list[Any], order: list[Any], key: str) -> None:
    """Raise PatchError if the items of the patch are not in the order that it specifies. Deletions do not count."""
    if not patch or not order:
        return
    items = [item for item in patch if not (key and _directive_of(item) == "delete")]
    position = order_position = 0
    while position < len(items) and order_position < len(order):
        if isinstance(items[position], dict) and PATCH in items[position]:
            position += 1
            continue
        left, right = identities([items[position], order[order_position]], key)
        position += left == right
        order_position += 1
    if position < len(items):
        shown = f"The order in patch list:\n{gotext.value(patch)}\n doesn't match {SET_ORDER} list:"
        raise PatchError(f"{shown}\n{gotext.value(order)}\n")


def _directive_of(item: Any) -> Any:
    if not isinstance(item, dict):
        raise wrong_type(dict, item)
    return item.get(PATCH)


def _delete_from_lists(result: Object, patch: Object, schema: Schema, run: _MergeState) -> None:
    """Execute $deleteFromPrimitiveList on the result, after merging the list itself, and remove the directive and the
    list from the patch."""
    for key in [key for key in patch if key.startswith(DELETE_FROM)]:
        deleted = patch.pop(key)
        if run.join:
            result[key] = deleted
            continue
        name = field_named_by(key, DELETE_FROM)
        if name in patch:
            _merge_field(result, name, patch.pop(name), schema, run)
        _delete_from(result, name, deleted, schema, run)


def _delete_from(result: Object, name: str, deleted: Any, schema: Schema, run: _MergeState) -> None:
    current = result.get(name)
    if deleted is None:
        result.pop(name, None)
    elif not isinstance(current, list) or not isinstance(deleted, list):
        # kube-apiserver then treats the directive as a plain patch of the field, if the types are the same.
        if type(current) is type(deleted):
            _merge_field(result, name, deleted, schema, run)
    elif current or deleted:
        field = lookup(schema, name)
        if holds_objects(current, deleted):
            result[name] = _merge_list(current, deleted, field, run)
        else:
            marks = set(identities(deleted, ""))
            result[name] = [item for item in current if identity(item) not in marks]


def _merge_list(original: list[Any], patch: list[Any], field: Schema, run: _MergeState) -> list[Any]:
    if not original and not patch:
        return original
    run.spend(len(original) + len(patch))
    if not holds_objects(original, patch):
        merged = {identity(item): item for item in (*original, *patch)}
        return arrange_items(list(merged.values()), field.patch_key, order=patch, live=original)
    key = _merge_key(field)
    original, patch = _apply_item_directives(original, patch, key)
    merged_items = _merge_items(original, patch, field.items or field, key, run)
    return arrange_items(merged_items, key, order=patch, live=original)


def _merge_key(field: Schema) -> str:
    if not field.patch_key:
        raise PatchError("cannot merge lists without merge key for struct")
    return field.patch_key


def _apply_item_directives(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Execute the items that contain `$patch`; return the remaining items of the object's list and of the patch."""
    plain = [item for item in patch if PATCH not in item]
    if len(plain) == len(patch):
        return original, plain
    special = [item for item in patch if PATCH in item]
    deleted = {identity(merge_value(item, key)) for item in special if _check_directive(item) == "delete"}
    if any(item[PATCH] == "replace" for item in special):
        return plain, []
    return [item for item in original if key not in item or identity(item[key]) not in deleted], plain


def _check_directive(item: Object) -> Any:
    if item[PATCH] == "merge":
        raise PatchError("merging lists cannot yet be specified in the patch")
    if item[PATCH] not in ("delete", "replace"):
        raise _unknown_directive(item)
    return item[PATCH]


def _merge_items(original: list[Any], patch: list[Any], schema: Schema, key: str, run: _MergeState) -> list[Any]:
    merged = list(original)
    positions: dict[Any, int] = {}
    for position, item in enumerate(original):
        if key in item:
            positions.setdefault(identity(item[key]), position)
    named: set[Any] = set()
    for item in patch:
        mark = identity(merge_value(item, key))
        position = positions.setdefault(mark, len(merged))
        if position == len(merged):
            merged.append(item)
        else:
            is_repeated = mark in named
            run.repeated += is_repeated
            merged[position] = _merge_object(merged[position], item, schema, run)
            run.repeated -= is_repeated
        named.add(mark)
    return merged
