"""Array types that the scheduler's modules share, and helpers for arrays that grow."""

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


def grown(array: NDArray[A], size: int, fill: Any = 0) -> NDArray[A]:
    """Return a longer copy of the array; its last axis grows to `size`."""
    larger = np.full((*array.shape[:-1], size), fill, dtype=array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger
