"""Taints of nodes as numbered sets, and which of these sets the tolerations of a pod cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sampan.api.semantics.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    UNSCHEDULABLE,
    AnyTaint,
    find_untolerated_taints,
)
from sampan.api.types.core_v1 import Taint, Toleration
from sampan.scheduler.cache.arrays import Codes, Flags, Ints, grow_array


class TaintKey(NamedTuple):
    """The part of a taint that tolerations are compared with."""

    key: str
    value: str
    effect: str


UNSCHEDULABLE_TAINT = TaintKey(UNSCHEDULABLE, "", NO_SCHEDULE)


class TaintSets:
    """The taints of each node as the number of its set of taints; a cluster usually has few distinct sets."""

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.zeros(size, dtype=np.int32)
        self.sets: list[tuple[TaintKey, ...]] = [()]
        self._numbers: dict[tuple[TaintKey, ...], int] = {(): 0}

    def put(self, row: int, taints: Iterable[Taint]) -> None:
        key = tuple(TaintKey(taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.sets)
            self.sets.append(key)
        self.codes[row] = number

    def grow(self, size: int) -> None:
        self.codes = grow_array(self.codes, size)


def has_untolerated_taint(taints: Iterable[AnyTaint], tolerations: Sequence[Toleration]) -> bool:
    """Whether an untolerated NoSchedule or NoExecute taint is among the taints."""
    return bool(find_untolerated_taints(taints, tolerations, (NO_SCHEDULE, NO_EXECUTE)))


def count_untolerated_preferences(taints: Iterable[AnyTaint], tolerations: Sequence[Toleration]) -> int:
    """Return the number of untolerated PreferNoSchedule taints."""
    matching = [toleration for toleration in tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)]
    return len(find_untolerated_taints(taints, matching, (PREFER_NO_SCHEDULE,)))


def have_untolerated_taints(sets: Sequence[tuple[TaintKey, ...]], tolerations: Sequence[Toleration]) -> Flags:
    """Return the result of `has_untolerated_taint` for every set of taints."""
    return np.array([has_untolerated_taint(taints, tolerations) for taints in sets], dtype=np.bool_)


def count_untolerated_preferences_by_set(
    sets: Sequence[tuple[TaintKey, ...]], tolerations: Sequence[Toleration]
) -> Ints:
    return np.array([count_untolerated_preferences(taints, tolerations) for taints in sets], dtype=np.int64)
