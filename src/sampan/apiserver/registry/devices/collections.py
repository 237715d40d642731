"""Validation of lists and maps with a maximum size: the items of a list that is too long are not validated."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec.formats import Faults

Item = TypeVar("Item")
Check = Callable[[Item, str], Iterable[FieldError]]
_SHORTEST_KEY = 16


def each(items: Sequence[Item], most: int, check: Check[Item], at: str) -> Faults:
    if len(items) > most:
        yield FieldError.too_many(at, len(items), most)
        return
    for index, item in enumerate(items):
        yield from check(item, f"{at}[{index}]")


def distinct(items: Sequence[Item], most: int, check: Check[Item], key: Callable[[Item], Hashable], at: str) -> Faults:
    """Yield the errors of a list whose items must have distinct keys."""
    yield from each(items, most, check, at)
    if len(items) > most:
        return
    keys: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in keys:
            yield FieldError.duplicate(f"{at}[{index}]", key(item))
        keys.add(key(item))


def entries(found: Mapping[str, Any], longest: int, key_faults: Check[str], check: Check[Any], at: str) -> Faults:
    """Yield the errors of a map. In field paths, keys longer than `longest` are abbreviated in the middle."""
    for key in sorted(found):
        yield from key_faults(key, at)
        yield from check(found[key], f"{at}[{_cut(key, max(longest, _SHORTEST_KEY))}]")


def _cut(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = longest - 3
    return f"{text[: (kept + 1) // 2]}...{text[len(text) - kept // 2 :]}"


def itself(item: str) -> str:
    return item
