"""Tie-breaking between nodes with the same best score: round robin, or random with a seed."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray


class InTurn:
    """Picks the next row after the last one picked, in the order of rows."""

    def __init__(self) -> None:
        self._last = -1

    def pick(self, rows: NDArray[np.intp]) -> int:
        at = int(np.searchsorted(rows, self._last, side="right"))
        self._last = int(rows[at] if at < len(rows) else rows[0])
        return self._last


class Seeded:
    """Picks at random, reproducibly for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, rows: NDArray[np.intp]) -> int:
        return int(rows[self._random.randrange(len(rows))])


Picker = InTurn | Seeded
