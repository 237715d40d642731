"""The order of a merged list.

The items that the patch names stand as the patch has them, the others as the object has them. An item of the object
goes before the first item of the patch that came after it in the object; an item that is new is passed by nothing, so
new items stand as far to the front as the patch allows.
"""

from collections.abc import Sequence
from typing import Any

from sampan.machinery.patch.directives import PATCH, Identity, identities

Ranks = dict[Identity, int]


def arranged(items: Sequence[Any], key: str, *, wanted: Sequence[Any], live: Sequence[Any]) -> list[Any]:
    """`items` in order. `wanted` has the patch's order, `live` the object's; both may hold only the merge keys."""
    by_patch, by_object = _ranks(identities(wanted, key)), _ranks(identities(live, key))
    named: list[tuple[Identity, Any]] = []
    others: list[tuple[Identity, Any]] = []
    for mark, item in zip(identities(items, key), items, strict=True):
        (named if mark in by_patch else others).append((mark, item))
    return _interleaved(_sorted(others, by_object), _sorted(named, by_patch), by_object)


def _ranks(marks: Sequence[Identity]) -> Ranks:
    ranks: Ranks = {}
    for rank, mark in enumerate(marks):
        ranks.setdefault(mark, rank)
    return ranks


def _sorted(marked: list[tuple[Identity, Any]], ranks: Ranks) -> list[tuple[Identity, Any]]:
    """By rank; items that are to be deleted (in a patch of a patch) come last, as they are."""
    deletions = [pair for pair in marked if isinstance(pair[1], dict) and pair[1].get(PATCH) == "delete"]
    kept = [pair for pair in marked if pair not in deletions] if deletions else marked
    if all(mark in ranks for mark, _ in kept):
        kept = sorted(kept, key=lambda pair: ranks[pair[0]])
    else:
        kept = _insertion_sorted(kept, ranks)
    return kept + deletions


def _insertion_sorted(marked: list[tuple[Identity, Any]], ranks: Ranks) -> list[tuple[Identity, Any]]:
    """An item without a rank counts as smaller than all, and all as smaller than it: the real server's comparison,
    whose outcome depends on how one sorts. It sorts short lists by insertion."""
    done: list[tuple[Identity, Any]] = []
    for pair in marked:
        place = len(done)
        while place and _is_before(pair[0], done[place - 1][0], ranks):
            place -= 1
        done.insert(place, pair)
    return done


def _is_before(left: Identity, right: Identity, ranks: Ranks) -> bool:
    return ranks[left] < ranks[right] if left in ranks and right in ranks else True


def _interleaved(others: list[tuple[Identity, Any]], named: list[tuple[Identity, Any]], by_object: Ranks) -> list[Any]:
    result: list[Any] = []
    place = 0
    for mark, item in named:
        rank = by_object.get(mark)
        while rank is not None and place < len(others) and by_object.get(others[place][0], rank) < rank:
            result.append(others[place][1])
            place += 1
        result.append(item)
    result.extend(item for _, item in others[place:])
    return result


__all__ = ["arranged"]
