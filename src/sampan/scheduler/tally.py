"""Counts of the pods of one sort per node and per topology domain."""

import weakref

import numpy as np

from sampan.scheduler.arrays import Flags, Ints, grown
from sampan.scheduler.label_columns import MISSING, LabelColumn


class Tally:
    """The number of pods of one sort per node; referenced domain sums are updated with every change."""

    __slots__ = ("__weakref__", "_by_key", "_sums", "per_node", "total")

    def __init__(self, size: int) -> None:
        self.per_node: Ints = np.zeros(size, dtype=np.int64)
        self.total = 0
        self._sums: weakref.WeakSet[DomainSums] = weakref.WeakSet()
        self._by_key: dict[str, DomainSums] = {}

    def add(self, row: int, by: int) -> None:
        self.per_node[row] += by
        self.total += by
        for sums in self._sums:
            sums.add(row, by)

    def grow(self, size: int) -> None:
        self.per_node = grown(self.per_node, size)

    def by_domain(self, column: LabelColumn, shape: int) -> "DomainSums":
        """Return the sums over all nodes with the label, for this shape of the table; kept as long as the tally."""
        sums = self._by_key.get(column.key)
        if sums is None:
            sums = self._by_key[column.key] = DomainSums(self, column, None, shape)
        elif sums.shape != shape:
            sums.rebuild(None, shape)
        return sums

    def watch(self, sums: "DomainSums") -> None:
        self._sums.add(sums)


class DomainSums:
    """A tally summed by the value of a label, over the nodes in the mask (None for all nodes with the label)."""

    __slots__ = ("__weakref__", "_column", "_mask", "_tally", "shape", "values")

    def __init__(self, tally: Tally, column: LabelColumn, mask: Flags | None, shape: int) -> None:
        self._tally, self._column = tally, column
        tally.watch(self)
        self.rebuild(mask, shape)

    def rebuild(self, mask: Flags | None, shape: int) -> None:
        """Recompute the sums after nodes were added or removed, or changed their labels."""
        self._mask, self.shape = mask, shape
        codes = self._column.codes
        chosen = codes != MISSING
        if mask is not None:
            chosen[: len(mask)] &= mask
            chosen[len(mask) :] = False
        size = len(self._column.values) + 1
        weights = self._tally.per_node[: len(codes)][chosen]
        self.values: Ints = np.bincount(codes[chosen], weights=weights, minlength=size).astype(np.int64)

    def add(self, row: int, by: int) -> None:
        if self._mask is not None and not (row < len(self._mask) and self._mask[row]):
            return
        code = self._column.codes[row]
        if code != MISSING and code < len(self.values):
            self.values[code] += by

    def of_nodes(self, codes: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Ints:
        """Return the sum of each node's domain.

        A node without the label has the code MISSING (-1), which selects the last entry, always 0.
        """
        sums: Ints = self.values[codes]
        return sums
