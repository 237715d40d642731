"""The validation of a single value by one tag.

A check gets the value, the value before an update (None for a create, and for a part that is new), its path, and
whether the operation is an update. The caller skips unchanged values: a check of an immutable field need not compare.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.field_errors import FieldError
from sampan.api.go_compat.gotext import compact_json
from sampan.api.names import size
from sampan.apiserver.registry.declarative.formats import FORMATS

Check = Callable[[Any, Any, str, bool], Iterable[FieldError]]
HasValue = Callable[[Any], bool]
ItemKey = Callable[[Any], Any]
"""A function that returns what identifies an item of a list."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def is_present(value: Any) -> bool:
    """Whether a pointer is not nil."""
    return value is not None


def make_item_key(keys: Sequence[str]) -> ItemKey:
    """Return the identity of items of a map-like list (by its keys), or of a set (the whole item)."""
    if keys:
        return lambda item: tuple(getattr(item, key) for key in keys)
    return lambda item: item if isinstance(item, str | int | float) else _encode(item)


def check_required(has_value: HasValue) -> Check:
    return lambda value, old, path, update: () if has_value(value) else (FieldError.required(path),)


def check_forbidden(has_value: HasValue) -> Check:
    return lambda value, old, path, update: (FieldError.forbidden(path, ""),) if has_value(value) else ()


def check_immutable(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
    return (FieldError.invalid(path, None, "field is immutable"),) if update else ()


def check_monotonic(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
    if update and value is not None and old is not None and value < old:
        yield FieldError.invalid(path, value, f"may not be decreased from {old}")


def check_max_items(limit: int) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        return (FieldError.too_many(path, len(value), limit),) if value and len(value) > limit else ()

    return check


def check_max_bytes(limit: int) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        return (FieldError.too_long(path, limit),) if value and size(value) > limit else ()

    return check


def check_max_length(limit: int) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        return (FieldError.too_long(path, limit, "character"),) if value and len(value) > limit else ()

    return check


def check_minimum(limit: int) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        if value is not None and value < limit:
            yield FieldError.invalid(path, value, f"must be greater than or equal to {limit}")

    return check


def check_maximum(limit: int) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        if value is not None and value > limit:
            yield FieldError.invalid(path, value, f"must be less than or equal to {limit}")

    return check


def check_enum(values: Sequence[str]) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        return () if value is None or value in values else (FieldError.not_supported(path, value, values),)

    return check


def check_format(name: str) -> Check:
    list_errors = FORMATS[name]
    return lambda value, old, path, update: () if value is None else list_errors(value, path)


def check_unique(item_key: ItemKey) -> Check:
    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        keys: set[Any] = set()
        for index, item in enumerate(value or ()):
            key = item_key(item)
            if key in keys:
                shown = item if isinstance(item, str) else msgspec.Raw(compact_json(_encode(item)))
                yield FieldError.duplicate(f"{path}[{index}]", shown)
            keys.add(key)

    return check


def check_update(constraints: Iterable[str], has_value: HasValue, item_key: ItemKey | None) -> Check:
    """Return the check of what an update may do to a value or to the items of a list."""
    ordered = sorted(constraints, key=_CONSTRAINTS.index)

    def check(value: Any, old: Any, path: str, update: bool) -> Iterable[FieldError]:
        if not update:
            return
        is_set, was_set = has_value(value), has_value(old)
        for constraint in ordered:
            if constraint in _TRANSITIONS:
                before, after, text = _TRANSITIONS[constraint]
                if (was_set, is_set) == (before, after):
                    yield FieldError.invalid(path, None, text)
            elif item_key is not None:
                yield from _check_items(constraint, value or (), old or (), path, item_key)

    return check


_CONSTRAINTS = ("NoSet", "NoUnset", "NoModify", "NoAddItem", "NoRemoveItem")
_TRANSITIONS: Mapping[str, tuple[bool, bool, str]] = {
    "NoSet": (False, True, "field cannot be set once created"),
    "NoUnset": (True, False, "field cannot be cleared once set"),
    "NoModify": (True, True, "field cannot be modified once set"),
}
"""Whether the field had and has a value in a forbidden transition, and the message of the error."""


def _check_items(constraint: str, value: Any, old: Any, path: str, item_key: ItemKey) -> Iterable[FieldError]:
    if constraint == "NoAddItem":
        old_keys = {item_key(item) for item in old}
        for index, item in enumerate(value):
            if item_key(item) not in old_keys:
                yield FieldError.forbidden(f"{path}[{index}]", "item may not be added")
        return
    keys = {item_key(item) for item in value}
    for item in old:
        if item_key(item) not in keys:
            yield FieldError.forbidden(path, "item may not be removed")
