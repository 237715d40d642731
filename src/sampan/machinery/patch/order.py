"""The order of a merged list.

Items in the patch have the order of the patch, the others that of the object. An item of the object goes before the
first item of the patch that came after it in the object; no item of the object goes before a new item, so new items are
as far to the front as the patch allows.
"""

from collections.abc import Sequence
from typing import Any

from sampan.machinery.patch.directives import PATCH, Identity, identities

Ranks = dict[Identity, int]
Marked = list[tuple[Identity, Any]]
"""Items with their identities."""
_SHORT = 20


def arranged(items: Sequence[Any], key: str, *, wanted: Sequence[Any], live: Sequence[Any]) -> list[Any]:
    """Return `items` in order. `wanted` has the order of the patch, `live` that of the object; both may contain only
    the merge keys."""
    by_patch, by_object = _ranks(identities(wanted, key)), _ranks(identities(live, key))
    named: Marked = []
    others: Marked = []
    for mark, item in zip(identities(items, key), items, strict=True):
        (named if mark in by_patch else others).append((mark, item))
    return _interleaved(_sorted(others, by_object), _sorted(named, by_patch), by_object)


def _ranks(marks: Sequence[Identity]) -> Ranks:
    ranks: Ranks = {}
    for rank, mark in enumerate(marks):
        ranks.setdefault(mark, rank)
    return ranks


def _sorted(marked: Marked, ranks: Ranks) -> Marked:
    """Sort by rank; items that are deletions (in a patch of a patch) come last, unchanged."""
    kept = [pair for pair in marked if not _is_deletion(pair[1])]
    deletions = [pair for pair in marked if _is_deletion(pair[1])]
    if len(kept) <= _SHORT and not all(mark in ranks for mark, _ in kept):
        return _insertion_sorted(kept, ranks) + deletions
    return sorted(kept, key=lambda pair: ranks.get(pair[0], -1)) + deletions


def _is_deletion(item: Any) -> bool:
    return isinstance(item, dict) and item.get(PATCH) == "delete"


def _insertion_sorted(marked: Marked, ranks: Ranks) -> Marked:
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


def _interleaved(others: Marked, named: Marked, by_object: Ranks) -> list[Any]:
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
