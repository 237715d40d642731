"""Sort objects and rows of tables by a field: `--sort-by=.metadata.name` (`cmd/get/sorter.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, TypeVar

from sampan.kubectl.command_line.flag_parser import quote_text
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.printers.jsonpath import normalize_path
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate

T = TypeVar("T")


def sort_by_field(items: Sequence[T], expression: str, object_of: Callable[[T], Any]) -> list[T]:
    """Return the items sorted by the field of their objects. Items without the field come first."""
    try:
        path = normalize_path(expression)
    except JsonPathError:
        path = expression
    try:
        template = JsonPathTemplate(path)
        fields = [_first_result(template.find(object_of(item))) for item in items]
    except JsonPathError as error:
        raise KubectlError(f"sorting error: {error}") from None
    if items and not any(fields):
        raise KubectlError(f"couldn't find any field with path {quote_text(path)} in the list of objects")
    key = cmp_to_key(_compare)
    order = sorted(range(len(items)), key=lambda at: key(fields[at]))
    return [items[at] for at in order]


def _first_result(results: list[list[Any]]) -> list[Any]:
    return results[0][:1] if results else []


def _compare(left: list[Any], right: list[Any]) -> int:
    if not (left and right):
        return len(left) - len(right)
    return -1 if _is_less(left[0], right[0]) else int(_is_less(right[0], left[0]))


def _is_less(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is None and right is not None
    if isinstance(left, str) and isinstance(right, str):
        return _is_less_text(left, right)
    if isinstance(left, (int, float)) and type(left) is type(right) and not isinstance(left, bool):
        return left < right
    raise KubectlError(f"unsortable type: {type(left).__name__}")


def _is_less_text(left: str, right: str) -> bool:
    from sampan.api.values import quantity

    if left[:1].isdigit() and right[:1].isdigit():
        try:
            return quantity.from_json(left).milli_value() < quantity.from_json(right).milli_value()
        except ValueError:
            return left < right
    return left < right
