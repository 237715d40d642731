"""Computes JSON patches (RFC 6902) from two versions of a document, as in the response of a mutating webhook."""

from collections.abc import Iterator
from typing import Any

from sampan.machinery.patch.equality import same
from sampan.machinery.patch.faults import within_depth
from sampan.machinery.patch.json_patch import Operation


@within_depth
def json_diff(original: Any, modified: Any) -> list[Operation]:
    """Return the operations that turn `original` into `modified`, both objects or lists."""
    return list(_changes(original, modified, ""))


def _changes(old: Any, new: Any, path: str) -> Iterator[Operation]:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_changes(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_changes(old, new, path)
    else:
        yield {"op": "replace", "path": path, "value": new}


def _object_changes(old: dict[str, Any], new: dict[str, Any], path: str) -> Iterator[Operation]:
    for key in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    for key, value in new.items():
        if key in old:
            yield from _changes(old[key], value, f"{path}/{_escaped(key)}")
        else:
            yield {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}


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
    while start < shorter and same(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and same(old[-1 - end], new[-1 - end]):
        end += 1
    return start, end


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
