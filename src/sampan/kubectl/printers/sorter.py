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
    order = sorted(range(len(items)), key=lambda index: key(fields[index]))
    return [items[index] for index in order]


def _first_result(results: list[list[Any]]) -> list[Any]:
    return results[0][:1] if results else []


def _compare(first: list[Any], second: list[Any]) -> int:
    if not (first and second):
        return len(first) - len(second)
    return -1 if _is_less(first[0], second[0]) else int(_is_less(second[0], first[0]))


def _is_less(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is None and second is not None
    if isinstance(first, str) and isinstance(second, str):
        return _is_less_text(first, second)
    if isinstance(first, (int, float)) and type(first) is type(second) and not isinstance(first, bool):
        return first < second
    raise KubectlError(f"unsortable type: {type(first).__name__}")


def _is_less_text(first: str, second: str) -> bool:
    from sampan.api.values import quantity

    if first[:1].isdigit() and second[:1].isdigit():
        try:
            return quantity.from_json(first).milli_value() < quantity.from_json(second).milli_value()
        except ValueError:
            return first < second
    return first < second
