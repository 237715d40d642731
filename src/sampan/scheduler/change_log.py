"""Which rows of the table changed, so that whoever remembers results looks again at those alone."""

import numpy as np
from numpy.typing import NDArray

_MOST = 8192


class ChangeLog:
    def __init__(self) -> None:
        self._rows: list[int] = []
        self._base = 0
        """How many entries were dropped from the front."""

    @property
    def position(self) -> int:
        return self._base + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > _MOST:
            del self._rows[: _MOST // 2]
            self._base += _MOST // 2

    def forget(self) -> None:
        """Everything may have changed."""
        self._base += len(self._rows) + 1
        self._rows.clear()

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The rows that changed since then, each once; None if that is too long ago to know."""
        if position < self._base:
            return None
        return np.array(sorted(set(self._rows[position - self._base :])), dtype=np.intp)


__all__ = ["ChangeLog"]
