"""Scores of nodes: normalization to 0..100, and the choice between nodes with the same best score."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

from sampan.scheduler.cache.arrays import Ints

MAX_SCORE = 100


def normalize_to_highest(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale scores so that the highest becomes 100, or 0 with `reverse`; if all are zero, all become 0, or 100."""
    highest = int(scores.max()) if len(scores) else 0
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    scaled = MAX_SCORE * scores // highest
    return MAX_SCORE - scaled if reverse else scaled


def normalize_min_max(scores: Ints) -> Ints:
    """Scale scores so that the lowest becomes 0 and the highest 100; equal scores all become 0."""
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if highest == lowest:
        return np.zeros_like(scores)
    return (MAX_SCORE * ((scores - lowest) / (highest - lowest))).astype(np.int64)


class RoundRobin:
    """Picks the next row after the last one picked, in the order of rows."""

    def __init__(self) -> None:
        self._last = -1

    def pick(self, rows: NDArray[np.intp]) -> int:
        at = int(np.searchsorted(rows, self._last, side="right"))
        self._last = int(rows[at] if at < len(rows) else rows[0])
        return self._last


class SeededRandom:
    """Picks at random, reproducibly for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, rows: NDArray[np.intp]) -> int:
        return int(rows[self._random.randrange(len(rows))])


TieBreaker = RoundRobin | SeededRandom
