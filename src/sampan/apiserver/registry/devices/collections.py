"""Validation of lists and maps with a maximum size: the items of a list that is too long are not validated."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import FieldErrors

Item = TypeVar("Item")
Check = Callable[[Item, str], Iterable[FieldError]]
_SHORTEST_KEY = 16


def validate_slice(items: Sequence[Item], most: int, check: Check[Item], at: str) -> FieldErrors:
    if len(items) > most:
        yield FieldError.too_many(at, len(items), most)
        return
    for index, item in enumerate(items):
        yield from check(item, f"{at}[{index}]")


def validate_set(
    items: Sequence[Item], most: int, check: Check[Item], key: Callable[[Item], Hashable], at: str
) -> FieldErrors:
    """Yield the errors of a list whose items must have distinct keys."""
    yield from validate_slice(items, most, check, at)
    if len(items) > most:
        return
    keys: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in keys:
            yield FieldError.duplicate(f"{at}[{index}]", key(item))
        keys.add(key(item))


def validate_map(
    mapping: Mapping[str, Any], longest: int, validate_key: Check[str], check: Check[Any], at: str
) -> FieldErrors:
    """Yield the errors of a map. In field paths, keys longer than `longest` are abbreviated in the middle."""
    for key in sorted(mapping):
        yield from validate_key(key, at)
        yield from check(mapping[key], f"{at}[{_cut(key, max(longest, _SHORTEST_KEY))}]")


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = longest - 3
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"


def itself(item: str) -> str:
    return item
