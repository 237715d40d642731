"""A log of changed table rows, so that a cache of per-row results recomputes only those rows."""

import numpy as np
from numpy.typing import NDArray

_MOST = 8192


class ChangeLog:
    def __init__(self) -> None:
        self._rows: list[int] = []
        self._base = 0
        """The number of entries that were dropped from the front."""

    @property
    def position(self) -> int:
        return self._base + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > _MOST:
            del self._rows[: _MOST // 2]
            self._base += _MOST // 2

    def forget(self) -> None:
        """Drop all entries, so that every reader has to treat all rows as changed."""
        self._base += len(self._rows) + 1
        self._rows.clear()

    def since(self, position: int) -> NDArray[np.intp] | None:
        """Return the distinct rows that changed since the position, or None if the log does not reach that far."""
        if position < self._base:
            return None
        return np.array(sorted(set(self._rows[position - self._base :])), dtype=np.intp)
