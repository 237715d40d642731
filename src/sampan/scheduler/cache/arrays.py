"""Array types that the scheduler's modules share, arrays that grow, and a log of changed rows."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

Rows: TypeAlias = slice | NDArray[np.intp]
"""Rows of the node table: a slice for a contiguous range (indexing copies nothing), or an array of row numbers."""

A = TypeVar("A", bound=np.generic)


def count_of(rows: Rows) -> int:
    return int(rows.stop - (rows.start or 0)) if isinstance(rows, slice) else len(rows)


def numbers_of(rows: Rows) -> NDArray[np.intp]:
    return np.arange(rows.start or 0, rows.stop, dtype=np.intp) if isinstance(rows, slice) else rows


def grow_array(array: NDArray[A], size: int, fill: Any = 0) -> NDArray[A]:
    """Return a longer copy of the array; its last axis grows to `size`."""
    larger = np.full((*array.shape[:-1], size), fill, dtype=array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


_MAX_CHANGES = 8192


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
        if len(self._rows) > _MAX_CHANGES:
            del self._rows[: _MAX_CHANGES // 2]
            self._base += _MAX_CHANGES // 2

    def forget(self) -> None:
        """Drop all entries, so that every reader has to treat all rows as changed."""
        self._base += len(self._rows) + 1
        self._rows.clear()

    def list_changes_since(self, position: int) -> NDArray[np.intp] | None:
        """Return the distinct rows that changed since the position, or None if the log does not reach that far."""
        if position < self._base:
            return None
        return np.array(sorted(set(self._rows[position - self._base :])), dtype=np.intp)
