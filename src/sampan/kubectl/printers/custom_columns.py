"""Print chosen fields of objects in columns: `-o custom-columns=NAME:.metadata.name` (`cmd/get/customcolumn.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from sampan.kubectl.errors import KubectlError
from sampan.kubectl.printers.jsonpath import normalize_path
from sampan.kubectl.printers.objects import is_list
from sampan.kubectl.printers.table import escape_terminal_codes, table_lines
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate

_FORMAT = "Expected format is one line of space separated headers, one line of space separated column specs."


@dataclass(slots=True)
class CustomColumnsPrinter:
    headers: Sequence[str]
    paths: Sequence[str]
    has_headers: bool = True
    _is_list: bool | None = None
    _widths: list[int] = field(default_factory=list)

    def print(self, value: dict[str, Any]) -> None:
        rows, failure = [list(self.headers)] if self.has_headers and self._is_list != is_list(value) else [], ""
        self._is_list = is_list(value)
        try:
            templates = [JsonPathTemplate(path) for path in self.paths]
            items = value["items"] if self._is_list else [value]
            rows.extend([_cell(template, item) for template in templates] for item in items)
        except JsonPathError as error:
            failure = str(error)
        for line in table_lines(rows, self._widths):
            click.echo(line)
        if failure:
            raise KubectlError(failure)


def columns_from_text(text: str, *, has_headers: bool) -> CustomColumnsPrinter:
    """Return a printer for HEADER:PATH pairs, separated by commas."""
    if not text:
        raise KubectlError("custom-columns format specified but no custom columns given")
    headers, paths = [], []
    for part in text.split(","):
        header, colon, path = part.partition(":")
        if not colon:
            raise KubectlError(f"unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>")
        headers.append(header)
        paths.append(_normalize_path(path))
    return CustomColumnsPrinter(headers, paths, has_headers)


def columns_from_file(path: str) -> CustomColumnsPrinter:
    """Return a printer for a file with a line of headers and a line of paths."""
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError as error:
        raise KubectlError(f"error reading template {path}, open {path}: {(error.strerror or '').lower()}\n") from None
    for number, name in enumerate(("header", "spec")):
        if len(lines) <= number:
            raise KubectlError(f"invalid template, missing {name} line. {_FORMAT}")
    headers, paths = lines[0].split(), lines[1].split()
    if len(headers) != len(paths):
        counts = f"number of headers ({len(headers)}) and field specifications ({len(paths)})"
        raise KubectlError(f"{counts} don't match")
    return CustomColumnsPrinter(headers, [_normalize_path(path) for path in paths])


def _normalize_path(path: str) -> str:
    try:
        return normalize_path(path)
    except JsonPathError as error:
        raise KubectlError(str(error)) from None


def _cell(template: JsonPathTemplate, item: Any) -> str:
    from sampan.api.go_compat import gotext

    results = template.find(item)
    values = [escape_terminal_codes(gotext.value(value)) for part in results for value in part]
    if not results or not results[0]:
        values.insert(0, "<none>")
    return ",".join(values)
