"""Texts with tabs, as columns: a cell is as wide as the widest above and below it, up to a line that has none there."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = 2


def aligned(lines: Sequence[str]) -> list[str]:
    rows = [line.split("\t") for line in lines]
    widths: list[list[int]] = [[] for _ in rows]
    _measure(rows, widths, 0, 0, len(rows))
    return [
        "".join(cell.ljust(width) for cell, width in zip(row, found, strict=False)) + row[-1]
        for row, found in zip(rows, widths, strict=True)
    ]


def _measure(rows: Sequence[Sequence[str]], widths: list[list[int]], column: int, start: int, end: int) -> None:
    """Find the width of a column in each run of lines that have it, and within those of the columns after it."""
    at = start
    while at < end:
        first = at
        while at < end and len(rows[at]) - 1 > column:
            at += 1
        if at == first:
            at += 1
            continue
        width = max(len(row[column]) for row in rows[first:at]) + _GAP
        for found in widths[first:at]:
            found.append(width)
        _measure(rows, widths, column + 1, first, at)
