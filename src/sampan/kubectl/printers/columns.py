"""Align tab-separated cells in columns, as Go's text/tabwriter does. A column is a block of adjacent lines."""

from __future__ import annotations

from collections.abc import Sequence

_GAP = 2


def align_columns(lines: Sequence[str]) -> list[str]:
    rows = [line.split("\t") for line in lines]
    widths: list[list[int]] = [[] for _ in rows]
    _measure(rows, widths, 0, 0, len(rows))
    return [
        "".join(cell.ljust(width) for cell, width in zip(row, row_widths, strict=False)) + row[-1]
        for row, row_widths in zip(rows, widths, strict=True)
    ]


def _measure(rows: Sequence[Sequence[str]], widths: list[list[int]], column: int, start: int, end: int) -> None:
    """Compute the width of a column in each block of adjacent lines that have it, and recursively those of later
    columns."""
    index = start
    while index < end:
        first = index
        while index < end and len(rows[index]) - 1 > column:
            index += 1
        if index == first:
            index += 1
            continue
        width = max(len(row[column]) for row in rows[first:index]) + _GAP
        for row_widths in widths[first:index]:
            row_widths.append(width)
        _measure(rows, widths, column + 1, first, index)
