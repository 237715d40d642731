"""Print tables and objects in the formats of kubectl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

_GAP = 3
_LEAST = 6


def print_table(rows: Sequence[Sequence[str]]) -> None:
    for line in table_lines(rows):
        click.echo(line)


def table_lines(rows: Sequence[Sequence[str]], widths: list[int] | None = None) -> Iterable[str]:
    """Return lines with columns as wide as their widest cell. `widths` are the widths of earlier rows, which are
    updated."""
    if not rows:
        return []
    count = max(len(row) for row in rows)
    column_widths = widths if widths is not None else []
    column_widths += [0] * (count - len(column_widths))
    for row in rows:
        for column, cell in enumerate(row):
            column_widths[column] = max(column_widths[column], len(cell) + _GAP, _LEAST)
    return [
        "".join(cell.ljust(column_widths[column]) for column, cell in enumerate(row[:-1])) + row[-1] for row in rows
    ]


def as_yaml(value: Any) -> str:
    from sampan.api.codec import yaml

    return yaml.encode(value).decode().rstrip("\n")


def as_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=4).decode()


def without_managed_fields(value: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: part for key, part in value.get("metadata", {}).items() if key != "managedFields"}
    return {**value, "metadata": metadata} if "metadata" in value else value


def cell_text(cell: Any) -> str:
    if cell is None:
        return "<none>"
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell)
