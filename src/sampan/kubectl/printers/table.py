"""Tables of the server, with the columns that flags add, and the alignment of all tables
(`cli-runtime/pkg/printers/tableprinter.go` and `tabwriter.go`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

_GAP = 3
_MIN_COLUMN_WIDTH = 6
_EVENT_TYPES = {"ADDED": "ADDED   ", "MODIFIED": "MODIFIED", "DELETED": "DELETED ", "ERROR": "ERROR   "}


def print_table(rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(rows):
        click.echo(line)


def table_lines(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> Iterable[str]:
    """Return lines with columns as wide as their widest cell. `widths` are the widths of earlier rows, which are
    updated. The last cell of a row is not padded."""
    if not rows:
        return []
    count = max(len(row) for row in rows)
    column_widths = widths if widths is not None else []
    column_widths += [0] * (count - len(column_widths))
    for row in rows:
        for column, cell in enumerate(row):
            column_widths[column] = max(column_widths[column], len(cell) + _GAP, _MIN_COLUMN_WIDTH)
    return [
        "".join(cell.ljust(column_widths[column]) for column, cell in enumerate(row[:-1])) + row[-1] if row else ""
        for row in rows
    ]


def cell_text(cell: Any) -> str:
    """Return a cell of a Table as text: only the first line, without control characters."""
    if cell is None:
        return ""
    if not isinstance(cell, str):
        from sampan.api.go_compat import gotext

        return gotext.value(cell)
    end = min((index for index in map(cell.find, "\f\n\r") if index >= 0), default=-1)
    return escape_terminal_codes(cell) if end < 0 else escape_terminal_codes(cell[:end]) + "..."


def escape_terminal_codes(text: str) -> str:
    """Replace the escape character, with which a text could control the terminal."""
    return text.replace("\x1b", "^[")


@dataclass(slots=True, kw_only=True)
class TablePrinter:
    """Prints Tables below each other. The header is printed once for tables with the same columns."""

    kind_prefix: str = ""
    """The resource type that is printed before each name, for output with several types."""
    has_namespace: bool = False
    is_wide: bool = False
    has_headers: bool = True
    has_labels: bool = False
    label_columns: Sequence[str] = ()
    _widths: list[int] = field(default_factory=list)
    _columns: list[Mapping[str, Any]] | None = None
    _has_printed_header: bool = False

    def lines(self, tables: Iterable[Mapping[str, Any]], event_type: str = "") -> list[str]:
        """Return the lines of tables, aligned with each other and with lines of earlier calls."""
        return list(table_lines([row for table in tables for row in self._rows(table, event_type)], self._widths))

    def _rows(self, table: Mapping[str, Any], event_type: str) -> list[list[str]]:
        """Return the cells of each line of a table, with the header if it must be printed. A Table in a watch event may
        omit the column definitions."""
        columns = list(table.get("columnDefinitions") or ()) or self._columns or []
        if columns != self._columns:
            self._columns, self._has_printed_header = columns, False
        rows = list(table.get("rows") or ())
        lines: list[list[str]] = []
        if self.has_headers and rows and not self._has_printed_header:
            lines.append(self._header(columns, event_type))
            self._has_printed_header = True
        return lines + [self._row(row, columns, event_type) for row in rows]

    def _select_columns(self, columns: Sequence[Mapping[str, Any]]) -> list[int]:
        return [index for index, column in enumerate(columns) if self.is_wide or not column.get("priority")]

    def _header(self, columns: Sequence[Mapping[str, Any]], event_type: str) -> list[str]:
        header = ["EVENT"] if event_type else []
        header += ["NAMESPACE"] if self.has_namespace else []
        header += [str(columns[index].get("name", "")).upper() for index in self._select_columns(columns)]
        header += [label.rpartition("/")[2].upper() for label in self.label_columns]
        return header + (["LABELS"] if self.has_labels else [])

    def _row(self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], event_type: str) -> list[str]:
        metadata = (row.get("object") or {}).get("metadata") or {}
        values = list(row.get("cells") or ())
        cells = [_EVENT_TYPES.get(event_type, event_type)] if event_type else []
        cells += [str(metadata.get("namespace") or "")] if self.has_namespace else []
        name = next((index for index, column in enumerate(columns) if column.get("format") == "name"), -1)
        for index in self._select_columns(columns):
            text = cell_text(values[index]) if index < len(values) else ""
            cells.append(f"{self.kind_prefix}/{text}" if self.kind_prefix and index == name else text)
        labels = metadata.get("labels") or {}
        cells += [str(labels.get(label, "")) for label in self.label_columns]
        return cells + ([format_labels(labels)] if self.has_labels else [])


def format_labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"
